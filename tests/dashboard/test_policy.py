"""An operator changes weight and class: review, apply, undo, and who came first."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from tenants.models import AuditEntry, Organization
from tenants.services import organizations
from tests import factories

ClientOf = Callable[[str], Client]
PATH = "/tenants/acme/policy/"


def wish(**changes: str) -> dict[str, str]:
    values = {"weight": "3", "highest_class": "interactive", "why": "contract", "version": "1"}
    return values | {"step": "apply"} | changes


def weight() -> float:
    return Organization.objects.get(slug="acme").weight


def test_review_shows_the_difference_and_writes_nothing(client_of: ClientOf) -> None:
    page = client_of("olga").post(PATH, wish(step="review")).content.decode()
    assert "<del>1</del> to <ins>3</ins>" in page
    assert "No other tenant asks for service now" in page
    assert weight() == 1


def test_apply_writes_with_an_audit_row(client_of: ClientOf) -> None:
    page = client_of("olga").post(PATH, wish()).content.decode()
    entry = AuditEntry.objects.latest("id")
    assert weight() == 3
    assert (entry.actor, entry.why) == ("user:olga", "contract")
    assert f'data-awaits-version="{entry.config_version}"' in page


def test_weight_and_class_are_written_together(client_of: ClientOf) -> None:
    client_of("olga").post(PATH, wish(highest_class="batch"))
    row = Organization.objects.get(slug="acme")
    assert (row.weight, row.highest_class) == (3, 2)
    assert AuditEntry.objects.filter(why="contract").count() == 2


def test_undo_takes_it_back(client_of: ClientOf) -> None:
    olga = client_of("olga")
    olga.post(PATH, wish())
    entry = AuditEntry.objects.latest("id")
    assert olga.post(f"/audit/{entry.pk}/undo/").status_code == 200
    assert weight() == 1
    assert AuditEntry.objects.latest("id").undoes == entry.pk


def test_one_undo_takes_back_both_parts_of_a_change_and_one_redo_brings_them_again(
    client_of: ClientOf,
) -> None:
    olga = client_of("olga")
    page = olga.post(PATH, wish(highest_class="batch")).content.decode()
    for saved, expected, button in (
        ("Undone", (1.0, 0), "Redo highest class and weight"),
        ("Undone", (3.0, 2), "Redo weight and highest class"),
    ):
        form = re.search(r'action="(/audit/\d+/undo/)".*?name="also" value="(\d+)"', page, re.S)
        assert form
        page = olga.post(form[1], {"also": form[2]}).content.decode()
        row = Organization.objects.get(slug="acme")
        assert (row.weight, row.highest_class) == expected
        assert f"<h2>{saved}</h2>" in page
        assert button in page
    assert page.count("undo/") > 0


def test_an_undo_of_two_that_cannot_take_back_one_takes_back_none(client_of: ClientOf) -> None:
    olga = client_of("olga")
    olga.post(PATH, wish(highest_class="batch"))
    second, first = AuditEntry.objects.order_by("-id")[:2]
    olga.post(PATH, wish(weight="5", highest_class="batch", version="3"))
    assert olga.post(f"/audit/{second.pk}/undo/", {"also": first.pk}).status_code == 409
    row = Organization.objects.get(slug="acme")
    assert (row.weight, row.highest_class) == (5, 2)


def test_what_was_undone_or_changed_since_offers_no_undo(client_of: ClientOf) -> None:
    olga = client_of("olga")
    olga.post(PATH, wish())
    done = AuditEntry.objects.latest("id").pk
    olga.post(f"/audit/{done}/undo/")
    page = olga.get("/audit/").content.decode()
    assert f"/audit/{done}/undo/" not in page
    assert f"/audit/{AuditEntry.objects.latest('id').pk}/undo/" in page


def test_undo_of_what_somebody_changed_since_is_refused(client_of: ClientOf) -> None:
    olga = client_of("olga")
    olga.post(PATH, wish())
    entry = AuditEntry.objects.latest("id")
    olga.post(PATH, wish(weight="5", version="2"))
    answer = olga.post(f"/audit/{entry.pk}/undo/")
    assert answer.status_code == 409
    assert "changed tenant:acme since" in answer.content.decode()
    assert weight() == 5


def test_who_read_an_older_version_overwrites_nothing(client_of: ClientOf) -> None:
    olga = client_of("olga")
    olga.post(PATH, wish())
    answer = olga.post(PATH, wish(weight="7", version="1"))
    assert answer.status_code == 409
    assert "was changed meanwhile" in answer.content.decode()
    assert 'name="version" value="2"' in answer.content.decode()
    assert weight() == 3


@pytest.mark.parametrize("highest_class", ["interactive", "batch"])
def test_the_same_change_sent_twice_is_made_once_and_shown_twice(
    highest_class: str, client_of: ClientOf
) -> None:
    olga = client_of("olga")
    first = olga.post(PATH, wish(highest_class=highest_class)).content.decode()
    made = AuditEntry.objects.count()
    answer = olga.post(PATH, wish(highest_class=highest_class))
    again = answer.content.decode()
    assert answer.status_code == 200
    assert "Nothing was changed" not in again
    assert "Undo weight" in again
    undos = re.findall(r"/audit/\d+/undo/", first)
    assert re.findall(r"/audit/\d+/undo/", again) == undos
    assert AuditEntry.objects.count() == made


def test_a_change_that_another_operator_made_is_not_shown_as_the_own(
    client_of: ClientOf, cast: factories.Cast
) -> None:
    organizations.set_weight(slug="acme", weight=3, actor=factories.TESTER, why="contract")
    answer = client_of("olga").post(PATH, wish())
    assert answer.status_code == 422
    assert "Nothing would change" in answer.content.decode()


@pytest.mark.parametrize("value", ["0", "-1", "1e12", "nan", "inf", "", "x"])
def test_an_absurd_weight_is_refused(value: str, client_of: ClientOf) -> None:
    """Row 85."""
    assert client_of("olga").post(PATH, wish(weight=value)).status_code == 422
    assert weight() == 1


def test_a_reason_is_needed(client_of: ClientOf) -> None:
    assert client_of("olga").post(PATH, wish(why=" ")).status_code == 422
    assert weight() == 1


@pytest.mark.parametrize("name", ["alice", "bob", "charlie"])
def test_members_change_no_weight(name: str, client_of: ClientOf) -> None:
    client = client_of(name)
    assert client.post(PATH, wish()).status_code == 403
    assert client.post("/audit/1/undo/").status_code == 403
    assert weight() == 1


def test_a_read_changes_nothing(client_of: ClientOf) -> None:
    client_of("olga").get(PATH, wish())
    assert weight() == 1


def test_with_htmx_only_the_fragment_comes(client_of: ClientOf) -> None:
    fragment = client_of("olga").get(PATH, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in fragment
    assert 'name="weight"' in fragment


def test_an_unknown_tenant_is_not_found(client_of: ClientOf) -> None:
    assert client_of("olga").get("/tenants/nobody/policy/").status_code == 404


def test_a_post_without_csrf_token_is_refused(client_of: ClientOf) -> None:
    """S16."""
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client_of("olga").cookies
    assert strict.post(PATH, wish()).status_code == 403
    assert weight() == 1


def test_the_audit_list_offers_undo(client_of: ClientOf) -> None:
    olga = client_of("olga")
    olga.post(PATH, wish())
    page = olga.get("/audit/").content.decode()
    assert "tenant.set_weight" in page
    assert f"/audit/{AuditEntry.objects.latest('id').pk}/undo/" in page


def test_a_weight_of_nothing_is_refused_with_what_it_would_mean(client_of: ClientOf) -> None:
    page = client_of("olga").post(PATH, wish(step="review", weight="0")).content.decode()
    assert "would never be served while another waits" in page
    assert "suspend it instead" in page
    assert "0 would mean no service" in page
