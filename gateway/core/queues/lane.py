"""Which replicas may run a call?

A lane is the set of replicas that may run a call: those it is eligible for, less those that already
failed it. A flow's queue is split by lane, so that a call which can run only on a busy replica
never blocks one behind it that could run elsewhere.

Invariant: two calls in one lane are interchangeable for placement. The number of lanes is bounded
by the number of distinct sets among the calls that wait, not by the number of calls.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec


class Lane(msgspec.Struct, frozen=True, gc=False):
    """``eligible``: replica slugs; None = every replica of the pool."""

    eligible: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()

    def admits(self, slug: str) -> bool:
        return slug not in self.excluded and (self.eligible is None or slug in self.eligible)

    def meets(self, slugs: Set[str]) -> bool:
        """True when at least one of ``slugs`` may run the calls of this lane."""
        if self.eligible is None:
            return len(slugs) > len(self.excluded) or not slugs <= self.excluded
        return any(slug in slugs and slug not in self.excluded for slug in self.eligible)

    @property
    def limited(self) -> bool:
        """True when the lane names its replicas, so that others may be served where it cannot
        be."""
        return self.eligible is not None

    def within(self, other: Lane) -> bool:
        """True when every replica of this lane, now or later, is a replica of ``other``."""
        if other.eligible is None:
            return other.excluded <= self.excluded or (
                self.eligible is not None and not (self.eligible - self.excluded) & other.excluded
            )
        return self.eligible is not None and (
            self.eligible - self.excluded <= other.eligible - other.excluded
        )


ANYWHERE = Lane()
