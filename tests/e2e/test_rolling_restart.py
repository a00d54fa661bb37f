"""One of two gateways is restarted under load, as a deployment does it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp
import pytest

from tests.e2e.installation import MODEL, Installation, Simulated, pool, prepared
from tests.e2e.operator import Operator, unlimited
from tests.e2e.streams import Stream

LOAD_S = float(os.environ.get("TEST_RESTART_S", "2"))  # before and after the signal
PER_S = 15.0
LONG = int(150 * LOAD_S)  # tokens of the streams that run when the signal comes
CHECK_S = 0.1  # between two looks at /readyz
SLOTS = 8  # of each replica of the estate


@pytest.fixture
def pair(
    tmp_path_factory: pytest.TempPathFactory,
    sims: list[Simulated],
    estate: Installation,
    operator: Operator,
) -> Iterator[list[Installation]]:
    """Two gateways in front of the same replicas, as two machines behind a balancer."""
    with prepared(tmp_path_factory.mktemp("first"), [pool(MODEL, sims, SLOTS)]) as first:
        first.serve()
        unlimited(first, "acme")
        yield [first, estate]


@dataclass
class Balancer:
    """Sends each call to a gateway that said at the last look that it is ready."""

    session: aiohttp.ClientSession
    places: list[Installation]
    ready: set[int] = field(default_factory=set)
    streams: list[Stream] = field(default_factory=list)
    answers: list[tuple[int, bool]] = field(default_factory=list)  # status, whole
    refused: int = 0  # not taken in by a gateway that was closing, and sent again
    _turns: itertools.count[int] = field(default_factory=itertools.count)

    async def look(self) -> None:
        for number, place in enumerate(self.places):
            try:
                async with self.session.get(f"{place.url}/readyz") as answer:
                    is_ready = answer.status == 200
            except aiohttp.ClientError:
                is_ready = False
            (self.ready.add if is_ready else self.ready.discard)(number)

    async def look_on(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(CHECK_S)

    def place(self) -> Installation:
        choice = sorted(self.ready)
        return self.places[choice[next(self._turns) % len(choice)]]

    async def stream(self, tokens: int) -> None:
        while True:
            stream = Stream()
            await stream.run(self.session, self.place(), tokens=tokens, whole=True)
            if not _turned_away(stream.status, stream.reason):
                self.streams.append(stream)
                return
            self.refused += 1
            await self.look()

    async def answer(self) -> None:
        body = {
            "model": MODEL,
            "max_tokens": 20,
            "messages": [{"role": "user", "content": "hi"}],
        }
        while True:
            place = self.place()
            headers = {"authorization": f"Bearer {place.api_key}"}
            url = f"{place.url}/v1/chat/completions"
            async with self.session.post(url, json=body, headers=headers) as answer:
                said = await answer.json()
                if not _turned_away(answer.status, answer.headers.get("x-fairway-reason", "")):
                    self.answers.append((answer.status, bool(said.get("choices"))))
                    return
            self.refused += 1
            await self.look()


def _turned_away(status: int, reason: str) -> bool:
    """Nothing was dispatched: it closes."""
    return (status, reason) == (503, "draining")


async def test_a_restart_loses_no_call_that_was_dispatched(pair: list[Installation]) -> None:
    """Row 17: answers without a stream 0 errors, streams of less than 30 s whole."""
    first = pair[0].serving
    assert first is not None
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        balancer = Balancer(session, pair)
        await balancer.look()
        looking = asyncio.create_task(balancer.look_on(), name="readiness")
        async with asyncio.TaskGroup() as calls:
            for _ in range(6):
                calls.create_task(balancer.stream(LONG))
            end_s = time.monotonic() + 2 * LOAD_S
            told = False
            for number in itertools.count():
                calls.create_task(balancer.answer() if number % 2 else balancer.stream(20))
                await asyncio.sleep(1 / PER_S)
                if not told and time.monotonic() > end_s - LOAD_S:
                    told = True
                    first.send_signal(signal.SIGTERM)
                if time.monotonic() > end_s:
                    break
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert await asyncio.to_thread(first.wait, 10) == 0
    assert set(balancer.answers) == {(200, True)}
    assert all(one.done for one in balancer.streams)
    longest_s = max(one.ended_s - one.sent_s for one in balancer.streams)
    assert longest_s > LOAD_S  # some ran when the signal came, and went on
    print(
        f"{len(balancer.answers)} answers and {len(balancer.streams)} streams of up to"
        f" {longest_s:.1f} s, 0 errors; {balancer.refused} turned away and sent again"
    )
