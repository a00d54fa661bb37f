"""A steady load of streamed chats, sent at their times whatever becomes of the earlier ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from tests.e2e.installation import MODEL, Installation
from tests.e2e.streams import Stream


@dataclass
class Load:
    """``streams`` in the order of sending; those that have ended have a status."""

    place: Installation
    session: aiohttp.ClientSession
    streams: list[Stream] = field(default_factory=list)
    owners: dict[Stream, str] = field(default_factory=dict)  # whose key, where a test keeps it
    _tasks: dict[asyncio.Task[Stream], Stream] = field(default_factory=dict)

    def send(
        self, tokens: int, *, key: str | None = None, model: str = MODEL, prompt: str = ""
    ) -> Stream:
        stream = Stream()
        number = len(self.streams)
        self.streams.append(stream)
        run = stream.run(
            self.session,
            self.place,
            tokens=tokens,
            key=key,
            model=model,
            prompt=prompt or f"{number}",
        )
        task = asyncio.create_task(run, name=f"stream {number}")
        self._tasks[task] = stream
        task.add_done_callback(lambda done: self._over(done, stream))
        return stream

    async def steady(
        self, calls_per_s: float, tokens: int, *, key: str | None = None, model: str = MODEL
    ) -> None:
        """Until it is cancelled."""
        next_s = time.monotonic()
        while True:
            self.send(tokens, key=key, model=model)
            next_s += 1 / calls_per_s
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))

    async def ended(self, within_s: float = 60.0) -> list[Stream]:
        async with asyncio.timeout(within_s):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.streams

    def cut(self, stream: Stream) -> None:
        """The client hangs up."""
        for task, theirs in self._tasks.items():
            if theirs is stream:
                task.cancel()

    def cut_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def since(self, moment_s: float) -> list[Stream]:
        """Sent since then."""
        return [stream for stream in self.streams if stream.sent_s >= moment_s]

    def _over(self, task: asyncio.Task[Stream], stream: Stream) -> None:
        del self._tasks[task]
        stream.ended.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


@asynccontextmanager
async def load(place: Installation) -> AsyncIterator[Load]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Load(place, session)


@asynccontextmanager
async def steady_load(
    place: Installation,
    calls_per_s: float,
    tokens: int,
    *,
    key: str | None = None,
    model: str = MODEL,
) -> AsyncIterator[Load]:
    """Sends within the block; ``await load.ended()`` after it is the caller's."""
    async with load(place) as running:
        sending = asyncio.create_task(
            running.steady(calls_per_s, tokens, key=key, model=model), name="load"
        )
        try:
            yield running
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await running.ended()


def percentile(values: Sequence[float], ratio: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))]


async def asked_until(happened: Callable[[], bool], within_s: float = 10.0) -> float:
    """Asks in a thread (over HTTP). Seconds until it happened; raises TimeoutError."""
    began_s = time.monotonic()
    while not await asyncio.to_thread(happened):
        if time.monotonic() - began_s > within_s:
            raise TimeoutError(f"did not happen in {within_s} s")
        await asyncio.sleep(0.01)
    return time.monotonic() - began_s
