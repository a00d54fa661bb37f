"""A task that is started again when a fault of our own ends it: one bug must not blind the
gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

RESTART_S = 1.0

log = structlog.get_logger(__name__)


class RestartedTask:
    """``work`` never returns by itself."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._name = name
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        if not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._work(), name=self._name)
            self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Cancels it for good; ``ended`` waits for that."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            log.error("task_failed", task=self._name, exc_info=task.exception())
        if not self._stopped:
            task.get_loop().call_later(RESTART_S, self.start)
