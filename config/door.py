"""When does a listener take one more connection? While there is a place for it.

Accepting pauses, and callers wait in the kernel's queue, while ``most`` connections are open, while
``open_to_all`` says no, or while the process has no file left. It is looked at again every PAUSE_S.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)
PAUSE_S: Final = 0.1
AT_ONCE: Final = 64  # connections taken before others get their turn on the loop


class Door:
    """Stands in for the ``asyncio.Server`` of one listener; opened when it is made. ``held``: how
    many of its connections are open."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        *,
        most: int,
        held: Callable[[], int],
        open_to_all: Callable[[], bool] = lambda: True,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._most = most
        self._held = held
        self._open_to_all = open_to_all
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[object]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self.pauses = 0  # so often accepting has paused
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    async def wait_closed(self) -> None:
        if self._entering:
            await asyncio.wait(self._entering)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if not self._has_place():
                self._pause("no place")
                return
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file is left
                self._pause(error.strerror or "")
                return
            self._enter(connection)

    def _has_place(self) -> bool:
        return self._held() + len(self._entering) < self._most and self._open_to_all()

    def _enter(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made = self._loop.connect_accepted_socket(self._protocol, connection)
        task: asyncio.Task[object] = self._loop.create_task(made, name="accept")
        self._entering.add(task)
        task.add_done_callback(self._entered)

    def _entered(self, task: asyncio.Task[object]) -> None:
        self._entering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("accept_failed", error=type(error).__name__)

    def _pause(self, why: str) -> None:
        self.pauses += 1
        if self.pauses == 1:  # the counter tells the rest
            log.warning("accepting_paused", why=why, connections=self._held())
        self._loop.remove_reader(self._listener)
        self._look_again()

    def _look_again(self) -> None:
        self._paused = self._loop.call_later(PAUSE_S, self._resume)

    def _resume(self) -> None:
        if not self._has_place():
            self._look_again()
            return
        self._paused = None
        self._loop.add_reader(self._listener, self._accept)
