"""``manage.py apikey``: API keys. A secret is printed once, by create and rotate."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from gateway.core.priority import PriorityClass
from tenants.errors import Invalid
from tenants.key_terms import KeyTerms
from tenants.management.command_line import Result, SubCommands, add_why
from tenants.models import ApiKey, Scope
from tenants.selectors import keys as select
from tenants.services import keys

CLASSES = [member.label for member in PriorityClass]


class Command(SubCommands):
    help = "Create, list, show, change, disable, enable and rotate API keys."
    noun = "apikey"

    def define(self) -> None:
        self.add("create", self.create, "Make a key and print its secret once.", _create_arguments)
        self.add("list", self.list, "List keys.", _list_arguments)
        self.add("show", self.show, "Show a key.", _key)
        self.add("change", self.change, "Change what is named.", _change_arguments)
        self.add("disable", self.disable, "Refuse calls with it.", _key_and_why)
        self.add("enable", self.enable, "Accept it again.", _key_and_why)
        self.add("rotate", self.rotate, "Make a successor; both live for a while.", _rotate)

    def create(self, options: Namespace) -> Result:
        terms = replace(KeyTerms(), **_named(options))
        issued = keys.create(slug=options.tenant, terms=terms, actor=self.actor, why=options.why)
        return {"api_key": issued.secret} | _details(issued.key)

    def list(self, options: Namespace) -> Result:
        rows = select.keys_of(options.tenant) if options.tenant else select.all_keys()
        names = ("key_id", "tenant", "label", "scopes", "enabled", "expires_at", "last_used_at")
        return [{name: _details(row)[name] for name in names} for row in rows]

    def show(self, options: Namespace) -> Result:
        return _details(select.key_by_id(options.key_id))

    def change(self, options: Namespace) -> Result:
        row = select.key_by_id(options.key_id)
        named = _named(options)
        if not named:
            raise Invalid("Nothing to change.", next_step="Name what, such as --label web.")
        terms = replace(KeyTerms.of(row), **named)
        keys.change(**_whose(row), terms=terms, actor=self.actor, why=options.why)
        return _details(select.key_by_id(options.key_id))

    def disable(self, options: Namespace) -> Result:
        row = select.key_by_id(options.key_id)
        keys.disable(**_whose(row), actor=self.actor, why=options.why)
        return _details(select.key_by_id(options.key_id))

    def enable(self, options: Namespace) -> Result:
        row = select.key_by_id(options.key_id)
        keys.enable(**_whose(row), actor=self.actor, why=options.why)
        return _details(select.key_by_id(options.key_id))

    def rotate(self, options: Namespace) -> Result:
        row = select.key_by_id(options.key_id)
        issued = keys.rotate(
            **_whose(row), actor=self.actor, why=options.why, grace_s=options.grace_s
        )
        return {"api_key": issued.secret} | _details(issued.key)


def _key(parser: CommandParser) -> None:
    parser.add_argument("key_id", metavar="KEY_ID")


def _key_and_why(parser: CommandParser) -> None:
    _key(parser)
    add_why(parser)


def _terms(parser: CommandParser) -> None:
    parser.add_argument("--label", help="what people call it")
    parser.add_argument("--class", dest="highest_class", choices=CLASSES, help="highest allowed")
    parser.add_argument("--default-class", choices=CLASSES, help="served where none is asked for")
    parser.add_argument("--models", help="comma-separated; empty allows all")
    parser.add_argument("--scopes", help=f"comma-separated, of {', '.join(Scope)}")
    parser.add_argument("--networks", help="comma-separated, such as 192.0.2.0/24; empty: any")
    parser.add_argument("--expires-days", type=float, help="days from now")


def _create_arguments(parser: CommandParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="its slug")
    _terms(parser)
    add_why(parser)


def _list_arguments(parser: CommandParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", nargs="?", help="its slug; all without")


def _change_arguments(parser: CommandParser) -> None:
    _key_and_why(parser)
    _terms(parser)


def _rotate(parser: CommandParser) -> None:
    _key_and_why(parser)
    parser.add_argument("--grace-s", type=float, help="seconds that the old key lives on")


def _named(options: Namespace) -> dict[str, Any]:
    """The terms that the command line names."""
    named = {
        "label": options.label,
        "highest_class": options.highest_class,
        "default_class": options.default_class,
        "models": _list(options.models),
        "scopes": _list(options.scopes),
        "allowed_networks": _list(options.networks),
        "expires_at": _days_from_now(options.expires_days),
    }
    return {name: value for name, value in named.items() if value is not None}


def _list(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part for part in text.split(",") if part)


def _days_from_now(days: float | None) -> datetime | None:
    if days is None:
        return None
    if not 0 < days <= 3650:
        raise Invalid(f"{days:g} days are not accepted.", next_step="Give 0 to 3650.")
    return timezone.now() + timedelta(days=days)


def _whose(row: ApiKey) -> dict[str, str]:
    return {"slug": row.organization.slug, "key_id": row.key_id}


def _details(row: ApiKey) -> dict[str, Any]:
    return {
        "key_id": row.key_id,
        "tenant": row.organization.slug,
        "enabled": row.enabled,
        "last_used_at": row.last_used_at,
        "rotated_to": row.rotated_to.key_id if row.rotated_to else None,
    } | KeyTerms.of(row).shown()
