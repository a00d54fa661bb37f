"""What does Prometheus see of this process? A sink of the event bus with a registry of its own.

Each process has its own counters, since its start. Nothing here reads the database or the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gateway.core.events import (
    CallEnded,
    ConfigApplied,
    Degraded,
    Event,
    PoolSecond,
    ReplicaSecond,
    Restored,
    SummarySecond,
)
from gateway.core.priority import PriorityClass
from gateway.core.records import CallRecord
from gateway.core.stages import Stages
from gateway.ledger import LedgerStats
from gateway.metrics.call_series import CallSeries
from gateway.metrics.families import REPLICA_STATES, Families
from gateway.metrics.labels import TenantLabels, model_label, operation_label

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
TENANT_LABELS = 100


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """Of callers' connections, as the server counts them."""

    held: int
    most: int
    pauses: int  # so often accepting has paused


class Metrics:
    def __init__(self, *, tenant_labels: int = TENANT_LABELS) -> None:
        self._registry = CollectorRegistry()
        self._families = Families(self._registry)
        self._tenants = TenantLabels(tenant_labels)
        self._series: dict[tuple[object, ...], CallSeries] = {}
        self._shown: set[tuple[str, str]] = set()  # (pool, replica) with gauges

    def render(self) -> bytes:
        """The answer of ``/metrics``; its type is CONTENT_TYPE."""
        return generate_latest(self._registry)

    def on_event(self, event: Event) -> None:
        match event:
            case CallEnded(record=record):
                self._series_of(record).observe(record)
            case SummarySecond():
                self._show_pools(event.pools)
                self._show_replicas(event.replicas)
            case Degraded(part=part):
                self._families.degraded.labels(part).set(1)
            case Restored(part=part):
                self._families.degraded.labels(part).set(0)
            case ConfigApplied(version=version):
                self._families.config_version.set(version)
            case _:
                pass

    def event_dropped(self, sink: str) -> None:
        """The event bus reports a full sink."""
        self._families.events_dropped.labels(sink).inc()

    def loop_lag(self, lag_s: float) -> None:
        self._families.loop_lag.observe(lag_s)

    def loop_blocked(self, for_s: float) -> None:
        self._families.loop_blocked.inc(for_s)

    def watch_ledger(self, stats: Callable[[], LedgerStats]) -> None:
        """Exports the ledger's own counts, read when they are asked for."""
        self._registry.register(_LedgerCollector(stats))

    def watch_active_calls(self, count: Callable[[], int]) -> None:
        self._registry.register(_ActiveCollector(count))

    def watch_memory(self, stages: Stages) -> None:
        self._registry.register(_MemoryCollector(stages))

    def watch_connections(self, facts: Callable[[], ConnectionFacts]) -> None:
        self._registry.register(_ConnectionCollector(facts))

    def _series_of(self, record: CallRecord) -> CallSeries:
        tenant = self._tenants.label(record.tenant)
        kind = (
            *(tenant, record.klass, record.pool, record.outcome, record.reason),
            *(model_label(record.model, record.pool), operation_label(record.endpoint)),
        )
        series = self._series.get(kind)
        if series is None:
            series = self._series[kind] = CallSeries(self._families, record, tenant)
        return series

    def _show_pools(self, pools: Iterable[PoolSecond]) -> None:
        for pool in pools:
            for klass in PriorityClass:
                labels = (pool.pool, klass.label)
                self._families.queue_depth.labels(*labels).set(pool.queued.get(klass, 0))
                self._families.queue_tokens.labels(*labels).set(pool.queued_tokens.get(klass, 0))

    def _show_replicas(self, replicas: Iterable[ReplicaSecond]) -> None:
        families = self._families
        shown = set()
        for one in replicas:
            labels = (one.pool, one.replica)
            shown.add(labels)
            families.in_flight.labels(*labels).set(one.in_flight)
            families.slots.labels(*labels).set(one.slots)
            state = one.state if one.state in REPLICA_STATES else "unknown"
            families.replica_state.labels(*labels).state(state)
        for labels in self._shown - shown:
            for family in (families.in_flight, families.slots, families.replica_state):
                family.remove(*labels)
        self._shown = shown


class _LedgerCollector:
    def __init__(self, stats: Callable[[], LedgerStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        stats = self._stats()
        dropped = "Call records that were lost: not in the ledger, and never will be."
        yield CounterMetricFamily("fairway_ledger_dropped", dropped, value=stats.dropped)
        spooled = "Call records on disk that the database does not have yet."
        yield GaugeMetricFamily("fairway_ledger_spool_bytes", spooled, value=stats.spooled_bytes)
        unwritten = "Call records that are not on disk yet."
        yield GaugeMetricFamily(
            "fairway_ledger_unwritten_records", unwritten, value=stats.unwritten_records
        )


class _ActiveCollector:
    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count

    def collect(self) -> Iterable[Metric]:
        text = "Calls between admission and their record being on disk."
        yield GaugeMetricFamily("fairway_active_calls", text, value=self._count())


class _MemoryCollector:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def collect(self) -> Iterable[Metric]:
        text = "Share of this process's memory limit that is used."
        yield GaugeMetricFamily("fairway_memory_used_ratio", text, value=self._stages.reading)
        text = "1: batch is refused; 2: only interactive calls are taken; 3: no call is taken."
        yield GaugeMetricFamily("fairway_memory_stage", text, value=self._stages.stage)


class _ConnectionCollector:
    def __init__(self, facts: Callable[[], ConnectionFacts]) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Metric]:
        facts = self._facts()
        text = "Connections of callers and pages."
        yield GaugeMetricFamily("fairway_connections", text, value=facts.held)
        text = "Connections that the limit on open files allows."
        yield GaugeMetricFamily("fairway_connections_limit", text, value=facts.most)
        text = "Times that accepting connections has paused, for want of places, files or memory."
        yield CounterMetricFamily("fairway_accept_pauses", text, value=facts.pauses)
