"""``manage.py tenant|apikey|operator``: what they print, and how they fail."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command

from gateway.core.limits.limit import Limit
from tenants import snapshot
from tenants.key_format import parse
from tenants.management.command_line import table
from tenants.management.commands import apikey, operator, tenant
from tenants.models import AuditEntry
from tests import factories

pytestmark = pytest.mark.django_db


def run(line: str) -> Any:
    """The JSON that the command prints."""
    out = io.StringIO()
    name, *arguments = line.split()
    call_command(name, *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_tenant_is_created_with_the_limits_named() -> None:
    made = run("tenant create Acme --plan team --weight 3 --tpm 100 --rpm 9 --concurrency 2")
    assert (made["slug"], made["plan"], made["weight"]) == ("acme", "team", 3.0)
    limits = snapshot.load().tenants["acme"].limits
    for limit in (("tpm", 100), ("rpm", 9), ("concurrent", 2)):
        assert Limit(*limit, klass="online") in limits


def test_key_is_printed_once_and_works() -> None:
    factories.organization("acme")
    made = run("apikey create acme --class batch --models a,b --label ci --scopes inference,usage")
    assert parse(made["api_key"]) == made["key_id"]
    key = snapshot.load().keys[made["key_id"]]
    assert (key.models, key.highest_class.label) == (frozenset("ab"), "batch")
    assert "api_key" not in run(f"apikey show {made['key_id']}")


def test_key_is_disabled_enabled_changed_and_rotated() -> None:
    factories.organization("acme")
    key_id = run("apikey create acme")["key_id"]
    assert run(f"apikey disable {key_id}")["enabled"] is False
    assert run(f"apikey enable {key_id}")["enabled"] is True
    assert run(f"apikey change {key_id} --label web --expires-days 1")["label"] == "web"
    successor = run(f"apikey rotate {key_id} --grace-s 10")
    assert run(f"apikey show {key_id}")["rotated_to"] == successor["key_id"]
    assert len(run("apikey list acme")) == len(run("apikey list")) == 2


def test_tenant_is_changed_disabled_and_enabled() -> None:
    factories.organization("acme")
    changed = run("tenant change acme --weight 2 --class standard --name Best --plan team --rpm 5")
    assert (changed["weight"], changed["highest_class"], changed["plan"]) == (
        2.0,
        "standard",
        "team",
    )
    assert run("tenant disable acme --why unpaid")["suspended"] is True
    assert run("tenant enable acme")["suspended"] is False
    assert [row["name"] for row in run("tenant list")] == ["Best"]


def test_change_of_several_things_is_made_as_a_whole_or_not_at_all() -> None:
    factories.organization("acme")
    with pytest.raises(CommandError, match="A weight of 0"):
        run("tenant change acme --name Best --weight 0")
    assert run("tenant show acme")["name"] == "Acme"


def test_limit_is_set_and_cleared() -> None:
    factories.organization("acme")
    run("tenant limit acme day 5000 --class batch")
    assert Limit("day", 5000, klass="batch") in snapshot.load().tenants["acme"].limits
    run("tenant limit acme day --class batch --clear")
    assert Limit("day", 2_000_000, klass="batch") in snapshot.load().tenants["acme"].limits


def test_credit_is_granted() -> None:
    factories.organization("acme")
    assert run("tenant grant acme 500")["balance"] == 500
    assert run("tenant show acme")["credit"]["granted"] == 500


def test_operator_and_member_sign_in_with_the_printed_password() -> None:
    factories.organization("acme")
    for line in ("operator create olga", "tenant member acme alice --role owner"):
        made = run(line)
        assert authenticate(username=made["username"], password=made["password"]) is not None
    assert run("tenant member acme alice --role owner")["password"] is None


def test_operator_gets_a_new_password() -> None:
    old = run("operator create olga")["password"]
    new = run("operator change olga")["password"]
    assert authenticate(username="olga", password=old) is None
    assert authenticate(username="olga", password=new) is not None


def test_password_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{factories.PASSWORD}\n"))
    run("operator create olga --password-stdin")
    assert authenticate(username="olga", password=factories.PASSWORD) is not None


def test_last_operator_stays() -> None:
    run("operator create olga")
    run("operator create oscar")
    assert run("operator disable olga")["enabled"] is False
    with pytest.raises(CommandError, match="Create another one first"):
        run("operator disable oscar")
    assert [row["enabled"] for row in run("operator list")] == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        "tenant create Acme",
        "tenant create A --slug acme",
        "tenant create Beta --weight 0",
        "tenant create Beta --rpm -1",
        "tenant create Beta --tpm 1e12",
        "tenant create Beta --tpm nan",
        "tenant create Beta --plan gold",
        "tenant show nobody",
        "tenant change acme",
        "tenant enable acme",
        "tenant limit acme rpm",
        "tenant limit acme rpm --clear",
        "tenant grant acme 0",
        "apikey create nobody",
        "apikey create acme --scopes root",
        "apikey create acme --networks x",
        "apikey create acme --expires-days -1",
        "apikey show AAAAAAAA",
        "apikey change AAAAAAAA --label x",
        "operator show nobody",
        "operator create no/body",
    ],
)
def test_failure_is_one_line_with_what_to_do_next(line: str) -> None:
    factories.organization("acme")
    rows = AuditEntry.objects.count()
    with pytest.raises(CommandError) as failure:
        run(line)
    words = str(failure.value)
    assert "\n" not in words
    assert len(words.rstrip(".").split(". ")) + words.count(".\n") >= 2, words
    assert AuditEntry.objects.count() == rows


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (tenant.Command, ["tenant"]),
        (tenant.Command, ["tenant", "destroy"]),
        (tenant.Command, ["tenant", "create"]),
        (tenant.Command, ["tenant", "create", "A", "--weight", "heavy"]),
        (apikey.Command, ["apikey", "create", "a", "--class", "urgent"]),
        (operator.Command, ["operator", "create", "a", "--nonsense"]),
    ],
)
def test_misspelt_command_line_fails_in_one_line(
    command: type[Any], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command().run_from_argv(["manage.py", *arguments])
    assert ended.value.code == 2
    words = capsys.readouterr().err.strip()
    assert "\n" not in words
    assert f"Try: manage.py {arguments[0]}" in words


def test_table_is_for_people() -> None:
    rows: list[Mapping[str, Any]] = [
        {"slug": "a", "tags": []},
        {"slug": "long", "tags": ["x", "y"]},
    ]
    assert table(rows).splitlines() == ["slug  tags", "a     -", "long  x, y"]
    assert table([]) == "none"
    assert table({"a": None, "bb": "x"}) == "a   -\nbb  x"
    assert table({"of": rows[1:]}).splitlines() == ["of", "  slug  tags", "  long  x, y"]
