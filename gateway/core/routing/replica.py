"""How many calls may a replica run, and what runs on it?

``in_flight`` and ``unstarted`` count the entries of dicts of live leases, ``in_flight_tokens`` is
their sum in integers: a count changes where an entry comes or goes, so that none can drift or fall
below zero. They belong to the object: a replica that is removed and
added again under the same name starts at zero, and the calls of the old one end on the old one.

Units: slots (places in the running batch), tokens (estimated uncached input + expected output).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.dispatch.effects import ReplicaConfig, ReplicaHealth
from gateway.core.routing.peak_rate import PeakRate


@dataclass(slots=True, eq=False)
class Replica:
    config: ReplicaConfig
    health: ReplicaHealth
    slug: str = field(init=False)
    slots: int = field(init=False)  # as limited now: none while not admitting, few while it starts
    in_flight: int = 0
    unstarted: int = 0  # dispatched calls without any upstream event yet
    in_flight_tokens: int = 0
    in_flight_prompt_tokens: int = 0
    unstarted_prompt_tokens: int = 0
    unstarted_s: float = 0.0  # to read the unstarted prompts one after another, as predicted
    reading_since_s: float = 0.0  # when it last began with the first of them
    last_grant_id: int = 0
    slot_limit: int | None = None  # as found out at run time; None = as configured
    slow_ratio: float = 1.0  # how much longer than its peers it takes: see slowness
    burden: float = 1.0  # what its load counts for, therefore
    peak: PeakRate = field(default_factory=PeakRate)
    _tokens: dict[int, int] = field(default_factory=dict)  # grant -> tokens
    _prompts: dict[int, int] = field(default_factory=dict)  # grant -> prompt tokens
    _unstarted: dict[int, int] = field(default_factory=dict)  # grant -> prompt tokens

    def __post_init__(self) -> None:
        self.slug = self.config.slug
        self.change()

    @property
    def admits(self) -> bool:
        return self.health.admits

    def change(
        self,
        *,
        config: ReplicaConfig | None = None,
        health: ReplicaHealth | None = None,
    ) -> None:
        """What is not named stays."""
        self.config = config or self.config
        self.health = health or self.health
        self.limit(self.slot_limit)

    def limit(self, slots: int | None) -> None:
        """As found out at run time; None = as configured."""
        self.slot_limit = slots
        self.slots = self.config.slots if slots is None else slots
        if self.health.slot_cap is not None:
            self.slots = min(self.health.slot_cap, self.slots)
        if not self.health.admits:
            self.slots = 0

    def backlog_s(self, now_s: float, first_s: float) -> float:
        """Until the unstarted prompts are read, of which the first takes ``first_s`` in all."""
        read_s = min(first_s, max(0.0, now_s - self.reading_since_s))
        return max(0.0, self.unstarted_s - read_s)

    @property
    def first_unstarted(self) -> int | None:
        """The grant that has waited longest for its first event."""
        return next(iter(self._unstarted), None)

    @property
    def has_free_slot(self) -> bool:
        return self.in_flight < self.slots

    def take(self, grant_id: int, tokens: int, prompt_tokens: int = 0) -> None:
        assert self.in_flight < self.slots
        assert grant_id not in self._tokens
        self._tokens[grant_id] = tokens
        self._prompts[grant_id] = self._unstarted[grant_id] = prompt_tokens
        self.in_flight += 1
        self.unstarted += 1
        self.in_flight_prompt_tokens += prompt_tokens
        self.unstarted_prompt_tokens += prompt_tokens
        self.in_flight_tokens += tokens
        self.last_grant_id = grant_id

    def started(self, grant_id: int) -> None:
        prompt_tokens = self._unstarted.pop(grant_id, None)
        if prompt_tokens is not None:
            self.unstarted -= 1
            self.unstarted_prompt_tokens -= prompt_tokens

    def grew(self, grant_id: int, tokens: int) -> None:
        """The call holds more tokens than was expected."""
        more = max(0, tokens - self._tokens[grant_id])
        self._tokens[grant_id] += more
        self.in_flight_tokens += more

    def free(self, grant_id: int) -> None:
        self.in_flight_tokens -= self._tokens.pop(grant_id)
        self.in_flight -= 1
        self.in_flight_prompt_tokens -= self._prompts.pop(grant_id)
        self.started(grant_id)
