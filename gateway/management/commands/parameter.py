"""``manage.py parameter``: the numbers of the policies, for one pool or for all."""

from __future__ import annotations

from argparse import Namespace

from django.core.management.base import CommandParser

from gateway import selectors
from gateway.services import parameters
from gateway.services.parameters import EVERY_POOL
from gateway.snapshot.parameters import PARAMETERS
from tenants.management.command_line import Result, SubCommands, add_why


class Command(SubCommands):
    help = "List the numbers of the policies, set one, give one back to its default."
    noun = "parameter"

    def define(self) -> None:
        self.add("list", self.list, "What is set, and what else there is.", lambda parser: None)
        self.add("set", self.set, "In force within a second; queued calls stay.", _set_arguments)
        self.add("clear", self.clear, "Back to the default.", _clear_arguments)

    def list(self, options: Namespace) -> Result:
        rows = tuple(selectors.parameters().order_by("pool"))
        return [
            {
                "name": known.name,
                "default": f"{known.default:,.10g}",
                "set": {row.pool: f"{row.value:,.10g}" for row in rows if row.name == known.name},
                "unit": known.unit,
                "meaning": known.meaning,
            }
            for known in PARAMETERS.values()
        ]

    def set(self, options: Namespace) -> Result:
        parameters.set_value(
            name=options.name,
            value=options.value,
            pool=options.pool,
            actor=self.actor,
            why=options.why,
        )
        return f"{options.name} of {_of(options.pool)} is {options.value:,.10g} now."

    def clear(self, options: Namespace) -> Result:
        parameters.clear(name=options.name, pool=options.pool, actor=self.actor, why=options.why)
        default = PARAMETERS[options.name].default
        return f"{options.name} of {_of(options.pool)} has its default of {default:,.10g} again."


def _of(pool: str) -> str:
    return "every pool" if pool == EVERY_POOL else pool


def _set_arguments(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="PARAMETER")
    parser.add_argument("value", type=float)
    _pool_and_why(parser)


def _clear_arguments(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="PARAMETER")
    _pool_and_why(parser)


def _pool_and_why(parser: CommandParser) -> None:
    parser.add_argument("--pool", default=EVERY_POOL, help="one pool; without: every pool")
    add_why(parser)
