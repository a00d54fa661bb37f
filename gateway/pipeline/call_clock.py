"""When did what happen to one call? The only definitions of time; monotonic seconds.

TTFT = first token - arrival; first visible = first token that is not reasoning - arrival;
E2E = last content - arrival; TPOT = (last - first token) / (n - 1), absent for n < 2, where n is
the number of completion tokens and never the number of chunks. Identity for n >= 2: E2E = TTFT +
TPOT * (n - 1). A call without content has none of them: absent, never 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.core.clock import Clock


@dataclass(slots=True)
class CallClock:
    """Moments of one call. Those of an attempt are reset when another attempt starts."""

    source: Clock
    arrive_s: float
    body_s: float | None = None
    admit_s: float | None = None
    dispatch_s: float | None = None
    up_headers_s: float | None = None
    first_event_s: float | None = None
    first_token_s: float | None = None
    first_visible_s: float | None = None
    last_s: float | None = None
    end_s: float | None = None
    now: Callable[[], float] = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.source.monotonic

    def dispatched(self, now_s: float) -> None:
        self.dispatch_s = now_s
        self.up_headers_s = self.first_event_s = None
        self.first_token_s = self.first_visible_s = self.last_s = None

    def event(self, now_s: float) -> None:
        if self.first_event_s is None:
            self.first_event_s = now_s

    def content(self, now_s: float, *, visible: bool) -> None:
        """A text, reasoning, tool call, refusal or audio delta was read."""
        if self.first_token_s is None:
            self.first_token_s = now_s
        if visible and self.first_visible_s is None:
            self.first_visible_s = now_s
        self.last_s = now_s

    def since_arrival(self, moment_s: float | None) -> float | None:
        return None if moment_s is None else moment_s - self.arrive_s

    @property
    def ttft_s(self) -> float | None:
        return self.since_arrival(self.first_token_s)

    @property
    def visible_s(self) -> float | None:
        return self.since_arrival(self.first_visible_s)

    @property
    def e2e_s(self) -> float | None:
        return self.since_arrival(self.last_s)

    def tpot_s(self, completion_tokens: int) -> float | None:
        if completion_tokens < 2 or self.first_token_s is None or self.last_s is None:
            return None
        return (self.last_s - self.first_token_s) / (completion_tokens - 1)
