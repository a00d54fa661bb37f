"""What beat starts from time to time reaches the tenants' upkeep."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from config.celery import app
from tenants.models import CreditGrant, LedgerCall
from tenants.selectors.credit import credit_of
from tenants.services import credit
from tests import factories
from tests.factories import TESTER
from workers.tasks import tenants_upkeep


def test_beat_starts_it_every_minute() -> None:
    entry = app.conf.beat_schedule[tenants_upkeep.name]
    assert (entry["task"], entry["schedule"]) == (tenants_upkeep.name, 60.0)


@pytest.mark.django_db
def test_credit_expires_and_old_calls_are_forgotten() -> None:
    factories.organization("acme")
    ends = timezone.now() + timedelta(hours=1)
    credit.grant(slug="acme", amount_microcredits=9, expires_at=ends, actor=TESTER, why="x")
    CreditGrant.objects.update(expires_at=timezone.now())
    factories.ended_call(arrived_at=time.time() - 401 * 86_400)
    tenants_upkeep()
    state = credit_of("acme")
    assert state is not None
    assert (state.balance, state.expired) == (0, 9)
    assert not LedgerCall.objects.exists()
