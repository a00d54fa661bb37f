"""A bug may raise at any await of a call: its caller is told, its tokens are charged once, and
nothing stays behind."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import gateway.pipeline
from gateway import data_plane
from gateway.core.reasons import Outcome, Reason
from gateway.core.records import CallRecord
from tests.fakes import scripts
from tests.fakes.data_plane import Answer, House, chat, limit, replica, tenant
from tests.fakes.fault_points import FaultPoints, Point, When
from tests.fakes.scripts import Script

FULL_SIZE = "TEST_FAULT_POINTS" in os.environ
TOKENS = 4
GOOD = scripts.tokens(TOKENS, ttft_s=0.1, gap_s=0.1)
LATE = scripts.tokens(TOKENS, ttft_s=13.0, gap_s=3.0)  # told that it is alive, before and between
BETWEEN = scripts.tokens(TOKENS, ttft_s=12.5)  # comes while its caller is told that it is alive
UNENDED = Script(
    (scripts.Send(scripts.ROLE), *scripts.ending(0)[:-1], scripts.Send(b"data: [DONE]"))
)
CUT_LATE = Script((scripts.Wait(11.0), scripts.Cut()))
LARGE = "x" * 300_000  # parsed in a thread
PIPELINE = [
    importlib.import_module(f"gateway.pipeline.{each.name}")
    for each in pkgutil.iter_modules(gateway.pipeline.__path__)
]
BESIDE = (  # not on the way of such a call, or a wait for what has always ended by then
    *("running.py", "token_counting.py"),
    "attempt.py Attempt._read 3",
)
HANDED_OVER = frozenset(  # a value: nothing there can raise
    {Point("flow.py Granted.__aenter__ 1", When.AFTER)}
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One call: what the replica says, how fast its caller reads and after how long it leaves."""

    name: str
    says: tuple[Script, ...]
    stream: bool = True
    content: str = "hello"
    leaves_after_s: float | None = None
    reads_for_s: float = 0.0

    async def play(self, house: House) -> Answer:
        house.scripted.attempts.clear()
        house.scripted.say("only", *self.says)
        house.gateway.pipeline.retries.keep(())  # with a full budget
        leave = asyncio.Event()
        if self.leaves_after_s is not None:
            asyncio.get_running_loop().call_later(self.leaves_after_s, leave.set)
        body = chat(self.content, stream=self.stream)
        answer = await house.call(body, leave=leave, reads_for_s=self.reads_for_s)
        house.scripted.forget_said()
        await asyncio.sleep(3.0)  # a full replica is asked again
        return answer


SCENES = (
    Scene("stream", (GOOD,)),
    Scene("silent stream", (LATE,)),
    Scene("read slowly", (BETWEEN,), reads_for_s=0.7),
    Scene("last event without an empty line", (UNENDED,), stream=False),
    Scene("whole answer", (GOOD,), stream=False),
    Scene("large body", (GOOD,), content=LARGE),
    Scene("retried", (scripts.status(500), GOOD)),
    Scene("full, then served", (scripts.status(503), GOOD)),
    Scene("cut", (scripts.cut_after(2),)),
    Scene("cut while told that it is alive", (CUT_LATE, scripts.refused()), reads_for_s=1.0),
    Scene("refused", (scripts.status(400),), stream=False),
    Scene("left", (scripts.hang_after(2),), leaves_after_s=0.5),
)


class Log:
    """Hundreds of tracebacks cost seconds."""

    def __init__(self) -> None:
        self.faults = 0

    def exception(self, event: str, **fields: object) -> None:
        self.faults += 1


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(data_plane, "log", log)
    return log


@pytest.fixture
def points() -> Iterator[FaultPoints]:
    with FaultPoints(PIPELINE) as points:
        yield points


def to_arm(passed: list[Point]) -> Iterator[tuple[Point, int]]:
    """The first passing of each point; at full size the last too."""
    for point, times in Counter(passed).items():
        if point not in HANDED_OVER:
            yield from ((point, nth) for nth in sorted({1, times} if FULL_SIZE else {1}))


def judge(house: House, answer: Answer, record: CallRecord, *, stream: bool) -> None:
    """Nothing is left, no end is silent, and what was received is what is charged."""
    assert house.leftovers == {}
    assert len(house.active) == 0
    said = answer.text.count("t") if stream and answer.status == 200 else 0
    if stream:
        assert said <= record.completion_tokens <= said + 1  # read, but not handed on
    elif record.outcome is Outcome.FAILED:
        assert record.charge_microcredits == 0
    if answer.ended and answer.status == 200 and stream:
        assert answer.done or "error" in answer.events()[-1]
    if record.reason is Reason.INTERNAL:
        assert record.outcome is not Outcome.REJECTED or not record.attempts
        assert record.status == 500


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # its await raised instead
def test_an_exception_at_any_await_leaves_nothing_behind(
    in_house: Any, points: FaultPoints, log: Log
) -> None:
    """Row 20, S40: each await of the pipeline, before and after its work, in twelve kinds of call;
    one permit and one slot, so that a leak would refuse the next call."""
    runs = committed = 0
    reached: set[str] = set()

    async def scenario(house: House) -> None:
        nonlocal runs, committed
        for scene in SCENES:
            points.arm(None)
            await scene.play(house)
            for point, nth in list(to_arm(points.passed)):
                points.arm(point, nth)
                before = len(house.records)
                answer = await scene.play(house)
                assert points.fired, f"{scene.name}: not reached, or refused: {point}"
                [record] = house.records[before:]
                judge(house, answer, record, stream=scene.stream)
                runs += 1
                reached.add(point.place)
                committed += bool(answer.status == 200 and scene.stream)
        points.arm(None)
        assert (await SCENES[0].play(house)).done

    alone = tenant(limits=(limit("concurrent", 1),))
    replicas = (replica("only", slots=1),)
    in_house(scenario, tenants=(alone,), replicas=replicas, settings={"keep_alive_s": 2.0})
    assert {place for place in points.places - reached if not place.startswith(BESIDE)} == set()
    print(f"{runs} runs at {len(reached)} awaits, {committed} after the headers; 0 leaks")
    assert runs >= 500
    assert log.faults > runs / 2
