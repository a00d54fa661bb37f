from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from gateway.replicas import adapters
from gateway.replicas.adapters import ADAPTERS, adapter_of, load_plugins
from gateway.replicas.adapters.openai import OPENAI


def offer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A wheel outside the repository that names an object of this module."""
    point = EntryPoint("own", f"{__name__}:{name}", "fairway.replicas")
    monkeypatch.setattr(adapters, "entry_points", lambda group: [point])
    monkeypatch.setattr(adapters, "ADAPTERS", dict(ADAPTERS))


OWN = replace(OPENAI, kind="own")
CLASHING = replace(OPENAI, kind="vllm")


@pytest.mark.parametrize("kind", sorted(ADAPTERS))
def test_kind_is_its_name_in_the_dict(kind: str) -> None:
    assert ADAPTERS[kind].kind == kind


def test_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="known: llamacpp, openai, sglang, simulated, tgi, vllm"):
        adapter_of("tgi2")


def test_wheel_outside_adds_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "OWN")
    load_plugins()
    assert adapter_of("own") is OWN


def test_wheel_outside_cannot_replace_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "CLASHING")
    with pytest.raises(ValueError, match="'vllm'"):
        load_plugins()


def test_simulated_replica_shares_the_names_of_vllm() -> None:
    assert ADAPTERS["simulated"].metrics == ADAPTERS["vllm"].metrics
