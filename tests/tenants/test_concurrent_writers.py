"""Writers that get in each other's way: nothing is lost, nothing is done twice.

Real transactions in real threads, on whichever database the suite runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection, transaction

from gateway.core.limits.limit import Limit
from tenants import errors
from tenants.models import AuditEntry, ConfigVersion, CreditAccount, LedgerCall, Organization
from tenants.selectors.credit import credit_of
from tenants.services import credit, ledger, limits, organizations
from tenants.services.transactions import transactional
from tests import factories
from tests.factories import TESTER

pytestmark = pytest.mark.django_db(transaction=True)


def together(*writers: Callable[[], object]) -> list[object]:
    """Results in order; an exception is a result."""
    barrier = threading.Barrier(len(writers))

    def run(writer: Callable[[], object]) -> object:
        try:
            barrier.wait(10)
            return writer()
        except (errors.TenancyError, OperationalError) as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(writers)) as pool:
        return list(pool.map(run, writers))


def set_weight(weight: float, expected_version: int | None = None) -> AuditEntry:
    return organizations.set_weight(
        slug="acme", weight=weight, actor=TESTER, why="x", expected_version=expected_version
    )


def test_two_writers_of_one_version_cannot_both_win() -> None:
    factories.organization("acme")
    results = together(*(lambda w=w: set_weight(w, expected_version=1) for w in (2, 3)))
    losers = [result for result in results if isinstance(result, errors.Stale)]
    assert len(losers) == 1
    assert Organization.objects.get().version == 2


def test_no_update_is_lost_between_writers_in_opposite_order() -> None:
    """Row 36: two writers take the same two rows in opposite order, 40 times."""
    for slug in ("acme", "rival"):
        factories.organization(slug)

    def writer(order: tuple[str, str]) -> None:
        for _ in range(20):
            add_to_both(order)

    results = together(lambda: writer(("acme", "rival")), lambda: writer(("rival", "acme")))
    assert results == [None, None]
    assert [row.version for row in Organization.objects.all()] == [41, 41]


@transactional
def add_to_both(order: tuple[str, str]) -> None:
    """Without the version row's lock, so that a deadlock is possible."""
    for slug in order:
        row = Organization.objects.select_for_update().get(slug=slug)
        Organization.objects.filter(pk=row.pk).update(version=row.version + 1)


def test_every_concurrent_service_counts_in_the_version() -> None:
    factories.organization("acme")
    before = ConfigVersion.objects.get().version
    writers = [
        lambda n=n: limits.set_limit(slug="acme", limit=Limit("tpm", n + 1), actor=TESTER)
        for n in range(6)
    ]
    entries = together(*writers)
    versions = {entry.config_version for entry in entries if isinstance(entry, AuditEntry)}
    assert versions == set(range(before + 1, before + 7))


def test_concurrent_replays_insert_and_charge_each_call_once() -> None:
    factories.organization("acme")
    credit.grant(slug="acme", amount_microcredits=10_000, actor=TESTER, why="x")
    records = [factories.call_record(charge_microcredits=10) for _ in range(200)]
    counts = together(*(lambda: ledger.insert_calls(records) for _ in range(4)))
    assert sum(count for count in counts if isinstance(count, int)) == 200
    assert LedgerCall.objects.count() == 200
    state = credit_of("acme")
    assert state is not None
    assert (state.charged, state.balance) == (2_000, 8_000)


def test_charges_and_grants_at_once_keep_the_identity() -> None:
    factories.organization("acme")
    credit.grant(slug="acme", amount_microcredits=100, actor=TESTER, why="x")

    def charge() -> None:
        for _ in range(10):
            ledger.insert_calls([factories.call_record(charge_microcredits=7)])

    def grant() -> None:
        for _ in range(10):
            credit.grant(slug="acme", amount_microcredits=5, actor=TESTER, why="x")

    assert together(charge, grant, charge) == [None, None, None]
    account = CreditAccount.objects.get()
    remaining = sum(account.grants.values_list("remaining", flat=True))
    assert (account.granted, account.charged) == (150, 140)
    assert account.unspent == 10 == remaining - account.overdraft


class Conflict(Exception):
    sqlstate = "40P01"


def conflicting(times: int, calls: list[int]) -> Callable[[], str]:
    @transactional
    def service() -> str:
        calls.append(len(calls))
        set_weight(len(calls) + 1)
        if len(calls) <= times:
            raise OperationalError("deadlock detected") from Conflict()
        return "done"

    return service


def test_conflict_is_repeated_three_times_and_leaves_one_effect() -> None:
    """Row 36."""
    factories.organization("acme")
    calls: list[int] = []
    assert conflicting(3, calls)() == "done"
    assert len(calls) == 4
    assert Organization.objects.get().weight == 5
    assert AuditEntry.objects.filter(action=organizations.SET_WEIGHT).count() == 1


def test_fourth_conflict_is_raised_and_nothing_is_written() -> None:
    """Row 36."""
    factories.organization("acme")
    calls: list[int] = []
    with pytest.raises(OperationalError):
        conflicting(9, calls)()
    assert len(calls) == 4
    assert Organization.objects.get().weight == 1


def test_conflict_inside_a_transaction_is_left_to_the_outermost_service() -> None:
    """Row 36."""
    factories.organization("acme")
    calls: list[int] = []
    with pytest.raises(OperationalError), transaction.atomic():
        conflicting(1, calls)()
    assert calls == [0]
