"""What happens from time to time, and does no harm when it happens twice."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from tenants import snapshot
from tenants.actors import Actor
from tenants.models import AuditEntry, CreditGrant, LedgerCall
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


def test_expired_credit_does_not_count_before_upkeep_has_moved_it() -> None:
    """The snapshot says when it must be read again, and is right without any upkeep."""
    factories.organization("acme")
    ends = timezone.now() + timedelta(hours=1)
    for amount, expires_at in ((700, ends), (50, None)):
        credit.grant(
            slug="acme", amount_microcredits=amount, expires_at=expires_at, actor=TESTER, why="x"
        )
    before = snapshot.load()
    assert before.tenants["acme"].credit_limit_microcredits == 750
    assert before.stale_at == ends.timestamp()
    CreditGrant.objects.filter(amount=700).update(expires_at=timezone.now())
    after = snapshot.load()
    assert (after.tenants["acme"].credit_limit_microcredits, after.stale_at) == (50, None)
    upkeep.expire_credit(actor=BEAT)
    assert snapshot.load().tenants["acme"].credit_limit_microcredits == 50


def test_ledger_is_kept_400_days() -> None:
    for days in (401, 399):
        factories.ended_call(arrived_at=time.time() - days * 86_400)
    assert [upkeep.purge_ledger(), upkeep.purge_ledger()] == [1, 0]
    assert LedgerCall.objects.count() == 1
