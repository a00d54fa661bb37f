"""Replicas that stop, before their headers or amid a stream: noticed in time and told."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest

from gateway.core.clock import SystemClock
from gateway.core.reasons import Outcome
from gateway.pipeline.attempts import FIRST_CONTENT_S
from gateway.replicas.http_upstream import HttpUpstream
from tests.fakes import scripts
from tests.fakes.data_plane import House, chat, replica
from tests.fakes.scripted_replica import running

CALLS = int(os.environ.get("TEST_HANGING_CALLS", "150"))
TTFT_S = 0.1
THREE = tuple(replica(f"r{n}", slots=100) for n in range(3))
HANGS = int(os.environ.get("TEST_HANGS", "20"))
BETWEEN_TOKENS_S = 0.3


@pytest.mark.parametrize(("per_s", "seed"), [(0.25, 40), (1.0, 40), (1.0, 41)])
def test_one_hang_in_ten_costs_its_call_the_deadline_and_a_retry(
    in_house: Any, per_s: float, seed: int
) -> None:
    """Row 40: whatever hangs before its headers is tried once elsewhere, and no other call waits
    for a slot because of it."""

    async def scenario(house: House) -> None:
        rng = random.Random(seed)
        good, mute = scripts.tokens(2, ttft_s=TTFT_S), scripts.hang_before_headers()
        house.scripted.default = lambda target, body: mute if rng.random() < 0.1 else good

        async def caller() -> None:
            await asyncio.sleep(rng.random() * CALLS / per_s)
            await house.call(chat(stream=True))

        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLS):
                callers.create_task(caller())
        records = house.records
        retried = [each for each in records if len(each.attempts) == 2]
        times = sorted(each.ttft_s for each in records if each.ttft_s is not None)
        p99_s = times[int(0.99 * len(times))]
        attempts = sum(len(each.attempts) for each in records)
        failed = sum(each.outcome is not Outcome.COMPLETED for each in records)
        print(
            f"{per_s:g} calls/s: p99 {p99_s:.2f} s, {len(retried)} retried, {failed} of {CALLS}"
            " without an answer"
        )
        assert len(retried) >= 8
        assert p99_s <= FIRST_CONTENT_S[1] + TTFT_S + 0.01
        assert attempts <= 1.10 * CALLS + 10
        assert failed <= 0.02 * CALLS
        assert house.leftovers == {}

    in_house(scenario, replicas=THREE)


@pytest.mark.alone
@pytest.mark.parametrize("after", [1, 5])
async def test_a_stream_that_stops_is_ended_aloud_half_a_second_after_its_limit(
    tmp_path: Path, after: int
) -> None:
    """Row 41: over sockets; from the last token to the error event, and what is charged."""
    async with running(scripts.hang_after(after)) as server:
        upstream = HttpUpstream(("127.0.0.0/8",))
        house = await House(
            SystemClock(),
            tmp_path,
            transport=upstream,
            replicas=[replica("r1", base_url=server.url, slots=HANGS)],
            settings={"between_tokens_timeout_s": BETWEEN_TOKENS_S},
        ).open()
        answers = await asyncio.gather(*(house.call(chat(stream=True)) for _ in range(HANGS)))
        assert house.leftovers == {}
        await house.close()
        await upstream.close()
    told = [answer.events()[-1]["error"]["code"] for answer in answers]
    assert told == ["stream_stalled"] * HANGS
    assert not any(answer.done for answer in answers)
    assert {each.completion_tokens for each in house.records} == {after}
    worst_s = max(answer.times[-1] - answer.times[-2] for answer in answers)
    print(f"{HANGS} stalls, noticed after {worst_s:.2f} s at most, limit {BETWEEN_TOKENS_S} s")
    assert worst_s <= BETWEEN_TOKENS_S + 0.5
