"""An audit entry is told in words, on every page that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from dashboard.audit_words import Change, changes
from gateway.core.limits.limit import Limit
from gateway.services import aliases, pools
from gateway.services.aliases import Other
from gateway.services.terms import PoolTerms
from tenants.models import AuditEntry
from tenants.services import limits, organizations
from tests.factories import TESTER, key, organization

pytestmark = pytest.mark.django_db
PYTHON = re.compile(r"None|True|False|[{}\[]|Limit\(")


def latest() -> list[Change]:
    return changes(AuditEntry.objects.latest("id"))


def assign(weight: int = 1, *others: Other) -> None:
    aliases.assign(name="m1", pool="p1", weight=weight, others=others, actor=TESTER)


@pytest.fixture
def three_pools() -> None:
    for slug in ("p1", "p2", "p3"):
        pools.create(slug=slug, terms=PoolTerms(), actor=TESTER)


def test_weight_and_targets_of_a_model_name_are_told(three_pools: None) -> None:
    assign()
    assign(3, Other("p2", "up/m9", 2), Other("p3", fallback=True))
    assert latest() == [
        Change("more targets", "none", "p2 as up/m9, weight 2; p3, fallback"),
        Change("weight", "1", "3"),
    ]


def test_a_limit_is_named_with_its_amounts() -> None:
    organization("acme")
    for amount in (50_000, 60_000):
        limits.set_limit(slug="acme", limit=Limit("tpm", amount, pool="p1"), actor=TESTER)
    assert latest() == [Change("tokens per minute, pool p1", "50,000", "60,000")]
    limits.clear_limit(slug="acme", meter="tpm", pool="p1", actor=TESTER)
    assert latest() == [Change("tokens per minute, pool p1", "60,000", None)]


def test_limits_of_a_new_tenant_are_words() -> None:
    organization("acme", limits=[Limit("rpm", 60), Limit("tpm", 100)])
    told = {one.name: one.after for one in latest()}
    assert told["limits"] == "60 requests per minute; 100 tokens per minute"


def test_a_moment_is_told_to_the_second() -> None:
    organization("acme")
    organizations.suspend(slug="acme", actor=TESTER, why="unpaid")
    told = {one.name: one for one in latest()}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told["suspended"].after or "")
    assert told["suspended"].before == "none"


def test_no_value_of_python_is_on_the_page(
    client_of: Callable[[str], Client], three_pools: None
) -> None:
    organization("globex", limits=[Limit("rpm", 60)])
    key("globex")
    organizations.suspend(slug="globex", actor=TESTER, why="unpaid")
    organizations.resume(slug="globex", actor=TESTER)
    pools.change(slug="p1", changes={"ttft_objective_s": 2.0}, actor=TESTER)
    pools.remove(slug="p3", actor=TESTER)
    assign(1, Other("p2"))
    limits.set_limit(slug="globex", limit=Limit("rpm", 90), actor=TESTER)
    page = client_of("olga").get("/audit/").content.decode()
    cells = re.findall(r'data-label="Change">(.*?)</td>', page, re.S)
    assert len(cells) > 10
    assert [cell for cell in cells if PYTHON.search(cell)] == []


def test_the_rows_alone_are_read_again_by_a_script(client_of: Callable[[str], Client]) -> None:
    page = client_of("olga").get("/audit/", headers={"hx-request": "true"}).content.decode()
    assert "<table" in page
    assert "<html" not in page
