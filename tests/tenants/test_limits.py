"""Services of limits."""

from __future__ import annotations

import math

import pytest
from django.db import IntegrityError, transaction

from gateway.core.limits.limit import METERS, Limit
from tenants import errors, snapshot
from tenants.default_plans import DEFAULT_PLANS
from tenants.models import KeyLimit, OrganizationLimit
from tenants.selectors.limits import effective_limits, limits_of, limits_of_key
from tenants.services import limits
from tests import factories
from tests.factories import TESTER

pytestmark = pytest.mark.django_db


def put(limit: Limit, **options: str) -> None:
    limits.set_limit(slug="acme", limit=limit, actor=TESTER, **options)


@pytest.mark.parametrize("amount", [0, -1, 10**12, math.nan, math.inf, 0.5])
@pytest.mark.parametrize("meter", METERS)
def test_absurd_amount_is_refused(meter: str, amount: float) -> None:
    """Row 85."""
    factories.organization("acme")
    with pytest.raises(errors.Invalid, match="Give a whole number of"):
        put(Limit(meter, amount))
    assert limits_of("acme") == ()


@pytest.mark.parametrize(
    "limit",
    [
        Limit("tps", 5),
        Limit("tpm", 5, klass="urgent"),
        Limit("tpm", 5, pool="../x"),
        Limit("tpm", 5, burst=0),
        Limit("concurrent", 5, burst=5),
    ],
)
def test_unknown_names_and_bursts_are_refused(limit: Limit) -> None:
    factories.organization("acme")
    with pytest.raises(errors.Invalid):
        put(limit)


@pytest.mark.parametrize(
    "values", [{"meter": "tps"}, {"amount": 0}, {"amount": 10**12}, {"klass": "x"}, {"burst": -1}]
)
def test_database_keeps_the_closed_lists_and_bounds(values: dict[str, object]) -> None:
    factories.organization("acme", limits=(Limit("tpm", 5),))
    with pytest.raises(IntegrityError), transaction.atomic():
        OrganizationLimit.objects.update(**values)


def test_setting_twice_replaces() -> None:
    factories.organization("acme")
    put(Limit("tpm", 5))
    put(Limit("tpm", 7, burst=9))
    assert limits_of("acme") == (Limit("tpm", 7, burst=9),)


def test_clearing_brings_the_plans_limit_back() -> None:
    factories.organization("acme")
    put(Limit("rpm", 7, klass="online"))
    limits.clear_limit(slug="acme", meter="rpm", klass="online", actor=TESTER)
    sources = {one.limit.meter: one for one in effective_limits("acme")}
    assert (sources["rpm"].source, sources["rpm"].limit.amount) == ("plan", 60)


def test_clearing_what_is_not_set_says_so() -> None:
    factories.organization("acme")
    with pytest.raises(errors.NotFound, match="no own limit tpm"):
        limits.clear_limit(slug="acme", meter="tpm", actor=TESTER)


def test_limit_of_a_key_is_its_own() -> None:
    factories.organization("acme")
    key_id = factories.key("acme").key.key_id
    put(Limit("rpm", 3), key_id=key_id)
    assert limits_of_key("acme", key_id) == snapshot.load().keys[key_id].limits
    assert limits_of("acme") == ()
    assert KeyLimit.objects.count() == 1


def test_changed_plan_reaches_tenants_without_an_own_limit() -> None:
    factories.organization("acme")
    factories.organization("rival", limits=(Limit("rpm", 9, klass="online"),))
    limits.set_plan_limit(
        plan="free", limit=Limit("rpm", 30, klass="online"), actor=TESTER, why="launch"
    )
    tenants = snapshot.load().tenants
    amounts = [[x.amount for x in tenants[s].limits if x.meter == "rpm"] for s in ("acme", "rival")]
    assert amounts == [[30], [9]]


def test_default_plans_are_finite_and_leave_batch_its_own_budgets() -> None:
    for plan in DEFAULT_PLANS:
        meters = {(limit.meter, limit.klass) for limit in plan.limits}
        assert {("tpm", "online"), ("rpm", "online"), ("concurrent", "online")} <= meters
        assert {("day", "batch"), ("month", "batch"), ("enqueued", "batch")} <= meters
        assert all(math.isfinite(limit.amount) for limit in plan.limits)
