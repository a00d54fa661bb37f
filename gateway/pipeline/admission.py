"""May this call spend? Reserve in every bucket that applies; settle exactly once, however it ends.

Leaving the context *is* settling: a call that completed owes its usage, one that was interrupted
what it had received, one that failed before its caller got anything owes nothing. The settlement is
started before the last bytes go out and is not waited for, so that the next call of the same client
meets its own refund.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import TracebackType

from msgspec.structs import astuple

from gateway.active_calls.layout import Opening
from gateway.active_calls.table import ActiveCalls
from gateway.core.dispatch.effects import Usage
from gateway.core.errors import CallError, LimitExceeded, Rejected
from gateway.core.limits.demands import (
    BucketKey,
    Demand,
    QuotaStore,
    Refused,
    StoreUnavailable,
)
from gateway.core.limits.limit import CREDIT, METER_NAMED
from gateway.core.limits.plan import Payer, Place, Plan, actual_for
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call, Order
from gateway.snapshot.values import PoolValue
from tenants.snapshot import KeyValue, TenantValue

QUOTA_UNAVAILABLE_RETRY_S = 2.0
MOST_PLANS = 10_000
PlanKey = tuple[str, str, str, PriorityClass]
Owners = tuple[TenantValue, KeyValue, PoolValue]


class Admission:
    def __init__(self, store: QuotaStore, active: ActiveCalls) -> None:
        self.store = store
        self._active = active
        self._plans = Plans()

    def admitted(self, call: Call) -> Admitted:
        return Admitted(self, call)

    def enter(self, call: Call, demands: tuple[Demand, ...]) -> None:
        """Once it holds what it demands."""
        call.active = self._active.open(_opening(call, demands))
        call.clock.admit_s = call.clock.now()

    def demands(self, call: Call) -> tuple[Demand, ...]:
        order = call.placed
        return self._plans.of(order).demands(order.count.size, wall_s=call.arrived_at)

    def settle(self, call: Call, demands: tuple[Demand, ...]) -> None:
        """Also for a call whose reservation failed half-way: settling what never was is
        harmless."""
        order = call.placed
        usage = call.charged_usage()
        actual = None if usage is None else _charges(order, call.priced(usage), demands)
        self.store.settle(call.call_id, actual)


class Admitted:
    """An async context. Entering raises Rejected: a limit, CANNOT_FIT, QUOTA_UNAVAILABLE,
    GATEWAY_FULL."""

    __slots__ = ("_admission", "_call", "_demands")

    def __init__(self, admission: Admission, call: Call) -> None:
        self._admission = admission
        self._call = call
        self._demands: tuple[Demand, ...] = ()

    async def __aenter__(self) -> None:
        call, admission = self._call, self._admission
        self._demands = demands = admission.demands(call)
        inside = False
        try:
            await reserve(admission.store, call, demands)
            admission.enter(call, demands)
            inside = True
        except CallError as error:
            call.ended_by(error)
            raise
        finally:
            if not inside:
                self._settle()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._call.completed()
            elif isinstance(error, CallError):
                self._call.ended_by(error)
        finally:
            self._settle()

    def _settle(self) -> None:
        self._call.broke_off()
        self._admission.settle(self._call, self._demands)


class Plans:
    """Which limits bind a tenant's key in a pool and class: found once per configuration, known by
    the very objects of the snapshot."""

    def __init__(self) -> None:
        self._plans: dict[PlanKey, tuple[Owners, Plan]] = {}

    def of(self, order: Order) -> Plan:
        principal, route = order.principal, order.route
        tenant, key, pool = principal.tenant, principal.key, route.pool
        known = self._plans.get((tenant.slug, key.key_id, pool.slug, route.klass))
        if known is not None:
            owners, plan = known
            if owners[0] is tenant and owners[1] is key and owners[2] is pool:
                return plan
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        plan = Plan(_payer(order), Place(pool.slug, route.klass))
        self._plans[tenant.slug, key.key_id, pool.slug, route.klass] = (tenant, key, pool), plan
        return plan


def _payer(order: Order) -> Payer:
    tenant, key, prices = order.principal.tenant, order.principal.key, order.route.pool.prices
    return Payer(
        tenant.slug,
        key.key_id,
        tenant.limits,
        key.limits,
        tenant.credit_limit_microcredits,
        prices,
        tenant.over_limit == "stop",
    )


async def reserve(store: QuotaStore, call: Call, demands: tuple[Demand, ...]) -> None:
    """Raises Rejected: a limit, CANNOT_FIT, or QUOTA_UNAVAILABLE. Who reserves must settle."""
    try:
        answer = await store.reserve(call.call_id, demands)
    except StoreUnavailable:
        raise Rejected(Reason.QUOTA_UNAVAILABLE, retry_after_s=QUOTA_UNAVAILABLE_RETRY_S) from None
    if isinstance(answer, Refused):
        raise refusal(answer)
    call.reservation = answer


def _charges(order: Order, usage: Usage, demands: tuple[Demand, ...]) -> Mapping[BucketKey, float]:
    return actual_for(
        [demand.key for demand in demands],
        usage,
        cached_ratio=order.principal.tenant.cached_ratio,
        prices=order.route.pool.prices,
    )


def refusal(refused: Refused) -> LimitExceeded:
    demand = refused.demand
    unit = METER_NAMED.get(demand.key.meter, CREDIT).unit
    whose = "key" if demand.key.owner.startswith("key:") else "organization"
    return LimitExceeded(
        demand.reason,
        f"The {whose}'s limit is {refused.limit:,.0f} {unit}: {math.ceil(refused.used):,} used or"
        f" reserved, {refused.needed:,.0f} needed; possible in {_seconds(refused.wait_s)}.",
        bucket=str(demand.key),
        limit=refused.limit,
        used=refused.used,
        needed=refused.needed,
        retry_after_s=refused.wait_s,
    )


def _seconds(wait_s: float) -> str:
    return f"{max(0.1, wait_s):.1f} s" if wait_s < 9.95 else f"{wait_s:,.0f} s"


def _opening(call: Call, demands: tuple[Demand, ...]) -> Opening:
    order = call.placed
    line = order.principal.line
    return Opening(
        call_id=call.call_id,
        tenant=order.principal.tenant.slug,
        key_id=order.principal.key.key_id,
        pool=order.route.pool.slug,
        klass=order.route.klass,
        endpoint=call.endpoint,
        model=order.body.model,
        stream=order.body.stream,
        arrived_at=call.arrived_at,
        prompt_tokens=order.count.size.input_tokens,
        reserved_tokens=order.count.reserved_tokens,
        demands=tuple([(astuple(demand.key), demand.amount) for demand in demands]),
        request_id=call.request_id,
        batch_id=line.batch_id if line else "",
        line_no=line.line_no if line else None,
        config_version=call.config_version,
    )
