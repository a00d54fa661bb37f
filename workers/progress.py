"""How far are the batches? Read once a second beside the loop, for the one-second summary."""

from __future__ import annotations

import asyncio

import structlog
from django.db import DatabaseError
from django.utils import timezone

from gateway.core.events import BatchSecond
from workers import selectors
from workers.threads import with_database

log = structlog.get_logger(__name__)

PERIOD_S = 1.0


class BatchProgress:
    """``current`` is at most a second and one query old; it stays when the database is away."""

    def __init__(self) -> None:
        self.current: tuple[BatchSecond, ...] = ()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="batch progress")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while True:
            try:
                self.current = await with_database(selectors.progress, timezone.now())
            except DatabaseError as error:
                log.warning("batch_progress_unread", error=type(error).__name__)
            await asyncio.sleep(PERIOD_S)
