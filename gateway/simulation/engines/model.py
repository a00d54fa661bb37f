"""What is an engine model? The one interface of them all.

A model is pure: ``begin`` starts a step and says when it ends, ``complete`` ends it and tells the
tokens that came out. The same object runs from the simulator's event heap and, in real or virtual
time, behind HTTP. Between the two calls a request may be submitted or cancelled.
"""

from __future__ import annotations

from typing import Protocol

from gateway.simulation.engine import Emitted, EngineRequest


class EngineModel(Protocol):
    @property
    def running(self) -> int:
        """Requests in the batch."""
        ...

    @property
    def waiting(self) -> int:
        """Requests in the engine's own queue."""
        ...

    @property
    def kv_ratio(self) -> float:
        """0..1 of the KV memory that running requests hold."""
        ...

    @property
    def in_step(self) -> bool: ...

    def submit(self, request: EngineRequest) -> bool:
        """False = refused by the engine's own bound."""
        ...

    def cancel(self, request_id: str) -> None: ...

    def begin(self, now_s: float) -> float | None:
        """When the step ends; None = nothing to do."""
        ...

    def complete(self) -> list[Emitted]: ...
