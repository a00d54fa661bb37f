"""Which prompts does a replica hold that keeps one prefix per slot (llama.cpp)?

A new prompt runs in the idle slot whose last prompt shares most with it, if that is more than half
of the new one, else in the idle slot that was used longest ago; either way the slot then holds the
new prompt and nothing else. Nothing is shared between slots: a prefix is warm only while a slot
that holds it is idle, and two calls at once need two copies. So waiting for the first of several
equal prompts gains nothing here.

Invariants: as many prefixes as slots; a busy slot matches nothing. O(slots * log blocks).
Source: measured on llama.cpp's server with ``cache_ram_mib = 0``; a host cache only adds hits.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.core.caches.prefix_chain import shared_blocks

SIMILARITY = 0.5


class _Slot:
    __slots__ = ("grant_id", "hashes", "used")

    def __init__(self) -> None:
        self.hashes: tuple[int, ...] = ()
        self.grant_id: int | None = None
        self.used = 0


class SlotPrefixes:
    def __init__(self, slots: int) -> None:
        self._slots = [_Slot() for _ in range(slots)]
        self._taken = 0

    def resize(self, slots: int) -> None:
        self._slots = self._slots[:slots] + [_Slot() for _ in range(slots - len(self._slots))]

    def matched(self, hashes: tuple[int, ...]) -> int:
        """Blocks that an idle slot shares with the prompt."""
        if not hashes:
            return 0
        first = hashes[0]
        return max(
            (
                shared_blocks(slot.hashes, hashes)
                for slot in self._idle()
                if slot.hashes and slot.hashes[0] == first
            ),
            default=0,
        )

    def take(self, grant_id: int, hashes: tuple[int, ...]) -> None:
        """The prompt was sent. Without an idle slot it waits in the replica's own queue, and what
        becomes of it is not followed."""
        idle = list(self._idle())
        if not idle:
            return
        self._taken += 1
        alike = max(idle, key=lambda slot: shared_blocks(slot.hashes, hashes))
        if shared_blocks(alike.hashes, hashes) <= SIMILARITY * len(hashes):
            alike = min(idle, key=lambda slot: slot.used)
        alike.hashes, alike.grant_id, alike.used = hashes, grant_id, self._taken

    def free(self, grant_id: int) -> None:
        for slot in self._slots:
            if slot.grant_id == grant_id:
                slot.grant_id = None

    @property
    def has_empty_slot(self) -> bool:
        """A prompt can be held without giving up another."""
        return any(not slot.hashes for slot in self._idle())

    @property
    def blocks(self) -> int:
        return sum(len(slot.hashes) for slot in self._slots)

    def forget(self) -> None:
        """The replica has restarted. Calls in flight keep their slots until they end."""
        for slot in self._slots:
            slot.hashes = ()

    def _idle(self) -> Iterator[_Slot]:
        return (slot for slot in self._slots if slot.grant_id is None)
