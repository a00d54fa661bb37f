"""Does the event loop still turn, and if not, what holds it? Asked from a thread.

The loop says every BEAT_S that it lives. Where it has said nothing for BLOCKED_S the stack of its
thread is logged, at most every TELL_EVERY_S; when it turns again, for how long it stood is counted,
and decides who of those that came meanwhile is refused (`Stages`). Stacks name functions and
lines, never values, so no prompt can be in them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from gateway.core.clock import Clock
from gateway.core.stages import Stages

log = structlog.get_logger(__name__)
BEAT_S: Final = 0.1
BLOCKED_S: Final = 0.25
TELL_EVERY_S: Final = 10.0
FRAMES: Final = 12  # innermost ones that are logged


class LoopWatch:
    """``blocked`` is called on the loop with the seconds for which it stood still; ``stages`` read
    at every beat how late it came."""

    def __init__(self, blocked: Callable[[float], None], stages: Stages, clock: Clock) -> None:
        self._blocked = blocked
        self._stages = stages
        self._clock = clock
        self._beat_s = clock.monotonic()
        self._thread_id = 0
        self._ended = threading.Event()

    async def run(self) -> None:
        self._thread_id = threading.get_ident()
        self._beat_s = self._clock.monotonic()
        with self._watching():
            while True:
                await asyncio.sleep(BEAT_S)
                now_s = self._clock.monotonic()
                stood_s = now_s - self._beat_s - BEAT_S
                self._beat_s = now_s
                self._stages.read(stood_s)
                if stood_s > BLOCKED_S:
                    self._blocked(stood_s)

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        watcher = threading.Thread(target=self._watch, name="loop watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._ended.set()

    def _watch(self) -> None:
        quiet_until_s = 0.0
        while not self._ended.wait(BEAT_S):
            now_s = self._clock.monotonic()
            silent_s = now_s - self._beat_s - BEAT_S
            if silent_s > BLOCKED_S and now_s >= quiet_until_s:
                quiet_until_s = now_s + TELL_EVERY_S
                log.warning("loop_blocked", for_s=round(silent_s, 3), stack=self._stack())

    def _stack(self) -> list[str]:
        frame = sys._current_frames().get(self._thread_id)
        found = traceback.extract_stack(frame)[-FRAMES:] if frame else []
        return [f"{each.name} {each.filename}:{each.lineno}" for each in found]
