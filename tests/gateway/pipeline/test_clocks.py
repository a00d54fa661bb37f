"""The definitions of time, exact in virtual time and close to it over a real socket."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.core.clock import SystemClock
from gateway.core.records import CallRecord
from gateway.replicas.http_upstream import HttpUpstream
from tests.fakes import scripts
from tests.fakes.data_plane import Answer, House, chat, replica
from tests.fakes.scripted_replica import running
from tests.fakes.scripts import Script, Send, Step, Wait

GAP_S = 0.01


@dataclass(frozen=True, slots=True)
class Expected:
    """Seconds from arrival; None = absent, never 0."""

    ttft_s: float | None
    first_visible_s: float | None
    tpot_s: float | None
    e2e_s: float | None


def spaced(script: Script) -> Script:
    """The same, with ``GAP_S`` before each of its chunks."""
    steps: list[Step] = []
    for step in script.steps:
        if isinstance(step, Send):
            steps += [Wait(GAP_S), step]
        elif not isinstance(step, Wait):
            steps.append(step)
    return replace(script, steps=tuple(steps))


# chunk 1 is the role, content begins with chunk 2
STREAMS: dict[str, tuple[Script, Expected]] = {
    "one token": (scripts.tokens(1), Expected(2, 2, None, 2)),
    "eight tokens in one chunk": (scripts.eight_tokens_in_one_chunk(), Expected(2, 2, 0, 2)),
    "role-only first chunk": (scripts.tokens(5), Expected(2, 2, 1, 6)),
    "reasoning then text": (scripts.reasoning_then_text(), Expected(2, 3, 1, 3)),
    "tool call": (scripts.tool_call(), Expected(2, 2, 1 / 4, 3)),
    "empty answer": (scripts.empty_answer(), Expected(None, None, None, None)),
    "cut stream": (scripts.cut_after(3), Expected(2, 2, 1, 4)),
}
NAMED = [pytest.param(*stream, id=name) for name, stream in STREAMS.items()]
FIELDS = ("ttft_s", "first_visible_s", "tpot_s", "e2e_s")


@pytest.mark.parametrize(("script", "expected"), NAMED)
def test_clocks_are_exact(in_house: Any, script: Script, expected: Expected) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = spaced(script)
        await house.call(chat(stream=True))
        record = house.records[0]
        for name in FIELDS:
            wanted = getattr(expected, name)
            wanted = wanted if wanted is None else pytest.approx(wanted * GAP_S, abs=1e-9)
            assert getattr(record, name) == wanted, name
        check_identity(record)

    in_house(scenario)


@pytest.mark.alone
@pytest.mark.parametrize(("script", "expected"), NAMED)
async def test_clocks_over_a_socket_are_within_five_milliseconds(
    tmp_path: Path, script: Script, expected: Expected
) -> None:
    """Beside what a client sees and what the replica does; median of 20, because a busy machine may
    delay one stream, not most of them."""
    late: dict[str, list[float]] = {"ttft_s": [], "e2e_s": []}
    async with running(spaced(script)) as server:
        upstream = HttpUpstream(["127.0.0.0/8"])
        only = replica("r1", base_url=server.url, slots=20)
        house = await House(SystemClock(), tmp_path, transport=upstream, replicas=[only]).open()
        for _ in range(20):
            answer = await house.call(chat(stream=True))
            record = house.records[-1]
            seen = content_times(answer)
            for name, times in zip(late, (seen[:1], seen[-1:]), strict=True):
                moment = getattr(record, name)
                assert (moment is None) == (not times) == (getattr(expected, name) is None)
                if moment is not None:
                    assert moment >= getattr(expected, name) * GAP_S - 0.001
                    late[name].append(abs(times[0] - moment))
        await house.close()
        await upstream.close()
    assert all(statistics.median(values or [0.0]) <= 0.005 for values in late.values()), late


def content_times(answer: Answer) -> list[float]:
    """When the client got what is text, reasoning or a tool call."""
    marks = (b'"content":"t', b'"content":"a', b'"reasoning_content"', b'"tool_calls":[')
    parts = zip(answer.times, answer.parts, strict=True)
    return [time_s for time_s, part in parts if any(mark in part for mark in marks)]


def test_time_in_the_queue_counts(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(2, ttft_s=1.0, gap_s=1.0)
        await asyncio.gather(*(house.call(chat(stream=True)) for _ in range(2)))
        second = house.records[1]
        assert [second.queue_s, second.ttft_s] == pytest.approx([2.0, 3.0])

    in_house(scenario, replicas=(replica("r1", slots=1),))


def test_header_time_is_not_first_token_time(in_house: Any) -> None:
    """vLLM answers the headers of queued calls at once."""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.role_only_then(3.0).later(0.5)
        await house.call(chat(stream=True))
        attempt = house.records[0].attempts[0]
        moments = [attempt.headers_s, attempt.first_event_s, attempt.first_token_s]
        assert moments == pytest.approx([0.5, 0.5, 3.5])

    in_house(scenario)


def check_identity(record: CallRecord) -> None:
    """E2E = TTFT + TPOT * (n - 1); for one token E2E = TTFT."""
    if record.ttft_s is None or record.e2e_s is None:
        assert record.ttft_s is record.e2e_s is record.tpot_s is None
    else:
        steps = (record.tpot_s or 0.0) * (record.completion_tokens - 1)
        assert record.e2e_s == pytest.approx(record.ttft_s + steps)
