"""What happens from time to time, and does no harm when it happens twice."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from tenants.actors import Actor
from tenants.models import AuditEntry, LedgerCall
from tenants.selectors.credit import credit_of
from tenants.services import credit, upkeep
from tests import factories
from tests.factories import TESTER

pytestmark = pytest.mark.django_db
BEAT = Actor.system("beat")
LATER = timezone.now() + timedelta(hours=2)


def test_due_credit_expires_once_with_one_audit_row_per_account() -> None:
    for slug in ("acme", "rival", "other"):
        factories.organization(slug)
        ends = None if slug == "other" else timezone.now() + timedelta(hours=1)
        credit.grant(slug=slug, amount_microcredits=9, expires_at=ends, actor=TESTER, why="x")
    assert [upkeep.expire_credit(actor=BEAT, now=LATER) for _ in range(2)] == [2, 0]
    assert AuditEntry.objects.filter(action="credit.expire", actor="system:beat").count() == 2
    balances = [state.balance for s in ("acme", "rival", "other") if (state := credit_of(s))]
    assert balances == [0, 0, 9]


def test_ledger_is_kept_400_days() -> None:
    for days in (401, 399):
        factories.ended_call(arrived_at=time.time() - days * 86_400)
    assert [upkeep.purge_ledger(), upkeep.purge_ledger()] == [1, 0]
    assert LedgerCall.objects.count() == 1
