"""What is one limit? The value that the tenant database stores and admission reads.

``meter`` says what is counted, ``amount`` how much of it:
  tpm itpm otpm   tokens per minute (all, input, output)
  rpm             calls per minute
  concurrent      calls queued and in flight at once
  day month       tokens in the UTC day or month; hard budgets
  enqueued        tokens of calls that wait in batches
``klass`` is the label of a priority class, ``online`` (interactive and standard share one bucket,
so that a tenant's batch never blocks its own interactive calls) or ``*`` (every class shares one).
``burst`` is the capacity of a rate bucket where it differs from one minute's amount.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.priority import PriorityClass

METERS = ("tpm", "itpm", "otpm", "rpm", "concurrent", "day", "month", "enqueued")
RATE_METERS = frozenset({"tpm", "itpm", "otpm", "rpm"})
ANY = "*"
ONLINE = "online"
LIMIT_CLASSES = (ANY, ONLINE, *(member.label for member in PriorityClass))


@dataclass(frozen=True, slots=True)
class Limit:
    """``pool`` is a slug or ``*`` (all pools share one bucket)."""

    meter: str
    amount: float
    pool: str = ANY
    klass: str = ANY
    burst: float | None = None

    def covers(self, pool: str, klass: PriorityClass) -> bool:
        """Whether a call of ``klass`` to ``pool`` draws on this limit."""
        classes = {ANY, klass.label} | (set() if klass is PriorityClass.BATCH else {ONLINE})
        return self.pool in (ANY, pool) and self.klass in classes
