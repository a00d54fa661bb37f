"""The live state of the whole gateway: takes events, gives facts.

Pure and synchronous; one owner (the feed). ``take`` answers whether pages should hear at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddsketch import DDSketch

from dashboard.live.facts import (
    FleetFacts,
    Latency,
    Policy,
    PoolRow,
    Series,
    Tenancy,
    TenantRow,
)
from dashboard.live.incidents import Incidents
from dashboard.live.window import SLICE_S, Slice, TenantWindow, Window
from dashboard.settings import DashboardSettings
from gateway.core.events import ConfigApplied, Degraded, Event, Restored, SummarySecond
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

EVERYBODY = Policy("", "All tenants", 0.0, PriorityClass.INTERACTIVE, False, 0)


class LiveState:
    def __init__(self, settings: DashboardSettings) -> None:
        self._settings = settings
        self._window = Window(settings.history_s)
        self._incidents = Incidents(settings.history_s)
        self._degraded: dict[str, str] = {}
        self.last: SummarySecond | None = None
        self.config_version = 0

    def take(self, event: Event) -> bool:
        match event:
            case SummarySecond():
                self._take_second(event)
            case ConfigApplied(version=version):
                self.config_version = max(self.config_version, version)
            case Degraded(part=part, why=why):
                self._degraded[part] = why
            case Restored(part=part):
                self._degraded.pop(part, None)
            case _:
                return False
        return True

    def _take_second(self, second: SummarySecond) -> None:
        self.last = second
        self.config_version = max(self.config_version, second.config_version)
        self._window.add(second.at, second.tenants)
        self._incidents.add(second.at, second.ended)
        self._incidents.left_out = second.ended_left_out

    def facts(self, tenancy: Tenancy) -> FleetFacts:
        rows = tuple(self._rows(tenancy))
        second = self.last
        return FleetFacts(
            at=second.at if second else None,
            config_version=self.config_version,
            tenancy_version=tenancy.version,
            recent_s=self._settings.recent_s,
            objective_s=self._settings.ttft_objective_s,
            tenants=rows,
            total=self._total(),
            pools=tuple(_pool_rows(second)) if second else (),
            incidents=tuple(self._incidents.newest_first()),
            left_out=self._incidents.left_out,
            series=tuple(self._series(rows)),
            degraded=self._degraded_parts(),
            batches=second.batches if second else (),
        )

    def _degraded_parts(self) -> tuple[str, ...]:
        now = self.last.degraded if self.last else ()
        told = (f"{part}: {why}" for part, why in self._degraded.items() if part not in now)
        return (*now, *told)

    def _since(self) -> float:
        return self.last.at - self._settings.recent_s if self.last else 0.0

    def _rows(self, tenancy: Tenancy) -> Iterator[TenantRow]:
        costs = {slug: window.cost_now() for slug, window in self._window.tenants.items()}
        delivered = sum(costs.values())
        active = {slug for slug in self._window.active() if slug in tenancy.policies}
        weights = sum(tenancy.policies[slug].weight for slug in active)
        for slug, policy in tenancy.policies.items():
            window = self._window.tenants.get(slug)
            yield _row(
                policy,
                window.since(self._since()) if window else Slice(0.0),
                window,
                share=costs.get(slug, 0.0) / delivered if delivered and slug in active else None,
                weight_share=policy.weight / weights if slug in active and weights else None,
                reasons=self._incidents.by_reason(slug, self._since()),
            )

    def _total(self) -> TenantRow | None:
        if self.last is None:
            return None
        total = Slice(0.0)
        for window in self._window.tenants.values():
            total.merge(window.since(self._since()))
        return _row(EVERYBODY, total, None, share=None, weight_share=None, reasons=())

    def _series(self, rows: tuple[TenantRow, ...]) -> Iterator[Series]:
        if self.last is None:
            return
        newest = self.last.at - self.last.at % SLICE_S
        steps = self._settings.history_s // SLICE_S
        at = tuple(newest - SLICE_S * back for back in range(steps, 0, -1))
        by_start = {
            row.policy.slug: {part.started_at: part for part in window.slices}
            for row in rows
            if (window := self._window.tenants.get(row.policy.slug))
        }
        totals = [
            sum(parts[t].service_cost for parts in by_start.values() if t in parts) for t in at
        ]
        for row in rows:
            if parts := by_start.get(row.policy.slug):
                yield _one_series(row.policy, at, parts, totals)


def _one_series(
    policy: Policy, at: tuple[float, ...], parts: dict[float, Slice], totals: list[float]
) -> Series:
    found = [parts.get(t) for t in at]
    return Series(
        slug=policy.slug,
        name=policy.name,
        position=policy.position,
        at=at,
        ttft_p50_s=tuple(_quantile(part.ttft_s, 0.5) if part else None for part in found),
        share=tuple(
            part.service_cost / total if part and total else None
            for part, total in zip(found, totals, strict=True)
        ),
    )


def _row(
    policy: Policy,
    recent: Slice,
    window: TenantWindow | None,
    *,
    share: float | None,
    weight_share: float | None,
    reasons: tuple[tuple[Reason, int], ...],
) -> TenantRow:
    sketch = recent.ttft_s
    return TenantRow(
        policy=policy,
        ttft=Latency(_quantile(sketch, 0.5), _quantile(sketch, 0.99), int(sketch.count)),
        hit_ratio=recent.cached_tokens / recent.prompt_tokens if recent.prompt_tokens else None,
        share=share,
        weight_share=weight_share,
        calls=recent.calls,
        completed=recent.completed,
        shed=recent.shed,
        limited=recent.limited,
        failed=recent.failed,
        completion_tokens=recent.completion_tokens,
        prompt_tokens=recent.prompt_tokens,
        cached_tokens=recent.cached_tokens,
        reasons=reasons,
        queued=window.queued if window else 0,
        in_flight=window.in_flight if window else 0,
    )


def _pool_rows(second: SummarySecond) -> Iterator[PoolRow]:
    for pool in second.pools:
        yield PoolRow(pool, tuple(one for one in second.replicas if one.pool == pool.pool))


def _quantile(sketch: DDSketch, q: float) -> float | None:
    return sketch.get_quantile_value(q) if sketch.count else None
