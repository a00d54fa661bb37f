"""Is this one replica alive, and may it be given calls? One object from adding to removal.

A task probes when the health machine asks for it, another scrapes telemetry. What the calls
experience comes in through ``watch``. The object, not its name, owns counters and connections: a
call that outlives the removal of its replica reports to an object that nobody asks any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from gateway.core.clock import Clock
from gateway.core.dispatch.effects import ReplicaHealth, ReplicaTelemetry
from gateway.core.errors import ConnectionLost, ReplicaFull, ReplicaUnreachable, UpstreamError
from gateway.core.events import Event, ReplicaState
from gateway.core.health.callers import RecentCallers
from gateway.core.health.machine import PROBE_TIMEOUT_S, HealthState, ReplicaHealthMachine
from gateway.core.health.stall import STALL_AFTER_S, StallWatch
from gateway.degradation import Degradation
from gateway.replicas.adapters import Adapter
from gateway.replicas.restarted_task import RestartedTask
from gateway.replicas.scraper import Scraper
from gateway.replicas.upstream import Prober, ReplicaTarget

PROBE_BODY_BYTES = 64 * 1024
TICK_S = 0.001  # a timer may fire a rounding error early
PROGRESS_S = 0.25  # so often an attempt tells that it goes on; what is decided by it takes seconds


@dataclass(frozen=True, slots=True)
class FleetSinks:
    """Who is told. Called on the loop, in the moment of the change; they must not wait."""

    health: Callable[[str, ReplicaHealth], None]  # (pool, health)
    telemetry: Callable[[str, ReplicaTelemetry], None]
    publish: Callable[[Event], None]


class Watch:
    """A context around one attempt, and what the attempt tells about its replica. An UpstreamError
    that passes through is evidence; the caller's own errors and cancellations are none."""

    __slots__ = ("_excused", "_replica", "_since_s", "blamed", "caller", "has_content")

    def __init__(
        self, replica: SupervisedReplica, caller: str, excused: Callable[[], bool], now_s: float
    ) -> None:
        self._replica = replica
        self.caller = caller
        self._excused = excused
        self._since_s = now_s
        self.has_content = False
        self.blamed = False  # it failed before its first token

    def __enter__(self) -> Self:
        self._replica.began(self, self._since_s)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._replica.over(self, error)

    def is_starved(self, now_s: float) -> bool:
        """It could have had tokens all the while, so that their absence is the replica's doing."""
        return now_s - self._since_s >= STALL_AFTER_S and not self._excused()

    def progress(self, now_s: float) -> None:
        """Content has arrived: the first at once, later now and then (see PROGRESS_S)."""
        self._replica.progressed(now_s, first=not self.has_content)
        self.has_content = True

    def outdone(self) -> None:
        """Another replica has answered the same call. If it failed here, that was no fault of the
        call."""
        if self.blamed:
            self._replica.outdone()


class SupervisedReplica:
    """``setting`` is the operator's word: enabled, draining or disabled."""

    def __init__(
        self,
        target: ReplicaTarget,
        adapter: Adapter,
        machine: ReplicaHealthMachine,
        *,
        prober: Prober,
        clock: Clock,
        sinks: FleetSinks,
        callers: RecentCallers,
    ) -> None:
        self.target = target
        self.machine = machine
        self.setting = "enabled"
        self.in_flight = 0
        self._adapter = adapter
        self._prober = prober
        self._clock = clock
        self._sinks = sinks
        self._callers = callers  # of the pool
        self._stall = StallWatch(clock.monotonic())
        self._watches: set[Watch] = set()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._told: ReplicaHealth | None = None
        self._told_state = ""
        self._degradation = Degradation(f"telemetry:{target.slug}", sinks.publish, clock)
        self._scraper = Scraper(
            target,
            adapter,
            prober=prober,
            clock=clock,
            degradation=self._degradation,
            wanted=self._is_up,
            sink=sinks.telemetry,
        )
        name = f"{target.pool}/{target.slug}"
        self._tasks = (
            RestartedTask(f"probe {name}", self._probe_forever),
            RestartedTask(f"scrape {name}", self._scraper.run),
        )

    @property
    def state(self) -> str:
        return self.setting if self.setting != "enabled" else self.machine.state.value

    @property
    def why(self) -> str:
        """It is in this state."""
        return self.machine.why if self.setting == "enabled" else "set by an operator"

    @property
    def telemetry(self) -> ReplicaTelemetry | None:
        return self._scraper.sample

    @property
    def degraded(self) -> str | None:
        """Why there is no telemetry, if there should be some."""
        return self._degradation.why

    def start(self) -> None:
        for task in self._tasks:
            task.start()

    def stop(self) -> None:
        """No more probes and scrapes; attempts that run go on."""
        for task in self._tasks:
            task.stop()
        self._scraper.lost(None)

    async def ended(self) -> None:
        for task in self._tasks:
            await task.ended()

    async def idle(self) -> None:
        """Returns when no attempt uses the replica."""
        await self._idle.wait()

    def set(self, setting: str, slots: int) -> None:
        self.setting = setting
        self.machine.set_slots(slots)
        self.tell()

    def watch(self, caller: str = "", excused: Callable[[], bool] = lambda: False) -> Watch:
        """Around one attempt of the tenant ``caller``. ``excused``: its caller reads nothing
        now."""
        return Watch(self, caller, excused, self._clock.monotonic())

    def began(self, watch: Watch, now_s: float) -> None:
        self._callers.seen(watch.caller, now_s)
        self.in_flight += 1
        self._idle.clear()
        self._stall.started(now_s)
        self._watches.add(watch)

    def over(self, watch: Watch, error: BaseException | None) -> None:
        """``error``: what ended the attempt, if not its answer."""
        try:
            if isinstance(error, UpstreamError):
                self._failed(error, watch)
        finally:
            self.in_flight -= 1
            self._watches.discard(watch)
            self._stall.ended()
            if self.in_flight == 0:
                self._idle.set()

    def progressed(self, now_s: float, *, first: bool) -> None:
        self._stall.progress(now_s)
        if first:
            before = self.machine.state
            self.machine.call_succeeded(now_s)
            if not (before is self.machine.state is HealthState.SERVING):
                self.tell()
        else:
            self.machine.progress(now_s)

    def outdone(self) -> None:
        """A call that failed here has succeeded on another replica."""
        self.machine.outdone(self._clock.monotonic())
        self.tell()

    def tell(self) -> None:
        """Passes on what changed since the last time."""
        now_s = self._clock.monotonic()
        health = self.machine.health(now_s)
        if self.setting != "enabled":
            health = ReplicaHealth(self.target.slug, admits=False, slot_cap=health.slot_cap)
        if self.state != self._told_state:
            self._told_state = self.state
            at = self._clock.wall()
            target = self.target
            self._sinks.publish(ReplicaState(at, target.pool, target.slug, self.state, self.why))
        if health != self._told:
            self._told = health
            self._sinks.health(self.target.pool, health)

    def _failed(self, error: UpstreamError, watch: Watch) -> None:
        now_s = self._clock.monotonic()
        if isinstance(error, ReplicaFull):
            self.machine.full(now_s, error.retry_after_s)
        elif isinstance(error, ReplicaUnreachable):
            self.machine.connection_failed(now_s)
        else:
            if error.blames_replica and not watch.has_content:
                watch.blamed = True
                self._call_failed(watch.caller, now_s)
            if isinstance(error, ConnectionLost):
                self.machine.connection_failed(now_s)
        self._wake.set()
        self.tell()

    def _call_failed(self, caller: str, now_s: float) -> None:
        others = self._callers.others_than(caller, now_s)
        self.machine.call_failed(now_s, caller, others=others)

    def _starved(self, callers: Collection[str], now_s: float) -> None:
        """None of their calls receives tokens."""
        if len(callers) > 1 or any(not self._callers.others_than(one, now_s) for one in callers):
            self.machine.stalled(now_s)
        else:
            for caller in callers:
                self._call_failed(caller, now_s)

    def _is_up(self) -> bool:
        return self.setting != "disabled" and self.machine.state is not HealthState.DOWN

    async def _probe_forever(self) -> None:
        while True:
            await self._until_due()
            now_s = self._clock.monotonic()
            stalls_at_s = self._stall.stalls_at_s()
            if stalls_at_s is not None and now_s >= stalls_at_s:
                self._starved(
                    {each.caller for each in self._watches if each.is_starved(now_s)}, now_s
                )
                self._stall.progress(now_s)
            self.tell()
            if now_s >= self.machine.next_probe_s and self.setting != "disabled":
                await self._probe()
                self.tell()

    async def _until_due(self) -> None:
        """Sleeps to the next probe, change of health or possible stall; a report wakes it."""
        self._wake.clear()
        now_s = self._clock.monotonic()
        times = [self._stall.stalls_at_s()]
        if self.setting != "disabled":
            times.append(self.machine.next_wake_s(now_s))
        due = [time_s for time_s in times if time_s is not None]
        delay_s = min(due) - now_s if due else None
        if delay_s is not None and delay_s > 0:
            delay_s = max(TICK_S, delay_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._wake.wait()

    async def _probe(self) -> None:
        try:
            answer = await self._prober.get(
                self.target,
                self._adapter.health_path,
                timeout_s=PROBE_TIMEOUT_S,
                max_bytes=PROBE_BODY_BYTES,
            )
        except UpstreamError as error:
            if not error.blames_replica:
                self.machine.probe_not_sent(self._clock.monotonic())
                return
            refused = isinstance(error, ReplicaUnreachable | ConnectionLost)
            self.machine.probe_failed(self._clock.monotonic(), refused=refused)
            return
        if 200 <= answer.status < 300:
            self.machine.probe_passed(self._clock.monotonic())
        else:
            self.machine.probe_failed(self._clock.monotonic(), refused=False)
