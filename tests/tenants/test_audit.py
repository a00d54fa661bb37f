"""The audit trail only grows; a change of weight or class can be taken back by its entry."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from gateway.core.limits.limit import Limit
from tenants import errors
from tenants.models import AuditEntry, Organization
from tenants.selectors import audit as select
from tenants.services import limits, organizations, plans
from tenants.services.undo import undo
from tenants.snapshot import current_version
from tests import factories
from tests.factories import TESTER

pytestmark = pytest.mark.django_db


@pytest.fixture
def entry() -> AuditEntry:
    factories.organization("acme")
    return organizations.set_weight(slug="acme", weight=3, actor=TESTER, why="contract")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tenants_auditentry SET why = 'x'",
        "DELETE FROM tenants_auditentry",
        "DELETE FROM tenants_auditentry WHERE id < 5",
    ],
)
def test_rows_are_neither_changed_nor_deleted(entry: AuditEntry, statement: str) -> None:
    """S39."""
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        connection.cursor().execute(statement)
    entry.refresh_from_db()
    assert entry.why == "contract"


def test_table_is_not_truncated(entry: AuditEntry) -> None:
    """S39."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no TRUNCATE")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        connection.cursor().execute("TRUNCATE tenants_auditentry")


def test_undo_brings_the_weight_back_and_says_what_it_undid(entry: AuditEntry) -> None:
    undone = undo(entry_id=entry.pk, actor=TESTER)
    assert Organization.objects.get().weight == 1
    assert (undone.undoes, undone.action) == (entry.pk, "tenant.set_weight")


def test_undo_of_an_undo_restores_the_change(entry: AuditEntry) -> None:
    undo(entry_id=undo(entry_id=entry.pk, actor=TESTER).pk, actor=TESTER)
    assert Organization.objects.get().weight == 3


def test_undo_is_refused_where_something_newer_changed_it(entry: AuditEntry) -> None:
    later = organizations.set_weight(slug="acme", weight=4, actor=TESTER, why="again")
    with pytest.raises(errors.Stale, match=rf"Entry {later.pk} by command:test changed"):
        undo(entry_id=entry.pk, actor=TESTER)
    assert Organization.objects.get().weight == 4


def test_change_of_the_class_does_not_stop_undo_of_the_weight(entry: AuditEntry) -> None:
    organizations.set_highest_class(slug="acme", highest_class="batch", actor=TESTER, why="x")
    undo(entry_id=entry.pk, actor=TESTER)
    row = Organization.objects.get()
    assert (row.weight, row.highest_class) == (1, 2)


def test_highest_class_can_be_undone() -> None:
    factories.organization("acme")
    change = organizations.set_highest_class(
        slug="acme", highest_class="standard", actor=TESTER, why="x"
    )
    undo(entry_id=change.pk, actor=TESTER)
    assert Organization.objects.get().highest_class == 0


def test_other_changes_cannot_be_undone_by_their_entry() -> None:
    factories.organization("acme")
    created = select.entries(tenant="acme")[0]
    with pytest.raises(errors.Invalid, match="cannot be undone"):
        undo(entry_id=created.pk, actor=TESTER)


def test_undo_of_an_unknown_entry_is_not_found() -> None:
    with pytest.raises(errors.NotFound):
        undo(entry_id=10**9, actor=TESTER)


def test_an_undo_raises_the_version_by_one(entry: AuditEntry) -> None:
    assert undo(entry_id=entry.pk, actor=TESTER).config_version == entry.config_version + 1


def test_a_change_that_changes_nothing_leaves_no_trace(entry: AuditEntry) -> None:
    limits.set_limit(slug="acme", limit=Limit("tpm", 50), actor=TESTER)
    version, rows = current_version(), AuditEntry.objects.count()
    row = Organization.objects.get()
    for unsaved in (
        organizations.set_weight(slug="acme", weight=3, actor=TESTER, why="again"),
        organizations.rename(slug="acme", name=row.name, actor=TESTER),
        organizations.set_plan(slug="acme", plan=row.plan.slug, actor=TESTER, why="again"),
        limits.set_limit(slug="acme", limit=Limit("tpm", 50), actor=TESTER),
        plans.change(slug="free", actor=TESTER, why="nothing"),
    ):
        assert unsaved.pk is None
    assert (current_version(), AuditEntry.objects.count()) == (version, rows)
    assert Organization.objects.get().version == row.version
