"""Services of organizations: what is accepted, what is refused, what is left behind."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoAssertNumQueries

from gateway.core.limits.limit import Limit
from tenants import errors, snapshot
from tenants.models import AuditEntry, Organization
from tenants.services import organizations
from tests import factories
from tests.factories import TESTER

pytestmark = pytest.mark.django_db


def set_weight(weight: float, **options: Any) -> AuditEntry:
    return organizations.set_weight(slug="acme", weight=weight, actor=TESTER, why="test", **options)


def test_created_tenant_takes_weight_class_and_limits_from_its_plan() -> None:
    factories.organization("acme", plan="team")
    tenant = snapshot.load().tenants["acme"]
    assert (tenant.weight, tenant.highest_class.label) == (2.0, "interactive")
    assert Limit("tpm", 200_000, klass="online") in tenant.limits


def test_own_limit_replaces_the_plans_of_the_same_name() -> None:
    factories.organization("acme", limits=(Limit("tpm", 100, klass="online"),))
    limits = snapshot.load().tenants["acme"].limits
    assert [limit.amount for limit in limits if limit.meter == "tpm"] == [100]
    assert any(limit.meter == "rpm" for limit in limits)


@pytest.mark.parametrize("weight", [0, -1, 1e12, math.nan, math.inf, 1e-9])
def test_absurd_weight_is_refused_and_nothing_is_written(weight: float) -> None:
    """Row 85."""
    factories.organization("acme")
    before = snapshot.current_version(), AuditEntry.objects.count()
    with pytest.raises(errors.Invalid, match=r"Give a number from 0\.01 to 1000"):
        set_weight(weight)
    assert (snapshot.current_version(), AuditEntry.objects.count()) == before


@pytest.mark.parametrize("weight", [0, -1, 1e12, math.nan])
def test_database_refuses_absurd_weight_too(weight: float) -> None:
    """Row 85."""
    factories.organization("acme")
    with pytest.raises(IntegrityError), transaction.atomic():
        Organization.objects.filter(slug="acme").update(weight=weight)


@pytest.mark.parametrize("slug", ["acm3-", "Acme", "", "a b", "аcme", "a" * 41, "new", "a\x00b"])
def test_malformed_slug_is_refused(slug: str) -> None:
    with pytest.raises(errors.Invalid):
        organizations.create(name="\N{SNOWMAN}", slug=slug or None, actor=TESTER)


@pytest.mark.parametrize("twin", ["modem1", "rnodeml", "modem-l", "m0demi"])
def test_slug_that_looks_like_another_is_refused(twin: str) -> None:
    """S35."""
    factories.organization("modeml")
    with pytest.raises(errors.AlreadyExists, match="looks like modeml"):
        factories.organization(twin)


@pytest.mark.parametrize(
    "name", ["a\x00b", "a\u202eb", "a\u200bb", "a\nb", "a\u2028b", "\ud800", "\ufeffa", "", " "]
)
def test_deceptive_name_is_refused(name: str) -> None:
    """S35."""
    with pytest.raises(errors.Invalid):
        organizations.create(name=name, slug="acme", actor=TESTER)


def test_names_are_stored_in_composed_form() -> None:
    """S35."""
    row = organizations.create(name="Cafe\u0301", slug="cafe", actor=TESTER)
    assert row.name == "Café"


def test_slug_cannot_be_changed_by_anybody() -> None:
    factories.organization("acme")
    with pytest.raises(IntegrityError, match="a slug never changes"), transaction.atomic():
        Organization.objects.filter(slug="acme").update(slug="other")


def test_change_made_on_an_old_version_is_refused() -> None:
    seen = factories.organization("acme").version
    set_weight(2, expected_version=seen)
    with pytest.raises(errors.Stale):
        set_weight(3, expected_version=seen)
    assert Organization.objects.get(slug="acme").weight == 2


def test_each_change_writes_one_audit_row_and_one_version() -> None:
    """S39."""
    factories.organization("acme")
    version, rows = snapshot.current_version(), AuditEntry.objects.count()
    entry = set_weight(5)
    assert snapshot.current_version() == version + 1 == entry.config_version
    assert AuditEntry.objects.count() == rows + 1
    assert (entry.before, entry.after, entry.why) == ({"weight": 1.0}, {"weight": 5.0}, "test")


def test_suspended_tenant_is_suspended_in_the_snapshot_until_resumed() -> None:
    factories.organization("acme")
    organizations.suspend(slug="acme", actor=TESTER, why="unpaid")
    assert snapshot.load().tenants["acme"].suspended
    organizations.resume(slug="acme", actor=TESTER)
    assert not snapshot.load().tenants["acme"].suspended


def test_snapshot_needs_the_same_queries_for_any_number_of_tenants(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(5):
        factories.key(factories.organization().slug)
    with django_assert_num_queries(9):
        snapshot.load()
