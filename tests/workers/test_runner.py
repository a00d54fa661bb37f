"""One chunk of a batch against a gateway that says what the test wants."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from django.utils import timezone

from gateway.core.clock import SystemClock
from tests.workers.batches import Desk
from workers.calls import Broken, NoCapacity, Outcome, failure
from workers.models import Batch, LineState, Status
from workers.results import Answer, Part
from workers.runner import Bounds, ChunkRun
from workers.services import batches
from workers.services.lines import Lease, LeasedLine
from workers.threads import with_database
from workers.usage import TokenUsage

Say = Callable[[LeasedLine], Outcome]


def fine(line: LeasedLine) -> Answer:
    usage = TokenUsage(10, 0, 2)
    return Answer(line.line_no, line.custom_id, 200, "call", b'{"ok":true}', usage)


def refused(line: LeasedLine) -> Answer:
    return msgspec_replace(fine(line), status=400)


def broken(line: LeasedLine) -> Broken:
    return Broken(line, failure(line, 502, "upstream_error", "broken"))


def full(line: LeasedLine) -> NoCapacity:
    return NoCapacity(line, 0.01)


def msgspec_replace(answer: Answer, *, status: int) -> Answer:
    return Answer(
        answer.line_no, answer.custom_id, status, answer.request_id, answer.body, answer.usage
    )


@dataclass
class ScriptedGateway:
    """``script[custom_id]`` is said in order, then ``fine``; ``gate`` holds every call."""

    script: dict[str, list[Say]] = field(default_factory=dict)
    gate: asyncio.Event | None = None
    calls: Counter[str] = field(default_factory=Counter)
    bodies: dict[str, bytes] = field(default_factory=dict)
    running: int = 0
    most_running: int = 0
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_running(self, count: int) -> None:
        """As many as that wait at the gate, no more and no fewer, for a while."""
        async with asyncio.timeout(10):
            while not (self.running == count and await self._steady()):
                await asyncio.sleep(0.01)

    async def _steady(self) -> bool:
        before = self.running
        await asyncio.sleep(0.1)
        return self.running == before

    async def call(self, line: LeasedLine, body: bytes) -> Outcome:
        self.calls[line.custom_id] += 1
        self.bodies[line.custom_id] = body
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.entered.set()
        try:
            await (self.gate.wait() if self.gate else asyncio.sleep(0))
        finally:
            self.running -= 1
        said = self.script.get(line.custom_id, [])
        return said.pop(0)(line) if said else fine(line)


def chunk(desk: Desk, batch: Batch, gateway: ScriptedGateway, **bounds: float) -> ChunkRun:
    values = {"at_once": 8, "chunk_s": 20.0, "heartbeat_s": 15.0} | bounds
    lease = Lease.new(batch.batch_id, timezone.now())
    limits = Bounds(int(values["at_once"]), values["chunk_s"], values["heartbeat_s"])
    return ChunkRun(lease, desk.place(batch), gateway, bounds=limits, clock=SystemClock())


def run(desk: Desk, batch: Batch, gateway: ScriptedGateway, **bounds: float) -> Batch:
    asyncio.run(chunk(desk, batch, gateway, **bounds).run())
    return Batch.objects.get(pk=batch.pk)


def test_every_line_is_called_once(desk: Desk) -> None:
    batch, gateway = desk.running(200), ScriptedGateway()
    batch = run(desk, batch, gateway)
    assert (batch.completed, batch.failed) == (200, 0)
    assert set(gateway.calls.values()) == {1}
    assert gateway.most_running <= 8
    assert (batch.input_tokens, batch.output_tokens) == (2000, 400)
    results = desk.results(desk.closed(batch).output_file_id)
    assert [line["custom_id"] for line in results] == [f"r{n}" for n in range(1, 201)]


def test_the_body_goes_out_as_it_came(desk: Desk) -> None:
    batch, gateway = desk.running(1), ScriptedGateway()
    run(desk, batch, gateway)
    assert msgspec.json.decode(gateway.bodies["r1"])["messages"][0]["content"] == "hi"


def test_no_capacity_costs_a_line_nothing(desk: Desk) -> None:
    batch = desk.running(3)
    gateway = ScriptedGateway({"r2": [full] * 6})
    batch = run(desk, batch, gateway)
    assert (batch.completed, batch.failed) == (3, 0)
    assert batch.lines.get(custom_id="r2").attempts == 1


async def test_without_capacity_half_as_many_run_at_once(desk: Desk) -> None:
    gate = asyncio.Event()

    def full_once(line: LeasedLine) -> NoCapacity:
        gate.clear()
        return full(line)

    batch = await with_database(desk.running, 40)
    gateway = ScriptedGateway({f"r{n}": [full_once] for n in range(1, 9)}, gate)
    running = asyncio.create_task(chunk(desk, batch, gateway).run())
    await gateway.until_running(8)
    gate.set()
    await gateway.until_running(4)
    gate.set()
    await running
    assert sum(gateway.calls.values()) == 48
    assert (await with_database(Batch.objects.get)).completed == 40


def test_a_long_wait_ends_the_chunk_and_pauses_the_batch_for_all(desk: Desk) -> None:
    batch = desk.running(20)
    gateway = ScriptedGateway({"r1": [lambda line: NoCapacity(line, 120.0)]})
    batch = run(desk, batch, gateway)
    assert batch.paused_until is not None
    assert batch.completed < 20
    assert desk.lease(batch, "other") == []


def test_a_failure_is_tried_again_later_and_counts(desk: Desk) -> None:
    batch = desk.running(2)
    batch = run(desk, batch, ScriptedGateway({"r1": [broken]}))
    row = batch.lines.get(custom_id="r1")
    assert (row.state, row.attempts, batch.completed) == (LineState.WAITING, 1, 1)
    assert row.not_before is not None


def test_the_third_failure_is_the_answer(desk: Desk) -> None:
    batch = desk.running(1)
    batch.lines.update(attempts=2)
    batch = run(desk, batch, ScriptedGateway({"r1": [broken]}))
    (line,) = desk.results(desk.closed(batch).error_file_id)
    assert line["response"]["status_code"] == 502


def test_a_refusal_is_the_answer_at_once(desk: Desk) -> None:
    batch = run(desk, desk.running(2), ScriptedGateway({"r1": [refused]}))
    assert (batch.completed, batch.failed) == (1, 1)
    assert batch.status == Status.IN_PROGRESS


async def test_cancelling_starts_no_further_line(desk: Desk) -> None:
    """Row 72."""
    gateway = ScriptedGateway(gate=asyncio.Event())
    batch = await with_database(desk.running, 50)
    running = asyncio.create_task(chunk(desk, batch, gateway, at_once=5).run())
    await gateway.entered.wait()
    await with_database(batches.cancel, tenant="acme", batch_id=batch.batch_id, now=desk.now)
    assert gateway.gate is not None
    gateway.gate.set()
    await running
    assert sum(gateway.calls.values()) == 5


async def test_duplicates_of_one_message_call_no_line_twice(desk: Desk) -> None:
    """Row 68, M15."""
    batch = await with_database(desk.running, 60)
    gateway = ScriptedGateway()
    await asyncio.gather(*(chunk(desk, batch, gateway).run() for _ in range(6)))
    assert set(gateway.calls.values()) == {1}
    assert len(gateway.calls) == 60


def test_a_chunk_hands_over_when_its_time_is_up(desk: Desk) -> None:
    batch, gateway = desk.running(500), ScriptedGateway()
    again = asyncio.run(chunk(desk, batch, gateway, chunk_s=0.05, at_once=2).run())
    assert again
    assert 0 < sum(gateway.calls.values()) < 500


async def test_leases_are_renewed_while_a_call_takes_long(desk: Desk) -> None:
    gateway = ScriptedGateway(gate=asyncio.Event())
    batch = await with_database(desk.running, 1)
    running = asyncio.create_task(chunk(desk, batch, gateway, heartbeat_s=0.02).run())
    await gateway.entered.wait()
    first = await with_database(_lease_until, batch)
    async with asyncio.timeout(5):
        while await with_database(_lease_until, batch) == first:
            await asyncio.sleep(0.02)
    assert gateway.gate is not None
    gateway.gate.set()
    await running


def test_an_answer_that_a_dead_worker_had_written_is_not_asked_for_again(desk: Desk) -> None:
    """Row 70."""
    batch = desk.running(2)
    (first, _) = desk.lease(batch, "dead")
    part = Part(desk.storage.results(batch.batch_id), "dead")
    part.append([fine(first)])
    part.close()
    with (desk.storage.results(batch.batch_id) / "dead").open("ab") as file:
        file.write(b'{"line_no":2,"is_comp')  # it died while writing
    batch.lines.update(lease_until=desk.later(-1))
    gateway = ScriptedGateway()
    batch = run(desk, batch, gateway)
    assert gateway.calls == {"r2": 1}
    assert batch.completed == 2
    assert len(desk.results(desk.closed(batch).output_file_id)) == 2


@pytest.mark.parametrize("failures", [1, 2])
def test_attempts_of_lines_are_counted_apart(desk: Desk, failures: int) -> None:
    batch = desk.running(3)
    script: dict[str, list[Say]] = defaultdict(list, r2=[broken] * failures)
    gateway = ScriptedGateway(script)
    for _ in range(failures + 1):
        batch.lines.update(not_before=None)
        batch = run(desk, batch, gateway)
    assert batch.completed == 3
    assert [row.attempts for row in batch.lines.all()] == [1, failures + 1, 1]


def _lease_until(batch: Batch) -> object:
    return batch.lines.values_list("lease_until", flat=True).get()
