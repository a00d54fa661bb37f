"""Which calls are running, and what did each receive, even after kill -9?

A file mapped into memory holds one slot of fixed size per admitted call: what was reserved for
it and how many tokens it has received. Writing a count is one store into memory, O(1), without a
system call; the kernel keeps the page when the process dies. `recover` reads it at the
next start, so that each call is settled by what it really received.

Rules:
- A slot is marked taken last when it is opened; a checksum guards its text.
- Only `close` frees a slot. The journal calls it once the ledger record is on disk, so that at
  every moment a call is in this table or in the journal (or in both: the reader skips those).
- The file's blocks are allocated at the start: a full disk cannot fault a store later.
- The capacity is fixed: `open` raises GATEWAY_FULL above it. One process owns the file (advisory
  lock).
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from gateway.active_calls import layout
from gateway.active_calls.layout import MAX_COUNT, RECEIVED_AT, Opening, Phase
from gateway.active_calls.recovery import lock_table, set_aside
from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

_write_received = layout.RECEIVED.pack_into  # once per read of a stream
DEFAULT_CAPACITY = 16_384  # slots of 2 KiB


class ActiveCall:
    """One taken slot. Belongs to the loop."""

    __slots__ = (
        "_at",
        "_memory",
        "_queued",
        "cached_tokens",
        "opening",
        "phase",
        "prompt_tokens",
        "received_tokens",
        "replica",
    )

    def __init__(
        self, memory: mmap.mmap, at: int, opening: Opening, queued: dict[str, ActiveCall]
    ) -> None:
        self._memory = memory
        self._queued = queued  # those of the table that were never dispatched
        self._at = at
        self.opening = opening
        self.phase = Phase.ADMITTED
        self.received_tokens = 0
        self.prompt_tokens = opening.prompt_tokens
        self.cached_tokens = 0
        self.replica = ""
        self._write_opening()
        queued[opening.call_id] = self

    def tokens(self, received: int) -> None:
        """``received``: tokens of this attempt so far, in all."""
        self.received_tokens = received
        fits = received if received < MAX_COUNT else MAX_COUNT
        _write_received(self._memory, self._at + RECEIVED_AT, fits)

    def input_tokens(self, prompt: int, cached: int) -> None:
        """What the replica reports of the prompt replaces the estimate."""
        self.prompt_tokens = prompt
        self.cached_tokens = cached
        counts = (min(prompt, MAX_COUNT), min(cached, MAX_COUNT))
        layout.INPUT.pack_into(self._memory, self._at + layout.INPUT_AT, *counts)

    def enter(self, phase: Phase) -> None:
        self.phase = phase
        self._memory[self._at + layout.PHASE_AT] = phase

    def dispatched(self, replica: str) -> None:
        """A new attempt begins: what an earlier one received is not charged."""
        self.tokens(0)
        self._queued.pop(self.opening.call_id, None)
        self.replica = replica
        layout.REPLICA.pack_into(self._memory, self._at + layout.REPLICA_AT, replica.encode()[:64])
        self.enter(Phase.DISPATCHED)

    def free(self) -> int:
        """For the table only. Returns the place of the slot; later writes do not reach it."""
        at, self._at = self._at, layout.SCRAP_AT
        layout.TAKEN.pack_into(self._memory, at, 0)
        return at

    def _write_opening(self) -> None:
        text = layout.pack_opening(self.opening)
        start = self._at + layout.TEXT_AT
        self._memory[start : start + len(text)] = text
        fixed = (0, self.phase, len(text), zlib.crc32(text), self.opening.arrived_at)
        counts = (0, min(self.prompt_tokens, MAX_COUNT), 0, b"")
        layout.FIXED.pack_into(self._memory, self._at, *fixed, *counts)
        layout.TAKEN.pack_into(self._memory, self._at, 1)


class ActiveCalls:
    """The table. `open` on the loop; `close` from any thread."""

    def __init__(self, path: Path, capacity: int = DEFAULT_CAPACITY) -> None:
        """An existing file is set aside for `recover`. Raises OSError with a
        sentence for the operator when another process owns it or the disk has no room for it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.capacity = capacity
        self._lock = lock_table(path)
        set_aside(path)
        self._memory = _create(path, capacity)
        places = range(capacity)
        self._free = deque(layout.HEADER_BYTES + slot * layout.SLOT_BYTES for slot in places)
        self._calls: dict[str, ActiveCall] = {}
        self._queued: dict[str, ActiveCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[ActiveCall]:
        return iter(tuple(self._calls.values()))

    def get(self, call_id: str) -> ActiveCall | None:
        return self._calls.get(call_id)

    def queued_tokens(self) -> dict[tuple[str, PriorityClass], int]:
        """Prompt tokens of admitted calls that wait for a replica, by pool and class."""
        waiting: Counter[tuple[str, PriorityClass]] = Counter()
        for call in tuple(self._queued.values()):
            waiting[call.opening.pool, call.opening.klass] += call.prompt_tokens
        return dict(waiting)

    def open(self, opening: Opening) -> ActiveCall:
        """Raises Rejected(GATEWAY_FULL) when every slot is taken."""
        if not self._free:
            raise Rejected(Reason.GATEWAY_FULL, retry_after_s=1.0)
        at = self._free.popleft()
        call = ActiveCall(self._memory, at, opening, self._queued)
        self._calls[opening.call_id] = call
        return call

    def close(self, call_ids: Iterable[str]) -> None:
        """Frees the slots of calls whose record is safe. Unknown ids are ignored."""
        for call_id in call_ids:
            call = self._calls.pop(call_id, None)
            self._queued.pop(call_id, None)
            if call is not None:
                self._free.append(call.free())

    def shut(self) -> None:
        """Gives the file up. Slots still taken are found by the next start."""
        self._memory.close()
        os.close(self._lock)


def _create(path: Path, capacity: int) -> mmap.mmap:
    size = layout.HEADER_BYTES + capacity * layout.SLOT_BYTES
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        memory = mmap.mmap(descriptor, size)
    except OSError as error:
        path.unlink()
        raise OSError(
            error.errno, f"no room for the table of active calls ({size} bytes at {path})"
        ) from error
    finally:
        os.close(descriptor)
    layout.HEADER.pack_into(memory, 0, layout.MAGIC, layout.LAYOUT, layout.SLOT_BYTES, capacity)
    return memory
