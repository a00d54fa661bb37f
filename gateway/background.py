"""Work that outlives the call that caused it (settling, closing): every task has a parent and a
name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class Background:
    """Owns its tasks until they end. A failure is logged with the task's name, never lost."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background_task_failed", task=task.get_name(), exc_info=error)

    @property
    def idle(self) -> bool:
        return not self._tasks

    async def join(self) -> None:
        """Returns when nothing is left to do, work spawned meanwhile included."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await self.join()
