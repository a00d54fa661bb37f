"""Reads of the ledger: one call, recent calls, totals of a span, the totals of a day or month.

Spans are half open, [since, until), in UTC, so that adjacent spans never count a call twice. The
periods are those that name budgets (``gateway.core.limits.periods``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Q, QuerySet, Sum

from gateway.core.priority import PriorityClass, label_of
from gateway.core.reasons import Outcome
from tenants.errors import Invalid, NotFound
from tenants.models import LedgerCall
from tenants.wording import printable

PAGE_MAX = 100
SPAN_MAX = timedelta(days=366)
GROUPS = ("tenant", "key_id", "model", "pool", "klass", "outcome", "reason")
_SUMS = (
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "received_tokens",
    "charge_microcredits",
    "service_cost",
)


@dataclass(frozen=True, slots=True)
class Span:
    """[since, until)."""

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        if not timedelta(0) < self.until - self.since <= SPAN_MAX:
            raise Invalid(
                "The time range is empty or too long.",
                next_step=f"Ask for at most {SPAN_MAX.days} days.",
                field="since",
            )


@dataclass(frozen=True, slots=True)
class Totals:
    """``group`` is the value that these calls share, empty for all of them."""

    group: str
    calls: int
    completed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    received_tokens: int
    charge_microcredits: int
    service_cost: float

    @property
    def tokens(self) -> int:
        """What quota and budgets count before the plan's rule for cached tokens."""
        return self.prompt_tokens + self.completion_tokens


def day_span(at: datetime) -> Span:
    """The UTC day of that moment."""
    start = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return Span(start, start + timedelta(days=1))


def month_span(at: datetime) -> Span:
    """The UTC month of that moment."""
    start = day_span(at).since.replace(day=1)
    return Span(start, (start + timedelta(days=31)).replace(day=1))


def no_call(call_id: str) -> NotFound:
    """The same words for a call that does not exist and for one that is somebody else's."""
    return NotFound(
        f"There is no call {printable(call_id)}.",
        next_step="Check the id; a call that ended just now is listed within a second.",
    )


def call(call_id: str, *, tenant: str | None = None) -> LedgerCall:
    """With its attempts. A call of another tenant is NotFound."""
    row = _calls(tenant).prefetch_related("attempts").filter(call_id=call_id).first()
    if row is None:
        raise no_call(call_id)
    return row


def recent_calls(
    *, tenant: str | None = None, key_id: str | None = None, before: str | None = None
) -> QuerySet[LedgerCall]:
    """Newest first; ``before`` is the id of the last call of the page before. Slice it."""
    rows = _calls(tenant).order_by("-arrived_at", "-call_id")
    if key_id is not None:
        rows = rows.filter(key_id=key_id)
    if before is None:
        return rows
    last = call(before, tenant=tenant)
    older = Q(arrived_at__lt=last.arrived_at)
    return rows.filter(older | Q(arrived_at=last.arrived_at, call_id__lt=last.call_id))


def totals(*, span: Span, tenant: str | None = None, key_id: str | None = None) -> Totals:
    rows = _in_span(span, tenant)
    if key_id is not None:
        rows = rows.filter(key_id=key_id)
    return _totals("", rows.aggregate(**_aggregates()))


def totals_by(*, group: str, span: Span, tenant: str | None = None) -> Sequence[Totals]:
    """One entry per value of ``group``, the most calls first. Raises Invalid."""
    if group not in GROUPS:
        raise Invalid(
            f"Calls are not grouped by {printable(group)}.",
            next_step=f"Known: {', '.join(GROUPS)}.",
            field="by",
        )
    rows = _in_span(span, tenant).order_by().values(group).annotate(**_aggregates())
    name_of = label_of if group == "klass" else str
    return [_totals(name_of(row[group]), row) for row in rows.order_by("-calls", group)]


def _calls(tenant: str | None) -> QuerySet[LedgerCall]:
    rows = LedgerCall.objects.all()
    return rows if tenant is None else rows.filter(tenant=tenant)


def _in_span(span: Span, tenant: str | None) -> QuerySet[LedgerCall]:
    return _calls(tenant).filter(arrived_at__gte=span.since, arrived_at__lt=span.until)


def _aggregates() -> dict[str, Count | Sum]:
    return {
        "calls": Count("pk"),
        "completed": Count("pk", filter=Q(outcome=Outcome.COMPLETED)),
        **{f"sum_{name}": Sum(name) for name in _SUMS},
    }


def _totals(group: str, row: dict[str, int | float | None]) -> Totals:
    whole = {name: int(row[f"sum_{name}"] or 0) for name in _SUMS[:-1]}
    return Totals(
        group=group,
        calls=int(row["calls"] or 0),
        completed=int(row["completed"] or 0),
        service_cost=float(row["sum_service_cost"] or 0.0),
        **whole,
    )


@dataclass(frozen=True, slots=True)
class Consumption:
    """What one key has used of one pool in one class."""

    tenant: str
    key_id: str
    pool: str
    klass: PriorityClass
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


def consumption(span: Span) -> list[Consumption]:
    """Everybody's, for a quota store that has to start again."""
    groups = ("tenant", "key_id", "pool", "klass")
    sums = {f"sum_{name}": Sum(name) for name in _SUMS[:3]}
    classified = _in_span(span, None).filter(klass__isnull=False)
    rows = classified.order_by().values(*groups).annotate(**sums)
    return [
        Consumption(
            row["tenant"],
            row["key_id"],
            row["pool"],
            PriorityClass(row["klass"]),
            *(row[name] for name in sums),
        )
        for row in rows
    ]
