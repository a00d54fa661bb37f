"""What is each tenant's fair share of the pool right now, in slots?

Weighted max-min fairness over eligible capacity: raise one water level; a tenant receives weight *
level until it has what it asks for, or until the replicas that it may use are full. No tenant can
be given more without taking from one that has less for its weight.

Tenants that may use only some replicas make it a matter of sets: the tenants of a set of
eligibilities S share what the replicas of S offer. The level at which some S is full is the lowest
over all S; those tenants stop there, the others go on rising. Sets are all combinations of the
distinct eligibilities, which are few (one in most pools); beyond ``MOST_KINDS`` the rest is taken
as one kind that may use all replicas.

For pages, once a second: no decision of the dispatcher reads it. Units: slots.
Source: Bertsekas and Gallager, "Data Networks", 6.5.2; Megiddo, "Optimal flows in networks with
multiple sources and sinks" (1974) for the sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

MOST_KINDS = 8

Kind = frozenset[str] | None  # replica slugs; None = all


@dataclass(frozen=True, slots=True)
class Asking:
    """``slots``: how many it could use now; infinite while calls of it wait."""

    weight: float
    slots: float
    eligible: Kind = None


def entitlement(asking: Mapping[str, Asking], slots: Mapping[str, int]) -> dict[str, float]:
    """``slots``: of the replicas that admit calls. Returns slots per tenant."""
    kinds = list(dict.fromkeys(each.eligible for each in asking.values()))[:MOST_KINDS]
    kind_of = {
        name: one.eligible if one.eligible in kinds else None for name, one in asking.items()
    }
    subsets = [
        (frozenset(subset), _capacity(subset, slots))
        for size in range(1, len(kinds) + 1)
        for subset in combinations(kinds, size)
    ]
    given: dict[str, float] = {}
    while len(given) < len(asking):
        levels = [
            (_level([asking[name] for name in rising], left), rising)
            for kinds_of_set, capacity in subsets
            if (rising := [n for n in asking if n not in given and kind_of[n] in kinds_of_set])
            for left in [capacity - sum(given[n] for n in given if kind_of[n] in kinds_of_set)]
        ]
        level, full = min(levels, key=lambda pair: pair[0])
        for name in full:
            given[name] = min(asking[name].slots, asking[name].weight * level)
    return given


def _capacity(kinds: Iterable[Kind], slots: Mapping[str, int]) -> float:
    chosen = list(kinds)
    if any(kind is None for kind in chosen):
        return float(sum(slots.values()))
    union = frozenset().union(*(kind for kind in chosen if kind is not None))
    return float(sum(number for slug, number in slots.items() if slug in union))


def _level(rising: list[Asking], left: float) -> float:
    """The water level at which ``left`` is used up; infinite when all are content before."""
    left = max(0.0, left)
    weight = sum(each.weight for each in rising)
    for each in sorted(rising, key=lambda one: one.slots / one.weight):
        if each.slots * weight > left * each.weight:
            return left / weight
        left -= each.slots
        weight -= each.weight
    return float("inf")
