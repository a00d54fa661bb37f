"""Which numbers are accepted? Closed ranges; nothing infinite, nothing below one.

Weights are shares relative to one another. A limit is at least 1 and at most what its meter allows.
"""

from __future__ import annotations

import math

from gateway.core.limits.limit import LIMIT_CLASSES, METER_NAMED, METERS, RATE_METERS, Limit
from gateway.core.priority import PriorityClass
from tenants.errors import Invalid
from tenants.wording import clean_slug, printable

WEIGHT_MIN = 0.01
WEIGHT_MAX = 1000.0
CREDIT_MAX_MICROCREDITS = 10**15
AMOUNT_MAX = 10**11


METER_MAXIMUM: dict[str, int] = {
    "tpm": 10**9,
    "itpm": 10**9,
    "otpm": 10**9,
    "rpm": 10**7,
    "concurrent": 10**5,
    "day": AMOUNT_MAX,
    "month": AMOUNT_MAX,
    "enqueued": AMOUNT_MAX,
}
assert tuple(METER_MAXIMUM) == METERS


def clean_weight(value: float) -> float:
    """Raises Invalid."""
    if not (math.isfinite(value) and WEIGHT_MIN <= value <= WEIGHT_MAX):
        raise Invalid(
            f"A weight of {value} is not accepted.",
            next_step=f"Give a number from {WEIGHT_MIN:g} to {WEIGHT_MAX:g}.",
            field="weight",
        )
    return float(value)


def clean_class(value: str, *, field: str = "klass") -> PriorityClass:
    """Raises Invalid."""
    try:
        return PriorityClass.parse(value)
    except ValueError:
        known = ", ".join(member.label for member in PriorityClass)
        raise Invalid(
            f"There is no class {printable(value)}.", next_step=f"Known: {known}.", field=field
        ) from None


def clean_limit(limit: Limit) -> Limit:
    """Raises Invalid."""
    _one_of(limit.meter, METERS, "meter")
    _one_of(limit.klass, LIMIT_CLASSES, "klass")
    if limit.pool != "*":
        clean_slug(limit.pool, field="pool")
    _amount(limit.amount, limit.meter, "amount")
    if limit.burst is not None:
        if limit.meter not in RATE_METERS:
            raise Invalid(
                f"{limit.meter} has no burst.", next_step="Leave burst out.", field="burst"
            )
        _amount(limit.burst, limit.meter, "burst")
    return limit


def clean_credit(value: int) -> int:
    """Microcredits. Raises Invalid."""
    if not 1 <= value <= CREDIT_MAX_MICROCREDITS:
        raise Invalid(
            f"An amount of {value} microcredits is not accepted.",
            next_step=f"Give 1 to {CREDIT_MAX_MICROCREDITS}.",
            field="amount_microcredits",
        )
    return value


def _amount(value: float, meter: str, field: str) -> None:
    maximum = METER_MAXIMUM[meter]
    if not (math.isfinite(value) and value == int(value) and 1 <= value <= maximum):
        raise Invalid(
            f"{meter} {field} of {value:g} is not accepted.",
            next_step=f"Give a whole number of {METER_NAMED[meter].unit} from 1 to {maximum}.",
            field=field,
        )


def _one_of(value: str, known: tuple[str, ...], field: str) -> None:
    if value not in known:
        raise Invalid(
            f"There is no {field} {printable(value)}.",
            next_step=f"Known: {', '.join(known)}.",
            field=field,
        )
