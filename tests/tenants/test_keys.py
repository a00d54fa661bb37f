"""Services of API keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from gateway.core.limits.limit import Limit
from gateway.core.priority import PriorityClass
from tenants import errors, snapshot
from tenants.key_format import generate
from tenants.key_terms import KeyTerms
from tenants.models import ApiKey, AuditEntry
from tenants.principals import in_networks, valid_key
from tenants.services import keys, limits, organizations
from tenants.services.keys import IssuedKey
from tests import factories
from tests.factories import TESTER
from tests.key_typos import typos

pytestmark = pytest.mark.django_db


@pytest.fixture
def issued() -> IssuedKey:
    factories.organization("acme")
    return factories.key("acme", label="web")


def value(key_id: str) -> snapshot.KeyValue:
    return snapshot.load().keys[key_id]


def test_secret_is_nowhere_in_the_database(
    issued: IssuedKey, capsys: pytest.CaptureFixture[str]
) -> None:
    """S02."""
    call_command("dumpdata", "tenants")
    dump = capsys.readouterr().out
    assert issued.key.key_id in dump
    assert issued.secret not in dump
    assert issued.secret[12:55] not in dump


def test_secret_is_not_shown_by_repr(issued: IssuedKey) -> None:
    assert issued.secret not in repr(issued)
    assert issued.secret not in repr(value(issued.key.key_id))


def test_only_the_right_secret_is_valid(issued: IssuedKey) -> None:
    pepper = settings.FAIRWAY_TENANTS.key_pepper
    assert valid_key(issued.secret, pepper=pepper, now=timezone.now()) == issued.key
    assert valid_key(issued.secret, pepper=b"other" * 8, now=timezone.now()) is None
    assert valid_key(generate()[0], pepper=pepper, now=timezone.now()) is None


def test_malformed_key_reads_no_table(
    issued: IssuedKey, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """S01: every typo of one character in a key that exists."""
    pepper, now = settings.FAIRWAY_TENANTS.key_pepper, timezone.now()
    with django_assert_num_queries(0):
        for text in ("", "fw-nonsense", *typos(issued.secret)):
            assert valid_key(text, pepper=pepper, now=now) is None
    with django_assert_num_queries(1):
        assert valid_key(issued.secret, pepper=pepper, now=now) is not None


def test_expiry_is_exact() -> None:
    """S05: a second before it and after it, for calls and for the control API."""
    factories.organization("acme")
    at = timezone.now() + timedelta(hours=1)
    issued = factories.key("acme", expires_at=at)
    key, pepper = value(issued.key.key_id), settings.FAIRWAY_TENANTS.key_pepper
    for seconds, lives in ((-1.0, True), (0.0, False), (1.0, False)):
        moment = at + timedelta(seconds=seconds)
        assert key.live_at(moment.timestamp()) is lives
        assert (valid_key(issued.secret, pepper=pepper, now=moment) is not None) is lives


def test_disabled_key_is_not_live_until_enabled(issued: IssuedKey) -> None:
    key_id = issued.key.key_id
    keys.disable(slug="acme", key_id=key_id, actor=TESTER)
    assert not value(key_id).live_at(0)
    keys.enable(slug="acme", key_id=key_id, actor=TESTER)
    assert value(key_id).live_at(0)


def test_rotation_leaves_two_live_keys_until_the_grace_ends(issued: IssuedKey) -> None:
    """S05."""
    limits.set_limit(slug="acme", key_id=issued.key.key_id, limit=Limit("rpm", 5), actor=TESTER)
    successor = keys.rotate(slug="acme", key_id=issued.key.key_id, actor=TESTER, grace_s=60)
    now = timezone.now().timestamp()
    old, new = value(issued.key.key_id), value(successor.key.key_id)
    assert (old.live_at(now), new.live_at(now)) == (True, True)
    assert (old.live_at(now + 60), new.live_at(now + 60)) == (False, True)
    assert (new.scopes, new.limits) == (old.scopes, (Limit("rpm", 5),))


def test_rotation_never_prolongs_a_key() -> None:
    factories.organization("acme")
    ends = timezone.now() + timedelta(seconds=30)
    issued = factories.key("acme", expires_at=ends)
    keys.rotate(slug="acme", key_id=issued.key.key_id, actor=TESTER, grace_s=3600)
    assert value(issued.key.key_id).expires_at == ends.timestamp()


@pytest.mark.parametrize("twice", ["rotate", "enable"])
def test_repeating_a_switch_or_rotation_is_refused(issued: IssuedKey, twice: str) -> None:
    key_id = issued.key.key_id
    keys.rotate(slug="acme", key_id=key_id, actor=TESTER)
    with pytest.raises(errors.AlreadyExists):
        getattr(keys, twice)(slug="acme", key_id=key_id, actor=TESTER)


def test_disabled_key_cannot_be_rotated_into_a_live_one(issued: IssuedKey) -> None:
    keys.disable(slug="acme", key_id=issued.key.key_id, actor=TESTER)
    with pytest.raises(errors.Invalid):
        keys.rotate(slug="acme", key_id=issued.key.key_id, actor=TESTER)


def test_key_of_another_tenant_does_not_exist(issued: IssuedKey) -> None:
    """S09."""
    factories.organization("rival")
    with pytest.raises(errors.NotFound):
        keys.disable(slug="rival", key_id=issued.key.key_id, actor=TESTER)


def test_grant_of_a_key_is_never_above_its_tenants(issued: IssuedKey) -> None:
    """Row 64."""
    organizations.set_highest_class(
        slug="acme", highest_class="batch", actor=TESTER, why="overload"
    )
    key = value(issued.key.key_id)
    assert key.highest_class is key.default_class is PriorityClass.BATCH


@pytest.mark.parametrize(
    "terms",
    [
        {"scopes": ()},
        {"scopes": ("root",)},
        {"label": "a\u202eb"},
        {"models": ("a\x00b",)},
        {"allowed_networks": ("10.0.0.0/33",)},
        {"highest_class": "urgent"},
        {"expires_at": timezone.now() - timedelta(days=1)},
        {"expires_at": timezone.now().replace(tzinfo=None) + timedelta(days=1)},
        {"models": tuple(f"m{n}" for n in range(101))},
    ],
)
def test_malformed_terms_are_refused(terms: dict[str, object]) -> None:
    factories.organization("acme")
    with pytest.raises(errors.Invalid):
        factories.key("acme", **terms)


def test_changed_terms_reach_the_snapshot(issued: IssuedKey) -> None:
    terms = replace(
        KeyTerms.of(issued.key), scopes=("usage",), models=("m",), highest_class="batch"
    )
    keys.change(slug="acme", key_id=issued.key.key_id, terms=terms, actor=TESTER)
    key = value(issued.key.key_id)
    assert (key.scopes, key.models) == (frozenset({"usage"}), frozenset({"m"}))
    assert key.default_class is PriorityClass.BATCH


def test_networks_decide_by_address() -> None:
    assert in_networks("203.0.113.9", [])
    assert in_networks("10.1.2.3", ["10.0.0.0/8", "2001:db8::/32"])
    assert not in_networks("192.0.2.1", ["10.0.0.0/8", "2001:db8::/32"])
    assert not in_networks("", ["10.0.0.0/8"])


def test_last_use_moves_forward_by_a_minute_or_more(issued: IssuedKey) -> None:
    now = timezone.now()
    version = snapshot.current_version()
    moments = [now, now + timedelta(seconds=5), now - timedelta(hours=1)]
    changed = [keys.note_used(used={issued.key.key_id: at, "absent00": at}) for at in moments]
    assert changed == [1, 0, 0]
    assert ApiKey.objects.get().last_used_at == now
    assert snapshot.current_version() == version


def test_database_refuses_a_default_class_above_the_grant(issued: IssuedKey) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.update(highest_class=PriorityClass.BATCH, default_class=0)


def test_every_write_of_a_key_leaves_one_audit_row(issued: IssuedKey) -> None:
    """S39."""
    key_id = issued.key.key_id
    keys.disable(slug="acme", key_id=key_id, actor=TESTER)
    keys.enable(slug="acme", key_id=key_id, actor=TESTER)
    keys.rotate(slug="acme", key_id=key_id, actor=TESTER)
    actions = AuditEntry.objects.filter(target=f"key:{key_id}").values_list("action", flat=True)
    assert list(actions) == ["key.rotate", "key.enable", "key.disable", "key.create"]


def test_ledger_notes_when_a_key_was_used(issued: IssuedKey) -> None:
    factories.ended_call(key_id=issued.key.key_id, arrived_at=1_800_000_000.0)
    factories.ended_call(key_id=issued.key.key_id, arrived_at=1_700_000_000.0)
    used_at = ApiKey.objects.get().last_used_at
    assert used_at is not None
    assert used_at.timestamp() == 1_800_000_000
