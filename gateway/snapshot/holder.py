"""How does a changed row reach the hot path within a second, without the loop ever meeting a
database?

One thread asks for the version every POLL_INTERVAL_S (or at once when `nudge` is called, which
the push through Redis does), builds a new snapshot when it rose, or when the last one says that it
is stale (a grant of credit expired), and hands it to the loop. A
database that is down or frozen stops that thread only: the last snapshot stays in force, and
`watch`, called once a second on the loop, declares the part "database" degraded and restored.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from gateway.core.clock import Clock
from gateway.core.events import ConfigApplied, Event
from gateway.degradation import Degradation
from gateway.snapshot.push import PushListener
from gateway.snapshot.values import Snapshot

POLL_INTERVAL_S = 0.5
SILENCE_S = 3.0  # without an answer of the database, before it counts as degraded
JOIN_S = 2.0

Callback = Callable[[Snapshot], None]


class SnapshotHolder:
    """``build`` and ``version`` run in the poller's thread and may block or raise DatabaseError.

    ``publish`` is called on the loop.
    """

    def __init__(
        self,
        build: Callable[[], Snapshot],
        version: Callable[[], int],
        publish: Callable[[Event], None],
        clock: Clock,
        *,
        poll_interval_s: float = POLL_INTERVAL_S,
        redis_url: str = "",
    ) -> None:
        self._build = build
        self._version = version
        self._publish = publish
        self._clock = clock
        self._poll_interval_s = poll_interval_s
        self._degradation = Degradation("database", publish, clock)
        self._push = PushListener(redis_url, self.nudge) if redis_url else None
        self._callbacks: list[Callback] = []
        self._current: Snapshot | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._built_version = -1  # before `start`; then the thread's
        self._stale_at: float | None = None  # likewise
        self._answered_s = clock.monotonic()  # written by the thread
        self._failure: str | None = None  # written by the thread

    @property
    def current(self) -> Snapshot:
        """Only between `start` and `stop`."""
        assert self._current is not None, "the snapshot has not been started"
        return self._current

    @property
    def silence_s(self) -> float:
        """Since the database last answered; about POLL_INTERVAL_S while it does."""
        return self._clock.monotonic() - self._answered_s

    def subscribe(self, callback: Callback) -> None:
        """Called on the loop with every later snapshot, in order of subscription."""
        self._callbacks.append(callback)

    async def start(self) -> None:
        """Returns with the first snapshot. Raises what ``build`` raises: there is nothing to
        serve."""
        self._loop = asyncio.get_running_loop()
        self._current = await asyncio.to_thread(self._build_once)
        self._built_version, self._stale_at = self._current.version, self._current.stale_at
        self._answered_s = self._clock.monotonic()
        self._thread = threading.Thread(target=self._poll, name="snapshot", daemon=True)
        self._thread.start()
        if self._push is not None:
            self._push.start()

    async def stop(self) -> None:
        if self._push is not None:
            self._push.stop()
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN_S)

    def nudge(self) -> None:
        """Look now. From any thread."""
        self._wake.set()

    def watch(self) -> None:
        """Once a second, on the loop: is the database answering?"""
        why = self._failure
        if why is None and self.silence_s > SILENCE_S:
            why = "the database does not answer"
        self._degradation.report(why)

    def _build_once(self) -> Snapshot:
        """In a thread that has other work later: leaves no connection behind."""
        close_old_connections()
        try:
            return self._build()
        finally:
            connection.close()

    def _poll(self) -> None:
        while not self._stopping:
            self._wake.wait(self._poll_interval_s)
            self._wake.clear()
            try:
                self._look()
            except DatabaseError as error:
                connection.close()
                self._failure = f"the configuration cannot be read: {type(error).__name__}"
            else:
                self._failure = None
                self._answered_s = self._clock.monotonic()
        connection.close()

    def _look(self) -> None:
        close_old_connections()
        stale = self._stale_at is not None and self._clock.wall() >= self._stale_at
        if self._version() == self._built_version and not stale:
            return
        built = self._build()
        self._built_version, self._stale_at = built.version, built.stale_at
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended: nobody needs it any more
            self._loop.call_soon_threadsafe(self._apply, built)

    def _apply(self, built: Snapshot) -> None:
        self._current = built
        for callback in self._callbacks:
            callback(built)
        self._publish(ConfigApplied(at=self._clock.wall(), version=built.version))
