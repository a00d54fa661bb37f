"""The quota store of one process: a bucket book on the event loop, written behind to a file.

The file is written every second by a thread, and at close; after a crash at most the last second is
forgiven. Without a path nothing is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Mapping
from pathlib import Path
from types import TracebackType

from gateway.core.clock import Clock
from gateway.core.limits.book import LEASE_S, BucketBook
from gateway.core.limits.demands import (
    DONE,
    BucketKey,
    BucketState,
    Demand,
    Refused,
    Reservation,
)
from gateway.stores import snapshot_file

log = logging.getLogger(__name__)
PRUNE_EVERY = 60  # writes


class MemoryStore:
    """``async with`` restores, then keeps the file current."""

    def __init__(
        self,
        clock: Clock,
        path: Path | None = None,
        *,
        write_every_s: float = 1.0,
        lease_s: float = LEASE_S,
    ) -> None:
        self._clock = clock
        self._path = path
        self._write_every_s = write_every_s
        self._book = BucketBook(lease_s=lease_s)
        self._closing = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> MemoryStore:
        if self._path is not None:
            image = await asyncio.to_thread(snapshot_file.read, self._path)
            if image is not None:
                now_s, wall_s = self._clock.monotonic(), self._clock.wall()
                snapshot_file.restore(image, self._book, now_s=now_s, wall_s=wall_s)
        self._writer = asyncio.create_task(self._keep(), name="quota-snapshot")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        if self._writer is not None:
            await self._writer
        await self._write()

    async def reserve(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        return self._book.reserve(call_id, demands, self._clock.monotonic())

    def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> Awaitable[None]:
        self._book.settle(call_id, actual, self._clock.monotonic())
        return DONE

    async def renew(self, call_ids: tuple[str, ...]) -> None:
        self._book.renew(call_ids, self._clock.monotonic())

    async def peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        return self._book.peek(demands, self._clock.monotonic())

    async def seed(self, key: BucketKey, used: float) -> None:
        self._book.seed(key, used, self._clock.monotonic())

    async def _keep(self) -> None:
        for turn in itertools.count(1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._write_every_s):
                    await self._closing.wait()
            if self._closing.is_set():
                return
            if turn % PRUNE_EVERY == 0:
                self._book.prune(self._clock.monotonic())
            await self._write()

    async def _write(self) -> None:
        if self._path is None:
            return
        now_s, wall_s = self._clock.monotonic(), self._clock.wall()
        image = snapshot_file.take(self._book, now_s=now_s, wall_s=wall_s)
        try:
            await asyncio.to_thread(snapshot_file.write, image, self._path)
        except OSError as error:
            log.error("quota snapshot could not be written: %s", error)
