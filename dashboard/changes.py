"""What does an operator want to change about a tenant, what would it do, and how is it written?

A wish names the version of the tenant that the operator has seen: where somebody else was faster,
nothing is written. Both parts of a wish are one transaction, each with its own audit row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dashboard.live.facts import FleetFacts
from dashboard.numbers import many, percent, plain
from gateway.core.priority import PriorityClass
from tenants.actors import Actor
from tenants.errors import Stale
from tenants.models import AuditEntry, Organization
from tenants.selectors.audit import entries as audit_entries
from tenants.selectors.organizations import organization
from tenants.services import organizations
from tenants.services.transactions import transactional


@dataclass(frozen=True, slots=True)
class PolicyWish:
    weight: float
    highest_class: PriorityClass
    why: str
    seen_version: int


@dataclass(frozen=True, slots=True)
class Difference:
    what: str
    before: str
    after: str


def differences(row: Organization, wish: PolicyWish) -> tuple[Difference, ...]:
    """Empty when the wish is what is set already."""
    found = []
    if wish.weight != row.weight:
        found.append(Difference("Weight", plain(row.weight), plain(wish.weight)))
    if wish.highest_class != row.highest_class:
        before = PriorityClass(row.highest_class).label
        found.append(Difference("Highest class", before, wish.highest_class.label))
    return tuple(found)


def predicted(row: Organization, wish: PolicyWish, facts: FleetFacts) -> tuple[str, ...]:
    """What the change is expected to do, from who asks for service now."""
    return (*_predicted_share(row, wish, facts), *_predicted_class(row, wish))


def _predicted_share(row: Organization, wish: PolicyWish, facts: FleetFacts) -> Iterator[str]:
    if wish.weight == row.weight:
        return
    others = [
        one.policy.weight
        for one in facts.tenants
        if one.fair_share is not None and one.policy.slug != row.slug
    ]
    if not others:
        yield "No other tenant asks for service now: the weight decides once one does."
        return
    rest = sum(others)
    yield (
        f"Against the {many(len(others), 'other tenant')} asking for service now, the share of"
        f" {row.name} by weight goes from {percent(row.weight / (row.weight + rest))}"
        f" to {percent(wish.weight / (wish.weight + rest))}."
    )


def _predicted_class(row: Organization, wish: PolicyWish) -> Iterator[str]:
    before = PriorityClass(row.highest_class)
    if wish.highest_class > before:
        yield (
            f"Calls that ask for a class above {wish.highest_class.label} are served as"
            f" {wish.highest_class.label} from now on."
        )
    elif wish.highest_class < before:
        yield f"Keys that were granted it may be served up to {wish.highest_class.label}."


WRITES: dict[str, Callable[..., AuditEntry]] = {
    "weight": organizations.set_weight,
    "highest_class": organizations.set_highest_class,
}
ACTIONS = (organizations.SET_WEIGHT, organizations.SET_HIGHEST_CLASS)


@transactional
def apply(*, slug: str, wish: PolicyWish, actor: Actor) -> tuple[AuditEntry, ...]:
    """Raises tenants.errors.Stale or Invalid; then nothing was written."""
    row, entries = organization(slug), list[AuditEntry]()
    for name, write in WRITES.items():
        wished = getattr(wish, name)
        if wished != getattr(row, name):
            seen = wish.seen_version + len(entries)
            written = write(
                slug=slug, actor=actor, why=wish.why, expected_version=seen, **{name: wished}
            )
            entries.append(written)
    return tuple(entries)


def apply_once(*, slug: str, wish: PolicyWish, actor: Actor) -> tuple[AuditEntry, ...]:
    """As ``apply``; the same wish sent twice is written once and has the same entries as answer."""
    try:
        made = apply(slug=slug, wish=wish, actor=actor)
    except Stale:
        made = _applied(slug, wish, actor)
        if not made:
            raise
    return made or _applied(slug, wish, actor)


def _applied(slug: str, wish: PolicyWish, actor: Actor) -> tuple[AuditEntry, ...]:
    """The entries by which this very wish made the tenant what it is; empty where others did."""
    row = organization(slug)
    steps = row.version - wish.seen_version
    if differences(row, wish) or not 0 < steps <= len(WRITES):
        return ()
    latest = audit_entries(target=f"tenant:{slug}").filter(action__in=ACTIONS)[:steps]
    own = (str(actor), wish.why, None)
    made = tuple(one for one in latest if (one.actor, one.why, one.undoes) == own)
    return made[::-1] if len(made) == steps else ()
