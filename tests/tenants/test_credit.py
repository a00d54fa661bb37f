"""The credit account: Σ grants = charges + holds + balance + expired, whatever happens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants import errors, snapshot
from tenants.credit_flow import Charge, Purse, after_overdraft, consume
from tenants.models import CreditAccount, CreditGrant
from tenants.selectors.credit import CreditState, accounts_with_due_grants, credit_of
from tenants.services import credit, ledger
from tests import factories
from tests.factories import TESTER

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
AMOUNTS = st.integers(1, 1000)
HOURS = st.integers(-5, 5)


def grant(amount: int, **options: Any) -> None:
    credit.grant(slug="acme", amount_microcredits=amount, actor=TESTER, why="x", **options)


def charge(amount: int, at: datetime | None = None) -> None:
    record = factories.call_record(
        charge_microcredits=amount, arrived_at=(at or timezone.now()).timestamp()
    )
    ledger.insert_calls([record])


def state(holds: int = 0) -> CreditState:
    found = credit_of("acme", holds=holds)
    assert found is not None
    return found


def assert_identity(holds: int = 0) -> None:
    now = state(holds)
    assert now.granted == now.charged + now.holds + now.balance + now.expired
    account = CreditAccount.objects.get()
    remaining = sum(CreditGrant.objects.values_list("remaining", flat=True))
    assert account.unspent == remaining - account.overdraft


@given(
    purses=st.lists(st.tuples(AMOUNTS, st.none() | HOURS), max_size=6),
    charges=st.lists(st.tuples(AMOUNTS, HOURS), max_size=6),
)
def test_consuming_neither_makes_nor_loses_credit(
    purses: list[tuple[int, int | None]], charges: list[tuple[int, int]]
) -> None:
    held = [
        Purse(n, amount, None if hours is None else NOW + timedelta(hours=hours))
        for n, (amount, hours) in enumerate(purses)
    ]
    asked = [Charge(NOW + timedelta(hours=hours), amount) for amount, hours in charges]
    overdraft = consume(held, asked)
    before, after = sum(amount for amount, _ in purses), sum(p.remaining for p in held)
    assert before + overdraft == after + sum(c.amount for c in asked)
    assert all(p.remaining >= 0 for p in held)


@given(amount=AMOUNTS, overdraft=st.integers(0, 2000))
def test_new_grant_pays_the_overdraft_first(amount: int, overdraft: int) -> None:
    kept, left = after_overdraft(amount, overdraft)
    assert amount - kept == overdraft - left
    assert kept == 0 or left == 0


def test_earliest_expiring_grant_pays_first() -> None:
    purses = [
        Purse(1, 10, None),
        Purse(2, 10, NOW + timedelta(days=9)),
        Purse(3, 10, NOW + timedelta(days=2)),
        Purse(4, 10, NOW - timedelta(days=1)),
    ]
    assert consume(purses, [Charge(NOW, 15)]) == 0
    assert {p.grant_id: p.remaining for p in purses} == {1: 10, 2: 5, 3: 0, 4: 10}


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), AMOUNTS, st.none() | st.integers(1, 5)),
        st.tuples(st.just("charge"), AMOUNTS, HOURS),
        st.tuples(st.just("refund"), AMOUNTS, st.none()),
        st.tuples(st.just("expire"), st.just(0), st.integers(0, 6)),
    ),
    max_size=12,
)


@pytest.mark.django_db
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(operations=OPERATIONS, holds=st.integers(0, 500))
def test_identity_holds_after_any_sequence(
    operations: list[tuple[str, int, int | None]], holds: int
) -> None:
    with transaction.atomic():
        factories.organization("acme")
        grant(1)
        for name, amount, hours in operations:
            apply(name, amount, hours)
            assert_identity(holds)
        transaction.set_rollback(True)


def apply(name: str, amount: int, hours: int | None) -> None:
    moment = timezone.now() + timedelta(hours=hours or 0)
    if name == "grant":
        grant(amount, expires_at=moment if hours else None)
    elif name == "charge":
        charge(amount, moment)
    elif name == "expire":
        credit.expire_due(slug="acme", actor=TESTER, now=moment)
    else:
        refund_if_allowed(amount)


def refund_if_allowed(amount: int) -> None:
    refundable = state().charged
    if amount <= refundable:
        credit.refund(slug="acme", amount_microcredits=amount, actor=TESTER, why="x")
    else:
        with pytest.raises(errors.Invalid):
            credit.refund(slug="acme", amount_microcredits=amount, actor=TESTER, why="x")


@pytest.mark.django_db
def test_tenant_without_an_account_is_not_charged() -> None:
    factories.organization("acme")
    charge(100)
    assert credit_of("acme") is None
    assert snapshot.load().tenants["acme"].credit_limit_microcredits is None


@pytest.mark.django_db
def test_replayed_call_is_charged_once() -> None:
    factories.organization("acme")
    grant(100)
    record = factories.call_record(charge_microcredits=30)
    assert [ledger.insert_calls([record, record]), ledger.insert_calls([record])] == [1, 0]
    assert (state().charged, state().balance) == (30, 70)


@pytest.mark.django_db
def test_expired_rest_leaves_the_limit_and_says_whose_it_was() -> None:
    factories.organization("acme")
    grant(100, expires_at=timezone.now() + timedelta(hours=1))
    grant(50)
    charge(30)
    later = timezone.now() + timedelta(hours=2)
    assert accounts_with_due_grants(later) == ["acme"]
    entry = credit.expire_due(slug="acme", actor=TESTER, now=later)
    assert entry is not None
    assert (state().expired, state().balance) == (70, 50)
    assert snapshot.load().tenants["acme"].credit_limit_microcredits == 80
    assert accounts_with_due_grants(later) == []


@pytest.mark.django_db
def test_nothing_due_writes_nothing() -> None:
    factories.organization("acme")
    grant(100)
    version = snapshot.current_version()
    assert credit.expire_due(slug="acme", actor=TESTER) is None
    assert snapshot.current_version() == version


@pytest.mark.django_db
@pytest.mark.parametrize("amount", [0, -1, 10**16])
def test_absurd_amount_is_refused(amount: int) -> None:
    """Row 85."""
    factories.organization("acme")
    with pytest.raises(errors.Invalid):
        grant(amount)


@pytest.mark.django_db
def test_database_refuses_a_grant_that_holds_more_than_was_given() -> None:
    factories.organization("acme")
    grant(5)
    with pytest.raises(IntegrityError), transaction.atomic():
        CreditGrant.objects.update(remaining=6)
