"""How do the lines of one batch run? A bounded number at a time, for one chunk of time.

A line is leased in the moment it starts, so that cancelling a batch starts no further line and a
worker that dies holds only what was in flight. Answers are on disk, then in the rows, in groups as
they come. A refusal for want of capacity halves how many run at once, pauses the batch for all
workers, and costs the line nothing. Seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec
import structlog
from django.db import DatabaseError

from gateway.core.clock import Clock
from workers.calls import Broken, NoCapacity, Outcome
from workers.database_thread import DatabaseThread
from workers.pace import Pace
from workers.results import Answer, Part, recovered
from workers.services import batches, lines
from workers.services.lines import ATTEMPTS, Lease, LeasedLine, SettledLine
from workers.validation import Envelope

log = structlog.get_logger(__name__)

BACK_OFF_S = 2.0
LONGEST_OWN_WAIT_S = 5.0  # a longer pause is left to the sweep


class Calls(Protocol):
    async def call(self, line: LeasedLine, body: bytes) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """``chunk_s``: how long lines are started."""

    at_once: int
    chunk_s: float
    heartbeat_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one batch."""

    input_file: Path
    results: Path


class ChunkRun:
    def __init__(
        self, lease: Lease, place: Place, calls: Calls, *, bounds: Bounds, clock: Clock
    ) -> None:
        self._lease = lease
        self._place = place
        self._calls = calls
        self._bounds = bounds
        self._clock = clock
        self._database = DatabaseThread()
        self._running: set[asyncio.Task[Outcome]] = set()
        self._pace = Pace(bounds.at_once)
        self._started_s: dict[int, float] = {}
        self._alone = False
        self._dry = False
        self._recovered: dict[str, dict[int, SettledLine]] = {}

    async def run(self) -> bool:
        """Whether there may be more to do at once. Returns when nothing is in flight."""
        self._end_s = self._clock.monotonic() + self._bounds.chunk_s
        part = await asyncio.to_thread(Part, self._place.results, self._lease.token)
        heart = asyncio.create_task(self._beat(), name="renew leases")
        try:
            await self._work(part)
        finally:
            heart.cancel()
            for task in self._running:
                task.cancel()
            await asyncio.gather(heart, *self._running, return_exceptions=True)
            await self._database.close()
            part.close()
        return not self._dry

    async def _work(self, part: Part) -> None:
        while True:
            await self._start_some()
            if self._running:
                await self._collect(part)
            elif self._dry or self._clock.monotonic() >= self._end_s:
                return
            else:
                await asyncio.sleep(self._pace.wait_s(self._clock.monotonic()))

    async def _start_some(self) -> None:
        now_s = self._clock.monotonic()
        free = self._pace.free(len(self._running), now_s)
        if not free or self._dry or self._alone or now_s >= self._end_s:
            return
        idle = not self._running
        taken = await self._database.run(
            lines.lease, of=self._lease, most=free, may_be_alone=idle, now=self._now()
        )
        self._dry = not taken
        fresh = await self._without_recovered(taken)
        self._alone = any(line.is_suspect for line in fresh)
        for line in fresh:
            work = self._call(line)
            self._started_s[line.line_no] = self._clock.monotonic()
            task = asyncio.create_task(work, name=f"{self._lease.batch_id} line {line.line_no}")
            self._running.add(task)

    async def _without_recovered(self, taken: Sequence[LeasedLine]) -> list[LeasedLine]:
        """Settles the lines whose answer a dead worker had already written down."""
        found = [(line, await self._earlier(line)) for line in taken]
        if kept := [answer for _, answer in found if answer is not None]:
            await self._database.run(lines.settle, of=self._lease, lines=kept)
        return [line for line, answer in found if answer is None]

    async def _earlier(self, line: LeasedLine) -> SettledLine | None:
        token = line.earlier_token
        if not token or token == self._lease.token:
            return None
        if token not in self._recovered:
            found = await asyncio.to_thread(recovered, self._place.results, token)
            self._recovered[token] = found
        return self._recovered[token].get(line.line_no)

    async def _call(self, line: LeasedLine) -> Outcome:
        body = await asyncio.to_thread(self._body, line)
        return await self._calls.call(line, body)

    def _body(self, line: LeasedLine) -> bytes:
        with self._place.input_file.open("rb") as file:
            file.seek(line.offset)
            raw = file.read(line.length)
        return bytes(msgspec.json.decode(raw, type=Envelope).body)

    async def _collect(self, part: Part) -> None:
        pause_s = self._pace.wait_s(self._clock.monotonic()) or None
        done, self._running = await asyncio.wait(
            self._running, return_when=asyncio.FIRST_COMPLETED, timeout=pause_s
        )
        if not done:
            return
        self._alone = False
        outcomes = [task.result() for task in done]
        final = [answer for outcome in outcomes if (answer := _final(outcome)) is not None]
        if final:
            settled = await asyncio.to_thread(part.append, final)
            await self._database.run(lines.settle, of=self._lease, lines=settled)
            self._pace.answered(len(final))
        for outcome in outcomes:
            if _final(outcome) is None:
                await self._give_back(outcome)

    async def _give_back(self, outcome: Outcome) -> None:
        now = self._now()
        if isinstance(outcome, NoCapacity):
            until = now + timedelta(seconds=outcome.wait_s)
            await self._return(outcome.line, until, counts=False)
            await self._database.run(batches.pause, batch_id=self._lease.batch_id, until=until)
            started_s = self._started_s[outcome.line.line_no]
            self._pace.refused(started_s, outcome.wait_s, self._clock.monotonic())
            self._dry = self._dry or outcome.wait_s > LONGEST_OWN_WAIT_S
        elif isinstance(outcome, Broken):
            line = outcome.line
            until = now + timedelta(seconds=BACK_OFF_S * line.attempt)
            await self._return(line, until, counts=True)

    async def _return(self, line: LeasedLine, until: datetime, *, counts: bool) -> None:
        await self._database.run(
            lines.give_back, of=self._lease, line_no=line.line_no, not_before=until, counts=counts
        )

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._bounds.heartbeat_s)
            try:
                await self._database.run(lines.renew, of=self._lease, now=self._now())
            except DatabaseError as error:
                log.warning("leases_not_renewed", error=type(error).__name__)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall(), UTC)


def _final(outcome: Outcome) -> Answer | None:
    """What is to be written down, if the line is not to be tried again."""
    if isinstance(outcome, Answer):
        return outcome
    if isinstance(outcome, Broken) and outcome.line.attempt >= ATTEMPTS:
        return outcome.answer
    return None
