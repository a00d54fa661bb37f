"""``manage.py replica``: the inference servers of the pools."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from gateway import selectors
from gateway.models import Replica
from gateway.replicas.adapters import ADAPTERS
from gateway.services import replicas
from gateway.services.terms import CAPABILITIES, ReplicaTerms
from tenants.management.command_line import Result, SubCommands, add_why, given

TERMS = tuple(ReplicaTerms.__slots__)


class Command(SubCommands):
    help = "Create, list, show, change, drain, disable, enable and remove replicas."
    noun = "replica"

    def define(self) -> None:
        self.add("create", self.create, "Add a replica to a pool.", _create_arguments)
        self.add("list", self.list, "List replicas.", _list_arguments)
        self.add("show", self.show, "Show a replica.", _slug)
        self.add("change", self.change, "Change what is named.", _change_arguments)
        self.add("drain", self.drain, "Let it finish, send nothing new.", _slug_and_why)
        self.add("disable", self.disable, "Send nothing new, stop probing.", _slug_and_why)
        self.add("enable", self.enable, "Use it again.", _slug_and_why)
        self.add("remove", self.remove, "Forget it; its calls finish.", _slug_and_why)

    def create(self, options: Namespace) -> Result:
        replicas.create(
            pool=options.pool,
            terms=ReplicaTerms(**given(options, TERMS)),
            api_key=_api_key(options) or "",
            **self._about(options),
        )
        return _details(options.slug)

    def list(self, options: Namespace) -> Result:
        names = ("slug", "pool", "state", "kind", "base_url", "slots")
        rows = selectors.replicas(of_pool=options.pool)
        return [{name: shown(row)[name] for name in names} for row in rows]

    def show(self, options: Namespace) -> Result:
        return _details(options.slug)

    def change(self, options: Namespace) -> Result:
        replicas.change(
            changes=given(options, TERMS), api_key=_api_key(options), **self._about(options)
        )
        return _details(options.slug)

    def drain(self, options: Namespace) -> Result:
        replicas.drain(**self._about(options))
        return f"{options.slug} gets no new calls and finishes those it has."

    def disable(self, options: Namespace) -> Result:
        replicas.disable(**self._about(options))
        return f"{options.slug} is disabled."

    def enable(self, options: Namespace) -> Result:
        replicas.enable(**self._about(options))
        return f"{options.slug} is enabled; it gets calls once a probe succeeds."

    def remove(self, options: Namespace) -> Result:
        replicas.remove(**self._about(options))
        return f"{options.slug} is removed."

    def _about(self, options: Namespace) -> dict[str, Any]:
        """Which replica, who and why."""
        return {"slug": options.slug, "actor": self.actor, "why": options.why}


def _slug(parser: CommandParser) -> None:
    parser.add_argument("slug", metavar="REPLICA")


def _slug_and_why(parser: CommandParser) -> None:
    _slug(parser)
    add_why(parser)


def _create_arguments(parser: CommandParser) -> None:
    parser.add_argument("--pool", required=True)
    _terms(parser, required=True)


def _change_arguments(parser: CommandParser) -> None:
    _terms(parser, required=False)


def _list_arguments(parser: CommandParser) -> None:
    parser.add_argument("--pool", help="of one pool")


def _terms(parser: CommandParser, *, required: bool) -> None:
    _slug_and_why(parser)
    parser.add_argument("--kind", required=required, choices=sorted(ADAPTERS))
    parser.add_argument("--base-url", required=required, help="http://host:port")
    parser.add_argument("--slots", type=int, help="calls in its running batch at most")
    parser.add_argument("--context-tokens", type=int, help="0: as its pool")
    parser.add_argument("--kv-tokens", type=int, help="tokens its KV memory holds")
    parser.add_argument("--region", help="a label; callers may wish for one")
    for_whom = "whose calls it runs, may be repeated; without: everybody's"
    parser.add_argument("--tenant", dest="tenants", action="append", help=for_whom)
    parser.add_argument(
        "--everybody", dest="tenants", action="store_const", const=[], help="no tenant's own"
    )
    parser.add_argument("--band-from-tokens", type=int, help="prompts that it is meant for")
    parser.add_argument("--band-to-tokens", type=int, help="0: no end")
    parser.add_argument("--capability", dest="capabilities", action="append", choices=CAPABILITIES)
    parser.add_argument(
        "--api-key-file", metavar="PATH", help="its API key, on the first line; - : standard input"
    )


def _api_key(options: Namespace) -> str | None:
    """The first line of a file; ``-``: of standard input. Secrets are never arguments."""
    path = options.api_key_file
    if path is None:
        return None
    try:
        text = sys.stdin.readline() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from None
    return text.partition("\n")[0].strip()


def _details(slug: str) -> dict[str, Any]:
    return shown(selectors.replica(slug))


def shown(row: Replica) -> dict[str, Any]:
    return {"slug": row.slug, **replicas.shown(row)}
