"""A client that leaves, in whatever way and at whatever moment: the replica is left within a
second, and nothing stays behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.e2e.clients import LEAVINGS, Leaving, calling, chat
from tests.e2e.installation import ROOT, Installation
from tests.e2e.operator import Operator
from tests.e2e.scripted import scripted, until
from tests.fakes.llamacpp import LlamaServer
from tests.fakes.scripted_replica import Received, ScriptedReplica
from tests.fakes.scripts import ROLE, Hang, Script, Send, chunk, tokens

pytestmark = [pytest.mark.alone, pytest.mark.asyncio(loop_scope="module")]

CALLS = 1000
CALLS_ON_LLAMA = 1000
AT_ONCE = 40
LEFT_S = 1.0
STREAMS = int(os.environ.get("TEST_LEFT_STREAMS", "40"))
HELD = 8  # streams of one process: all slots
KILLED_PROCESSES = int(os.environ.get("TEST_KILLED_PROCESSES", "2"))
CLOSED_S = 0.2
CHARGES = 20  # of these the record is read
QUEUED = int(os.environ.get("TEST_QUEUED", "12"))
SILENT = Script((Hang(),))
BEFORE_CONTENT = Script((Send(ROLE), Hang()))
MID_STREAM = Script((Send(ROLE), Send(chunk(content="a")), Send(chunk(content="b")), Hang()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(operator: Operator) -> AsyncIterator[ScriptedReplica]:
    async with scripted(operator) as it:
        yield it


async def nothing_remains(place: Installation, pool: str) -> None:
    """I8: every counter exactly 0 within five seconds."""

    def leftovers() -> dict[str, float]:
        depth = place.series("fairway_queue_depth", pool=pool)
        in_flight = place.series("fairway_in_flight", pool=pool)
        active = place.series("fairway_active_calls")
        return {"queued": depth, "in flight": in_flight, "active": active}

    until_s = time.monotonic() + 5
    while any((left := await asyncio.to_thread(leftovers)).values()):
        assert time.monotonic() < until_s, left
        await asyncio.sleep(0.1)


async def left_in_s(replica: ScriptedReplica, request: Received, leave: float) -> float:
    """Seconds from ``leave`` (loop time) until the replica saw its connection close."""
    async with asyncio.timeout(10):
        await request.gone.wait()
    assert request.gone_at_s is not None
    return request.gone_at_s - leave


@pytest.mark.parametrize("how", LEAVINGS)
@pytest.mark.parametrize(
    ("script", "stream"),
    [(SILENT, True), (BEFORE_CONTENT, True), (MID_STREAM, True), (MID_STREAM, False)],
    ids=["before headers", "before content", "mid-stream", "without a stream"],
)
async def test_replica_is_left_within_a_second(
    estate: Installation,
    replica: ScriptedReplica,
    script: Script,
    stream: bool,
    how: Leaving,
) -> None:
    """G5, rows 01, 02"""
    replica.next(script)
    number = len(replica.calls) + 1
    async with calling(estate, chat("scripted", stream=stream, max_tokens=50)) as client:
        request = await replica.arrival(number)
        if script is MID_STREAM and stream:
            await client.until(b'"content":"b"')
        left_s = asyncio.get_running_loop().time()
        leaving = asyncio.create_task(client.leave(how))
        assert await left_in_s(replica, request, left_s) <= LEFT_S
        async with asyncio.timeout(2):
            await leaving


async def test_streams_left_at_any_token_free_their_replica_and_owe_what_it_had_sent(
    estate: Installation, replica: ScriptedReplica, operator: Operator
) -> None:
    """Rows 01, 02: p99 from the client's last act to the close at the replica; charged are the
    tokens that the replica had sent by then, give or take the one on its way. A busy machine may
    slow one round of three."""
    replica.default = tokens(200, gap_s=0.02)
    rng, room = random.Random(1), asyncio.Semaphore(8)
    left: list[tuple[str, float, Received]] = []

    async def one(number: int) -> None:
        body = chat("scripted", f"stream {number}", stream=True, max_tokens=200)
        async with room, calling(estate, body) as client:
            head = await client.until(b'"content":"t%d ' % rng.randrange(20))
            call_id = re.search(rb"x-fairway-call-id: (\S+)", head)
            assert call_id is not None
            request = next(each for each in replica.calls if b'"stream %d"' % number in each.body)
            left_s = asyncio.get_running_loop().time()
            leaving = asyncio.create_task(client.leave(LEAVINGS[number % 3]))
            left.append((call_id[1].decode(), await left_in_s(replica, request, left_s), request))
            async with asyncio.timeout(5):
                await leaving

    for first in range(0, 3 * STREAMS, STREAMS):
        left.clear()
        await asyncio.gather(*(one(number) for number in range(first, first + STREAMS)))
        times = sorted(took_s for _, took_s, _ in left)
        p99_s = times[int(0.99 * len(times))]
        if p99_s <= CLOSED_S:
            break
    print(f"{STREAMS} streams: replica closed after {p99_s * 1000:.0f} ms (p99)")
    assert p99_s <= CLOSED_S
    await nothing_remains(estate, "scripted")
    await _charged_as_sent(operator, left)


async def test_a_client_process_that_is_killed_frees_the_replica_and_owes_what_it_had_sent(
    estate: Installation, replica: ScriptedReplica, operator: Operator
) -> None:
    """Row 02: SIGKILL of a process with eight streams; 16 streams in the suite, 200 at full size.
    A busy machine may slow one round of three."""
    replica.default = tokens(200, gap_s=0.02)
    rng = random.Random(2)
    for attempt in range(3):
        left: list[tuple[str, float, Received]] = []
        for process in range(KILLED_PROCESSES):
            left += await _killed(estate, replica, f"held {attempt} {process}", rng.random() * 0.3)
        times = sorted(took_s for _, took_s, _ in left)
        p99_s = times[int(0.99 * len(times))]
        if p99_s <= CLOSED_S:
            break
    print(
        f"{len(left)} streams of killed processes: replica closed after {p99_s * 1000:.0f} ms (p99)"
    )
    assert p99_s <= CLOSED_S
    await nothing_remains(estate, "scripted")
    await _charged_as_sent(operator, left)


async def _killed(
    place: Installation, replica: ScriptedReplica, name: str, after_s: float
) -> list[tuple[str, float, Received]]:
    """(call id, seconds to the close at the replica, what it received) of each stream."""
    given = (str(place.port), place.api_key, "scripted", name, str(HELD))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.e2e.stream_holder", *given),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        call_ids = json.loads(await process.stdout.readline())
    await asyncio.sleep(after_s)  # the random moment, the subject of this test
    killed_s = asyncio.get_running_loop().time()
    process.kill()
    told = []
    for number, call_id in enumerate(call_ids):
        said = b'"%b %d"' % (name.encode(), number)
        request = next(each for each in replica.calls if said in each.body)
        told.append((call_id, await left_in_s(replica, request, killed_s), request))
    await process.wait()
    return told


async def _charged_as_sent(operator: Operator, left: list[tuple[str, float, Received]]) -> None:
    """Give or take the token on its way."""
    for call_id, _, request in left[:CHARGES]:
        record = await asyncio.to_thread(operator.record_of, call_id)
        sent = (request.sent_bytes - len(ROLE)) / len(chunk(content="t10 "))
        assert abs(record["completion_tokens"] - sent) <= 2, (record, sent)


async def test_calls_that_leave_the_queue_never_reach_the_replica(
    estate: Installation, replica: ScriptedReplica
) -> None:
    """Row 03: 12 in the suite, 100 at full size. In a second they are out of the queue, recorded,
    and their reservations given back."""
    holders = [calling(estate, chat("scripted", stream=True, max_tokens=50)) for _ in range(8)]
    replica.next(*[MID_STREAM] * 8)
    number = len(replica.calls)
    held = [await holder.__aenter__() for holder in holders]
    await replica.arrival(number + 8)
    evicted = _evicted(estate)
    waiting = [calling(estate, chat("scripted", stream=True)) for _ in range(QUEUED)]
    queued = [await one.__aenter__() for one in waiting]
    await _until_metric(lambda: estate.series("fairway_queue_depth", pool="scripted") == QUEUED)
    one_look_s = await _until_metric(lambda: _reserved(estate) == 8 + QUEUED)
    async with asyncio.timeout(3):
        await asyncio.gather(*(client.leave(LEAVINGS[n % 3]) for n, client in enumerate(queued)))
    took_s = await _until_metric(
        lambda: _reserved(estate) == 8 and _evicted(estate) - evicted == QUEUED
    )
    print(f"{QUEUED} left the queue: nothing outstanding of them after {took_s:.2f} s")
    assert took_s <= 1.0 + one_look_s
    async with asyncio.timeout(3):
        await asyncio.gather(*(client.leave("fin") for client in held))
    await nothing_remains(estate, "scripted")
    assert len(replica.calls) == number + 8


async def test_all_counters_are_zero_after_a_thousand_cancelled_calls(
    estate: Installation, replica: ScriptedReplica, operator: Operator
) -> None:
    """R5, I8, rows 01, 02: eight slots, so that most leave while they queue."""
    replica.default = tokens(20, ttft_s=0.02, gap_s=0.01)
    ended = estate.series("fairway_calls_total", pool="scripted")
    await _cancelled_at_random(estate, "scripted", CALLS, most_s=0.4)
    await nothing_remains(estate, "scripted")
    await until(lambda: replica.open_calls == 0, 5)
    assert estate.series("fairway_calls_total", pool="scripted") - ended == CALLS
    await _every_slot_is_free(estate, replica)


async def test_all_counters_are_zero_after_cancelled_calls_on_a_real_server(
    estate: Installation, tiny: LlamaServer
) -> None:
    """R5 on llama.cpp: its slots are idle within a second after the last client left."""
    ended = estate.series("fairway_calls_total", pool="tiny")
    completed = estate.series("fairway_calls_total", pool="tiny", outcome="completed")
    await _cancelled_at_random(estate, "tiny", CALLS_ON_LLAMA, most_s=0.3)
    assert await _until_metric(lambda: idle(tiny)) <= LEFT_S
    await nothing_remains(estate, "tiny")
    assert estate.series("fairway_calls_total", pool="tiny") - ended == CALLS_ON_LLAMA
    whole = estate.series("fairway_calls_total", pool="tiny", outcome="completed") - completed
    assert whole <= CALLS_ON_LLAMA / 10


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", LEAVINGS)
async def test_a_real_server_stops_generating_within_a_second(
    estate: Installation, tiny: LlamaServer, how: Leaving, stream: bool
) -> None:
    """G5 on llama.cpp"""
    await _until_metric(lambda: idle(tiny))
    labels = {"pool": "tiny", "outcome": "aborted"}
    aborted = estate.series("fairway_calls_total", **labels)
    async with calling(estate, chat("tiny", stream=stream, max_tokens=4000)) as client:
        await _until_metric(lambda: not idle(tiny))
        if stream:
            await client.until(b'"content":"')
        leaving = asyncio.create_task(client.leave(how))
        assert await _until_metric(lambda: idle(tiny)) <= LEFT_S
        async with asyncio.timeout(2):
            await leaving
    await nothing_remains(estate, "tiny")
    assert estate.series("fairway_calls_total", **labels) == aborted + 1  # it had not ended itself


def idle(server: LlamaServer) -> bool:
    with urllib.request.urlopen(f"{server.url}/slots", timeout=10) as answer:
        return not any(slot["is_processing"] for slot in json.load(answer))


async def _cancelled_at_random(
    place: Installation, model: str, calls: int, *, most_s: float
) -> None:
    rng = random.Random(5)
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, stays_s: float) -> None:
        body = chat(model, f"call {number}", stream=number % 4 != 0, max_tokens=2000)
        async with room, calling(place, body) as client:
            await asyncio.sleep(stays_s)  # the random phase, the subject of this test
            async with asyncio.timeout(10):
                await client.leave(LEAVINGS[number % 3])

    await asyncio.gather(*(one(n, rng.uniform(0, most_s)) for n in range(calls)))


def _reserved(place: Installation) -> float:
    """Calls with a reservation, counted when it is asked."""
    return place.series("fairway_active_calls")


def _evicted(place: Installation) -> float:
    return place.series("fairway_calls_total", pool="scripted", outcome="evicted")


async def _every_slot_is_free(place: Installation, replica: ScriptedReplica) -> None:
    """Eight calls at once are dispatched at once: no slot has leaked."""
    number = len(replica.calls)
    replica.next(*[SILENT] * 8)
    clients = [calling(place, chat("scripted", stream=True)) for _ in range(8)]
    open_ones = [await client.__aenter__() for client in clients]
    async with asyncio.timeout(5):
        await replica.arrival(number + 8)
        await asyncio.gather(*(client.leave("rst") for client in open_ones))
    await nothing_remains(place, "scripted")


async def _until_metric(happened: Callable[[], bool], within_s: float = 10.0) -> float:
    """Asks over HTTP from a thread. Seconds until it happened."""
    began_s = time.monotonic()
    while not await asyncio.to_thread(happened):
        assert time.monotonic() - began_s < within_s
        await asyncio.sleep(0.01)
    return time.monotonic() - began_s
