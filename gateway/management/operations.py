"""How do the commands of the gateway parse, call one service and print? Text for people, or JSON.

Every failure is one line that says what to do next, with exit status 1.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from tenants.actors import Actor
from tenants.errors import TenancyError

Fields = Mapping[str, object]


class OperationsCommand(BaseCommand):
    """A command with operations. A subclass names them in `operations`: function of the options,
    which returns one object, several, or a sentence."""

    requires_system_checks: list[str] = []  # noqa: RUF012

    def operations(self) -> Mapping[str, Callable[[dict[str, Any]], Fields | list[Fields] | str]]:
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        operation = options["operation"]
        try:
            result = self.operations()[operation](options)
        except TenancyError as error:
            raise CommandError(str(error)) from None
        except DatabaseError as error:
            words = " ".join(str(error).split())
            raise CommandError(
                f"The database refused ({words}). Run manage.py migrate, or check DATABASE_URL."
            ) from None
        self.stdout.write(_rendered(result, as_json=options["json"]))


def add_operation(operations: Any, name: str, text: str, *positional: str) -> ArgumentParser:
    """A sub-parser with ``--json`` and its positional arguments."""
    parser: ArgumentParser = operations.add_parser(name, help=text, description=text)
    for argument in positional:
        parser.add_argument(argument)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def add_why(parser: ArgumentParser) -> None:
    parser.add_argument("--why", default="", help="kept in the audit trail")


def given(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The options that were given, lists as tuples."""
    values = {name: options[name] for name in names if options.get(name) is not None}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


def actor(command: str) -> Actor:
    return Actor.command(command)


def secret_from(path: str) -> str:
    """The first line of a file; ``-``: of standard input. Secrets are never arguments."""
    try:
        text = sys.stdin.readline() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from None
    return text.partition("\n")[0].strip()


def _rendered(result: Fields | list[Fields] | str, *, as_json: bool) -> str:
    if as_json:
        shown = {"message": result} if isinstance(result, str) else result
        return json.dumps(shown, indent=2, default=str)
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return _table(result)
    return "\n".join(f"{name:<18} {_text(value)}" for name, value in result.items())


def _table(rows: list[Fields]) -> str:
    if not rows:
        return "none"
    lines = [[name.upper() for name in rows[0]]]
    lines += [[_text(value) for value in row.values()] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return "none" if value is None else str(value)
