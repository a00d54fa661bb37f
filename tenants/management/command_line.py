"""How do the product's own commands talk? Sub-commands, ``--json``, and failures of one line.

Every failure says in one line what to do next and ends with status 1; a command line that cannot
be understood ends with status 2. With ``--json`` the result is one JSON document on standard
output, for scripts.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from tenants.actors import Actor
from tenants.errors import TenancyError

Result = Mapping[str, Any] | list[Mapping[str, Any]] | str
Runner = Callable[[Namespace], Result]
Arguments = Callable[[CommandParser], None]


class SubCommands(BaseCommand):
    """``define`` adds the sub-commands; each returns what is shown: things, or a sentence."""

    requires_migrations_checks = False
    requires_system_checks: list[str] = []  # noqa: RUF012
    output_transaction = False
    noun: ClassVar[str]

    def define(self) -> None:
        raise NotImplementedError

    def add_arguments(self, parser: CommandParser) -> None:
        self.choices = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
        self.define()

    def add(self, verb: str, runner: Runner, help_text: str, arguments: Arguments) -> None:
        parser = self.choices.add_parser(verb, help=help_text, description=help_text)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(runner=runner)
        arguments(parser)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Parsers that raise instead of printing a page of usage."""
        self._called_from_command_line = False
        return super().create_parser(prog_name, subcommand, **kwargs)

    def run_from_argv(self, argv: list[str]) -> None:
        try:
            super().run_from_argv(argv)
        except CommandError as error:
            words = str(error).removeprefix("Error: ").rstrip(".")
            verb = f" {argv[2]}" if argv[2:] and argv[2] in self.choices.choices else ""
            self.stderr.write(f"{words}. Try: manage.py {self.noun}{verb} --help")
            sys.exit(2)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = options["runner"](Namespace(**options))
        except TenancyError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            words = " ".join(str(error).split())
            raise CommandError(
                f"The database refused ({words}). Run manage.py migrate, or check DATABASE_URL."
            ) from error
        self.stdout.write(as_json(result) if options["json"] else table(result))

    @property
    def actor(self) -> Actor:
        return Actor.command(f"manage.py {self.noun}")


def add_why(parser: CommandParser) -> None:
    parser.add_argument("--why", default="by command", help="kept in the audit trail")


def given(options: Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The options that the command line names, lists as tuples."""
    values = {name: getattr(options, name, None) for name in names}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if value is not None
    }


def as_json(result: Result) -> str:
    return json.dumps({"message": result} if isinstance(result, str) else result, default=str)


def table(result: Result) -> str:
    """For people: a list as columns, a single thing as one line per field."""
    if isinstance(result, str):
        return result
    if not isinstance(result, Mapping):
        return _columns(result) if result else "none"
    width = max((len(name) for name in result), default=0)
    return "\n".join(_field(name, value, width) for name, value in result.items())


def _field(name: str, value: Any, width: int) -> str:
    """A list of things stands below its name."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return f"{name}\n" + "\n".join(f"  {line}" for line in _columns(value).splitlines())
    return f"{name:<{width}}  {_cell(value)}"


def _columns(rows: list[Mapping[str, Any]]) -> str:
    lines = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(_line(line, widths) for line in lines)


def _line(row: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(value: Any) -> str:
    if value is None or value in ([], ""):
        return "-"
    if isinstance(value, list):
        return ", ".join(_cell(one) for one in value)
    if isinstance(value, Mapping):
        pairs = [f"{name}={_cell(one)}" for name, one in value.items() if one is not None]
        return " ".join(pairs) or "-"
    return str(value)
