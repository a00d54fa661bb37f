"""The live state of the whole gateway: takes events, gives facts.

Pure and synchronous; one owner (the feed). ``take`` answers whether pages should hear at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddsketch import DDSketch

from dashboard.live.facts import (
    FleetFacts,
    Latency,
    Objective,
    Policy,
    PoolRow,
    Series,
    Tenancy,
    TenantRow,
)
from dashboard.live.incidents import Incidents
from dashboard.live.window import NOW_S, SHARE_S, SLICE_S, Slice, TenantWindow, Window
from dashboard.settings import DashboardSettings
from gateway.core.events import ConfigApplied, Degraded, Event, Restored, SummarySecond
from gateway.core.priority import PriorityClass

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
            objectives=self._objectives(),
            tenants=rows,
            total=self._total(),
            pools=tuple(_pool_rows(second)) if second else (),
            incidents=tuple(self._incidents.newest_first()),
            left_out=self._incidents.left_out,
            series=tuple(self._series(rows)),
            degraded=self._degraded_parts(),
            batches=second.batches if second else (),
        )

    def _objectives(self) -> tuple[Objective, ...]:
        pools: dict[float, list[str]] = {}
        for pool in self.last.pools if self.last else ():
            if pool.ttft_objective_s is not None:
                pools.setdefault(pool.ttft_objective_s, []).append(pool.pool)
        found = tuple(Objective(ttft_s, tuple(pools[ttft_s])) for ttft_s in sorted(pools))
        return found or (Objective(self._settings.ttft_objective_s),)

    def _degraded_parts(self) -> tuple[str, ...]:
        """Each with its cause, where that was told."""
        parts = dict.fromkeys(self.last.degraded if self.last else (), "") | self._degraded
        return tuple(f"{part}: {why}" if why else part for part, why in parts.items())

    def _since(self) -> float:
        return self.last.at - self._settings.recent_s if self.last else 0.0

    def _rows(self, tenancy: Tenancy) -> Iterator[TenantRow]:
        received = _Shares(self._window, self.last.at if self.last else 0.0, tenancy)
        for slug, policy in tenancy.policies.items():
            window = self._window.tenants.get(slug)
            recent = window.since(self._since()) if window else Slice(0.0)
            yield _row(policy, recent, window, received)

    def _total(self) -> TenantRow | None:
        if self.last is None:
            return None
        total = Slice(0.0)
        for window in self._window.tenants.values():
            total.merge(window.since(self._since()))
        return _row(EVERYBODY, total, None, None)

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


class _Shares:
    """Of every tenant that asks for service: what it receives and what would be fair."""

    def __init__(self, window: Window, now_at: float, tenancy: Tenancy) -> None:
        active = {
            slug: window.tenants[slug] for slug in window.active() if slug in tenancy.policies
        }
        self.now = _parts({slug: one.cost(now_at - NOW_S) for slug, one in active.items()})
        self.steady = _parts({slug: one.cost(now_at - SHARE_S) for slug, one in active.items()})
        entitled = {slug: one.entitled_slots for slug, one in active.items()}
        weights = {slug: tenancy.policies[slug].weight for slug in active}
        self.fair = _parts(entitled if any(entitled.values()) else weights)


def _parts(amounts: dict[str, float]) -> dict[str, float]:
    """Of their sum; empty where that is nothing."""
    total = sum(amounts.values())
    return {name: amount / total for name, amount in amounts.items()} if total else {}


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
    shares: _Shares | None,
) -> TenantRow:
    sketch, slug = recent.ttft_s, policy.slug
    return TenantRow(
        policy=policy,
        ttft=Latency(_quantile(sketch, 0.5), _quantile(sketch, 0.99), int(sketch.count)),
        hit_ratio=recent.cached_tokens / recent.prompt_tokens if recent.prompt_tokens else None,
        share=shares.now.get(slug) if shares else None,
        steady_share=shares.steady.get(slug) if shares else None,
        fair_share=shares.fair.get(slug) if shares else None,
        attained_ratio=recent.within_objective / recent.judged if recent.judged else None,
        calls=recent.calls,
        completed=recent.completed,
        shed=recent.shed,
        limited=recent.limited,
        failed=recent.failed,
        completion_tokens=recent.completion_tokens,
        prompt_tokens=recent.prompt_tokens,
        cached_tokens=recent.cached_tokens,
        reasons=tuple(recent.reasons.most_common()),
        queued=window.queued if window else 0,
        in_flight=window.in_flight if window else 0,
    )


def _pool_rows(second: SummarySecond) -> Iterator[PoolRow]:
    for pool in second.pools:
        yield PoolRow(pool, tuple(one for one in second.replicas if one.pool == pool.pool))


def _quantile(sketch: DDSketch, q: float) -> float | None:
    return sketch.get_quantile_value(q) if sketch.count else None
