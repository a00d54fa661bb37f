"""The running gateway of one process: builds every collaborator, starts and stops them in order.

Start: journal, quota store, first snapshot, calls that a dead process left behind, replicas, pulse.
Stop: refuse what is queued, let streams end within the grace, end the rest, then write everything
down. ``scope["fairway"]`` is this object; pages and API reach the gateway through it alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import get_args

from gateway.active_calls import ActiveCalls
from gateway.assembly import Collaborators, Gateway
from gateway.background import Background
from gateway.bus import EventBus
from gateway.call_log import CallLog
from gateway.core.clock import Clock, SystemClock
from gateway.core.events import AttemptEnded, BatchSecond, CallEnded, Event
from gateway.core.limits.demands import QuotaStore
from gateway.core.stages import LOOP, MEMORY, Stage, Stages
from gateway.data_plane import DataPlane
from gateway.degradation import Degradation
from gateway.foreign_traffic import ForeignTraffic
from gateway.heartbeat import Heartbeat, Pulse
from gateway.ledger import rows
from gateway.ledger.guard import HardBudgetGuard
from gateway.ledger.ledger import Ledger
from gateway.loop_watch import LoopWatch
from gateway.memory_watch import MemoryWatch
from gateway.metrics import Metrics
from gateway.orphans import settle_orphans
from gateway.probes import Probes
from gateway.process_memory import ProcessMemory, give_back
from gateway.replicas.adapters import load_plugins
from gateway.replicas.http_upstream import HttpUpstream
from gateway.seeding import seed_budgets
from gateway.settings import GatewaySettings
from gateway.snapshot.build import build
from gateway.snapshot.holder import SnapshotHolder
from gateway.stores.degraded import DegradingStore, shared_store
from gateway.stores.memory import MemoryStore
from gateway.summary import SummaryBuilder
from gateway.template_orders import TemplateOrders
from tenants.snapshot import current_version

LEDGER_STOP_S = 5.0
OF_CALLS_AND_PARTS = frozenset(get_args(Event)) - {AttemptEnded}  # its call tells of it too
Sinks = Mapping[str, Callable[[Event], None]]


class Fairway:
    """``sinks`` get the events of calls and parts on the loop (the live pages, for one);
    ``batches`` says how far batches are, for the summary. ``gateway`` and ``store`` exist between
    `start` and `stop`."""

    gateway: Gateway
    store: QuotaStore

    def __init__(
        self,
        settings: GatewaySettings,
        sinks: Sinks | None = None,
        *,
        batches: Callable[[], tuple[BatchSecond, ...]] = tuple,
    ) -> None:
        self.settings = settings
        self.clock: Clock = SystemClock()
        self.metrics = Metrics(tenant_labels=settings.tenant_labels)
        self.bus = EventBus(self.metrics.event_dropped)
        self.snapshots = SnapshotHolder(
            build, current_version, self.bus.publish, self.clock, redis_url=settings.redis_url
        )
        self.foreign_traffic = ForeignTraffic(self.bus.publish, self.clock)
        self.summary = SummaryBuilder(random.Random(), self._ttft_objective_s)
        self.active = ActiveCalls(settings.var_dir / "active-calls", settings.active_calls)
        self.ledger = Ledger(
            settings.var_dir / "journal",
            self.active.close,
            rows.insert,
            self.bus.publish_from_thread,
            self.clock,
            spool_bytes=settings.ledger_spool_bytes,
        )
        self.heartbeat = Heartbeat(
            Pulse(self.metrics.loop_lag, self._watch, self._summarise, self._renew), self.clock
        )
        self.memory = Stages(MEMORY)
        self.loop = Stages(LOOP)
        self.probes = Probes(
            lambda: self.ready,
            lambda: self.summary.degraded,
            self.metrics.render,
            settings.metrics_token,
            full=lambda: self.full,
        )
        self._sinks = dict(sinks or {})
        self._batches = batches
        self._tasks = Background()
        self._stack = AsyncExitStack()
        self._started = False

    @property
    def data_plane(self) -> DataPlane:
        return self.gateway.data_plane

    @property
    def ready(self) -> bool:
        return self._started and not self.data_plane.draining

    @property
    def full(self) -> bool:
        """Memory is so short that nothing more may come in."""
        return self.memory.stage is Stage.NOTHING

    async def start(self) -> None:
        """Raises what makes serving impossible: no configuration, a table that another owns."""
        load_plugins()
        self._connect_sinks()
        await self.snapshots.start()
        self._stack.push_async_callback(self.snapshots.stop)
        store = await self._open_store()
        self.store = HardBudgetGuard(store, lambda: self.ledger.writable)
        await seed_budgets(store, self.snapshots.current, self.clock.wall())
        self.ledger.start()
        await settle_orphans(self.active.path, self.ledger, self.store, self.snapshots.current)
        transport = HttpUpstream(self.settings.replica_networks)
        self._stack.push_async_callback(transport.close)
        self.gateway = Gateway(
            Collaborators(
                clock=self.clock,
                rng=random.Random(),
                store=self.store,
                transport=transport,
                active=self.active,
                bus=self.bus,
                snapshot=lambda: self.snapshots.current,
                loop_lag_s=lambda: self.heartbeat.lag_s,
                memory=self.memory,
                loop=self.loop,
            ),
            self.settings,
        )
        self.gateway.apply(self.snapshots.current)
        self.snapshots.subscribe(self.gateway.apply)
        self._tasks.spawn("heartbeat", self.heartbeat.run())
        self._watch_process()
        orders = TemplateOrders(lambda: self.snapshots.current, self.gateway.fleet, transport)
        self._tasks.spawn("template orders", orders.run())
        self._started = True

    async def drain(self) -> None:
        """Readiness goes off and queued calls are refused at once; returns when nothing runs any
        more, at the latest after the grace."""
        if not self._started:
            return
        self.gateway.refuse_new()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_grace_s):
                await self.gateway.running.none_left()

    async def stop(self) -> None:
        if self._started:
            await self.drain()
            await self.gateway.finish()
        await self._tasks.cancel()
        self.bus.drain()
        await asyncio.to_thread(self.ledger.stop, LEDGER_STOP_S)
        await self._stack.aclose()
        self.active.shut()

    def _connect_sinks(self) -> None:
        """The ledger first: its record must be kept whatever the others do."""
        self.bus.add_direct("ledger", self.ledger.offer, frozenset({CallEnded}))
        self.bus.add("metrics", self.metrics.on_event, OF_CALLS_AND_PARTS)
        self.bus.add("log", CallLog().on_event, OF_CALLS_AND_PARTS)
        self.bus.add("summary", self.summary.observe, OF_CALLS_AND_PARTS)
        for name, handle in self._sinks.items():
            self.bus.add(name, handle, OF_CALLS_AND_PARTS)
        self.metrics.watch_ledger(self.ledger.stats)
        self.metrics.watch_active_calls(lambda: len(self.active))
        self.metrics.watch_memory(self.memory)
        self._tasks.spawn("event bus", self.bus.run())

    async def _open_store(self) -> DegradingStore | MemoryStore:
        if self.settings.redis_url:
            degradation = Degradation("quota_store", self.bus.publish, self.clock)
            store: DegradingStore | MemoryStore = shared_store(
                self.settings.redis_url,
                self.clock,
                on_degraded=degradation.report,
                on_restored=lambda: degradation.report(None),
            )
        else:
            store = MemoryStore(self.clock, self.settings.var_dir / "quota.json")
        await self._stack.enter_async_context(store)
        return store

    def _ttft_objective_s(self, pool: str) -> float | None:
        value = self.snapshots.current.pools.get(pool)
        return value.ttft_objective_s if value else None

    def _watch_process(self) -> None:
        loop_watch = LoopWatch(self.metrics.loop_blocked, self.loop, self.clock)
        self._tasks.spawn("loop watch", loop_watch.run())
        degradation = Degradation("memory", self.bus.publish, self.clock)
        used = ProcessMemory(self.settings.memory_limit_bytes).used_ratio
        memory_watch = MemoryWatch(used, self.memory, degradation.report, give_back)
        self._tasks.spawn("memory watch", memory_watch.run())

    def _watch(self) -> None:
        self.snapshots.watch()
        self.ledger.watch()

    def _summarise(self) -> None:
        views = self.gateway.views()
        self.foreign_traffic.look(views)
        summary = self.summary.tick(
            self.clock.wall(),
            self.clock.monotonic(),
            views,
            self.gateway.fleet.live(),
            self.active.queued_tokens(),
        )
        self.bus.publish(replace(summary, batches=self._batches()))

    async def _renew(self) -> None:
        await self.store.renew(tuple(call.call_id for call in self.gateway.running))
