"""Runs an engine model against a loop's clock and hands its tokens to whoever waits for them.

Steps follow one another at the times that the model computes (``speed`` times faster when asked),
not at the times at which the loop happens to wake, so that a late wake-up does not slow the
replica. Only a loop that lags by more than ``MAX_LAG_S`` moves the model's time.
"""

from __future__ import annotations

import asyncio

from gateway.simulation.engine import Emitted, Engine, EngineRequest

MAX_LAG_S = 0.25


class EngineClock:
    """``run`` must be running as a task for tokens to come."""

    def __init__(self, engine: Engine, speed: float = 1.0) -> None:
        self.engine = engine
        self._speed = speed
        self._tokens: dict[str, asyncio.Queue[Emitted]] = {}
        self._work = asyncio.Event()

    def submit(self, request: EngineRequest) -> asyncio.Queue[Emitted] | None:
        """None = refused because the queue is full. Call ``leave`` in the end, whatever happens."""
        if not self.engine.submit(request):
            return None
        queue: asyncio.Queue[Emitted] = asyncio.Queue()
        self._tokens[request.request_id] = queue
        self._work.set()
        return queue

    def leave(self, request_id: str) -> None:
        self._tokens.pop(request_id, None)
        self.engine.cancel(request_id)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        while True:
            ends_s = self.engine.begin(now_s)
            if ends_s is None:
                self._work.clear()
                await self._work.wait()
                now_s = loop.time()
                continue
            now_s += (ends_s - now_s) / self._speed
            await asyncio.sleep(max(0.0, now_s - loop.time()))
            now_s = max(now_s, loop.time() - MAX_LAG_S)
            for emitted in self.engine.complete():
                queue = self._tokens.get(emitted.request_id)
                if queue is not None:
                    queue.put_nowait(emitted)
