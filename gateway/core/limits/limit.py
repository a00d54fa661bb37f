"""What is one limit? The value that the tenant database stores and admission reads.

``meter`` says what is counted, ``amount`` how much of it:
  tpm itpm otpm   tokens per minute (all, input, output)
  rpm             calls per minute
  concurrent      calls queued and in flight at once
  day month       tokens in the UTC day or month; hard budgets
  enqueued        tokens of batch calls, queued and in flight
``klass`` is the label of a priority class, ``online`` (interactive and standard share one bucket)
or ``*``. A limit of every class binds batch by its totals (day, month) only, so that a tenant's
batch never blocks its own interactive calls. ``burst`` is the capacity of a rate bucket where it
differs from one minute's amount.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.core.limits.demands import Kind
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Meter:
    kind: Kind
    reason: Reason  # what its refusal is called
    unit: str


METER_NAMED: Final[dict[str, Meter]] = {
    "tpm": Meter(Kind.RATE, Reason.TOKENS_PER_MINUTE, "tokens per minute"),
    "itpm": Meter(Kind.RATE, Reason.TOKENS_PER_MINUTE, "input tokens per minute"),
    "otpm": Meter(Kind.RATE, Reason.TOKENS_PER_MINUTE, "output tokens per minute"),
    "rpm": Meter(Kind.RATE, Reason.REQUESTS_PER_MINUTE, "requests per minute"),
    "concurrent": Meter(Kind.LEVEL, Reason.CONCURRENCY, "calls queued and in flight"),
    "day": Meter(Kind.BUDGET, Reason.DAILY_BUDGET, "tokens per day"),
    "month": Meter(Kind.BUDGET, Reason.MONTHLY_BUDGET, "tokens per month"),
    "enqueued": Meter(Kind.LEVEL, Reason.ENQUEUED_TOKENS, "batch tokens queued and in flight"),
}
METERS: Final = tuple(METER_NAMED)
CREDIT: Final = Meter(Kind.BUDGET, Reason.CREDIT_EXHAUSTED, "microcredits")  # never a Limit
RATE_METERS: Final = frozenset(
    name for name, meter in METER_NAMED.items() if meter.kind is Kind.RATE
)
ANY: Final = "*"
ONLINE: Final = "online"
LIMIT_CLASSES: Final = (ANY, ONLINE, *(member.label for member in PriorityClass))
_BATCH_TOTALS: Final = frozenset({"day", "month", "enqueued"})


@dataclass(frozen=True, slots=True)
class Limit:
    """``pool`` is a slug or ``*`` (all pools share one bucket)."""

    meter: str
    amount: float
    pool: str = ANY
    klass: str = ANY
    burst: float | None = None

    @property
    def capacity(self) -> float:
        return self.amount if self.burst is None else self.burst

    def covers(self, pool: str, klass: PriorityClass) -> bool:
        """Whether a call of ``klass`` to ``pool`` draws on this limit."""
        return self.pool in (ANY, pool) and self._covers_class(klass)

    def _covers_class(self, klass: PriorityClass) -> bool:
        batch = klass is PriorityClass.BATCH
        if self.meter == "enqueued" and not batch:
            return False
        if self.klass == ANY:
            return not batch or self.meter in _BATCH_TOTALS
        return self.klass == klass.label or (self.klass == ONLINE and not batch)
