"""Which kinds of inference servers are known? One dict; a wheel outside may add to it.

An entry point of the group ``fairway.replicas`` names an ``Adapter`` object; its kind must be new.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from gateway.replicas.adapters.adapter import Adapter, MetricNames, Priority, Sharing
from gateway.replicas.adapters.llamacpp import LLAMACPP
from gateway.replicas.adapters.openai import OPENAI
from gateway.replicas.adapters.sglang import SGLANG
from gateway.replicas.adapters.tgi import TGI
from gateway.replicas.adapters.vllm import SIMULATED, VLLM

__all__ = [
    "ADAPTERS",
    "Adapter",
    "MetricNames",
    "Priority",
    "Sharing",
    "adapter_of",
    "load_plugins",
]


def adapter_of(kind: str) -> Adapter:
    """Raises ValueError that lists the known kinds."""
    try:
        return ADAPTERS[kind]
    except KeyError:
        known = ", ".join(sorted(ADAPTERS))
        raise ValueError(f"unknown replica kind {kind!r}; known: {known}") from None


def load_plugins() -> None:
    """Adds the adapters of installed wheels; called once at start. Raises ValueError on a clash."""
    for point in entry_points(group="fairway.replicas"):
        adapter: Adapter = point.load()
        if ADAPTERS.setdefault(adapter.kind, adapter) is not adapter:
            raise ValueError(f"replica kind {adapter.kind!r} of {point.value} exists already")


ADAPTERS: dict[str, Adapter] = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "tgi": TGI,
    "llamacpp": LLAMACPP,
    "simulated": SIMULATED,
    "openai": OPENAI,
}
