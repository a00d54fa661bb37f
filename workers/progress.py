"""How far are the batches? Read once a second beside the loop, for the one-second summary, in a
thread of its own that keeps its connection."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.db import DatabaseError, close_old_connections, connection
from django.utils import timezone

from gateway.core.events import BatchSecond
from workers import selectors

log = structlog.get_logger(__name__)

PERIOD_S = 1.0


class BatchProgress:
    """``current`` is at most a second and one query old; it stays when the database is away."""

    def __init__(self) -> None:
        self.current: tuple[BatchSecond, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "batch-progress")

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="batch progress")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._thread.submit(lambda: connection.close())  # that of the thread, not of the caller
        self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                self.current = await loop.run_in_executor(self._thread, _read)
            except DatabaseError as error:
                log.warning("batch_progress_unread", error=type(error).__name__)
            await asyncio.sleep(PERIOD_S)


def _read() -> tuple[BatchSecond, ...]:
    close_old_connections()
    return selectors.progress(timezone.now())
