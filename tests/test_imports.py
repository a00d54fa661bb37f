"""Imports go one way, and what is pure stays pure."""

from __future__ import annotations

import sys

import pytest

from gateway.wire import DIALECTS
from tests import source

LAYERS = ("gateway.core", "tenants", "gateway", "dashboard", "workers", "config")
CORE_LIBRARIES = {"xxhash", "ddsketch", "msgspec"}
PURE = ("gateway.core", "gateway.simulation")


def layer(name: str) -> int | None:
    """Position of the package that ``name`` belongs to; None for what is not ours."""
    for position, package in enumerate(LAYERS):
        if name == package or name.startswith(f"{package}."):
            return position
    return None


@pytest.mark.parametrize("name", sorted(source.modules()))
def test_module_imports_only_its_own_layer_and_lower_ones(name: str) -> None:
    own = layer(name)
    assert own is not None
    upward = [
        imported
        for imported in source.imports(source.modules()[name])
        if (other := layer(imported)) is not None and other > own
    ]
    assert upward == []


def test_nothing_imports_tests_or_deploy() -> None:
    guilty = [
        (name, imported)
        for name, tree in source.modules().items()
        for imported in source.imports(tree)
        if imported.split(".")[0] in ("tests", "deploy")
    ]
    assert guilty == []


def test_core_and_simulation_import_only_the_standard_library_and_named_libraries() -> None:
    allowed = set(sys.stdlib_module_names) | CORE_LIBRARIES
    guilty = [
        (name, imported)
        for name, tree in source.modules().items()
        if name.startswith(PURE)
        for imported in source.imports(tree)
        if imported.split(".")[0] not in allowed and not imported.startswith(PURE)
    ]
    assert guilty == []


def test_core_reads_no_clock_and_does_no_input_or_output() -> None:
    forbidden = ("time.time", "time.monotonic", "asyncio.", "socket.", "os.", "random.random")
    guilty = [
        (name, used)
        for name, tree in source.modules().items()
        if name.startswith("gateway.core") and name != "gateway.core.clock"
        for used in source.attributes(tree)
        if used.startswith(forbidden)
    ]
    assert guilty == []


def test_dialects_of_the_wire_do_not_know_each_other() -> None:
    """What two of them need stands beside them."""
    dialects = {dialect.__class__.__module__.rpartition(".")[0] for dialect in DIALECTS.values()}
    guilty = [
        (name, imported)
        for name, tree in source.modules().items()
        for own in dialects
        if name.startswith(f"{own}.")
        for imported in source.imports(tree)
        if imported.startswith(tuple(f"{other}." for other in dialects - {own}))
    ]
    assert len(dialects) > 1
    assert guilty == []


def test_layers_of_names_are_told_apart() -> None:
    assert layer("gateway.core.limits") == 0
    assert layer("gateway.corelike") == layer("gateway") == 2
    assert layer("django.conf") is None
