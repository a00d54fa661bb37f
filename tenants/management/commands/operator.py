"""``manage.py operator``: the people who run the installation."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from django.core.management.base import CommandParser

from tenants.management.command_line import Result, SubCommands
from tenants.models import Operator
from tenants.selectors import people
from tenants.services import accounts, operators


class Command(SubCommands):
    help = "Create, list, show, change, disable and enable operators."
    noun = "operator"

    def define(self) -> None:
        self.add("create", self.create, "Make an operator; prints a password.", _with_password)
        self.add("list", self.list, "List operators.", lambda parser: None)
        self.add("show", self.show, "Show an operator.", _username)
        self.add("change", self.change, "Set a new password.", _with_password)
        self.add("disable", self.disable, "Take the operator's rights away.", _username)
        self.add("enable", self.enable, "Give the rights back.", _username)

    def create(self, options: Namespace) -> Result:
        account = operators.create(
            username=options.username, password=_password(options), actor=self.actor
        )
        return {"username": account.username, "password": account.password}

    def list(self, options: Namespace) -> Result:
        return [_details(row) for row in people.operators()]

    def show(self, options: Namespace) -> Result:
        return _details(people.operator(options.username))

    def change(self, options: Namespace) -> Result:
        username = people.operator(options.username).user.username
        account = accounts.reset_password(
            username=username, password=_password(options), actor=self.actor
        )
        return {"username": account.username, "password": account.password}

    def disable(self, options: Namespace) -> Result:
        operators.disable(username=options.username, actor=self.actor)
        return _details(people.operator(options.username))

    def enable(self, options: Namespace) -> Result:
        operators.enable(username=options.username, actor=self.actor)
        return _details(people.operator(options.username))


def _username(parser: CommandParser) -> None:
    parser.add_argument("username", metavar="USERNAME")


def _with_password(parser: CommandParser) -> None:
    _username(parser)
    parser.add_argument(
        "--password-stdin",
        action="store_true",
        help="read the password from standard input instead of making one up",
    )


def _password(options: Namespace) -> str | None:
    return sys.stdin.readline().rstrip("\n") if options.password_stdin else None


def _details(row: Operator) -> dict[str, Any]:
    return {
        "username": row.user.username,
        "enabled": row.disabled_at is None and row.user.is_active,
        "created_at": row.created_at,
        "last_login": row.user.last_login,
    }
