"""Replicas: the inference servers of the pools."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from gateway import selectors
from gateway.management.operations import (
    Fields,
    OperationsCommand,
    actor,
    add_operation,
    add_why,
    given,
    secret_from,
)
from gateway.models import Replica
from gateway.replicas.adapters import ADAPTERS
from gateway.services import replicas
from gateway.services.terms import CAPABILITIES, ReplicaTerms

TERMS = tuple(ReplicaTerms.__slots__)


class Command(OperationsCommand):
    help = "Create, list, show, change, drain, disable, enable and remove replicas."

    def add_arguments(self, parser: ArgumentParser) -> None:
        operations = parser.add_subparsers(dest="operation", required=True)
        create = add_operation(operations, "create", "add a replica to a pool", "slug")
        create.add_argument("--pool", required=True)
        change = add_operation(operations, "change", "change what is given", "slug")
        for one, required in ((create, True), (change, False)):
            one.add_argument("--kind", required=required, choices=sorted(ADAPTERS))
            one.add_argument("--base-url", required=required, help="http://host:port")
            _add_terms(one)
        listing = add_operation(operations, "list", "all replicas")
        listing.add_argument("--pool", help="of one pool")
        add_operation(operations, "show", "one replica", "slug")
        others = [
            add_operation(operations, "drain", "let it finish, send nothing new", "slug"),
            add_operation(operations, "disable", "send nothing new, stop probing", "slug"),
            add_operation(operations, "enable", "use it again", "slug"),
            add_operation(operations, "remove", "forget it; its calls finish", "slug"),
        ]
        for one in (create, change, *others):
            add_why(one)

    def operations(self) -> Mapping[str, Callable[[dict[str, Any]], Fields | list[Fields] | str]]:
        return {
            "create": self._create,
            "change": self._change,
            "list": _list,
            "show": lambda options: shown(selectors.replica(options["slug"])),
            "drain": _drain,
            "disable": _disable,
            "enable": _enable,
            "remove": _remove,
        }

    def _create(self, options: dict[str, Any]) -> Fields:
        replicas.create(
            slug=options["slug"],
            pool=options["pool"],
            terms=ReplicaTerms(**given(options, TERMS)),
            api_key=self._api_key(options) or "",
            actor=actor("replica create"),
            why=options["why"],
        )
        return shown(selectors.replica(options["slug"]))

    def _change(self, options: dict[str, Any]) -> Fields:
        replicas.change(
            slug=options["slug"],
            changes=given(options, TERMS),
            api_key=self._api_key(options),
            actor=actor("replica change"),
            why=options["why"],
        )
        return shown(selectors.replica(options["slug"]))

    def _api_key(self, options: dict[str, Any]) -> str | None:
        path = options["api_key_file"]
        return None if path is None else secret_from(path)


def _add_terms(parser: ArgumentParser) -> None:
    parser.add_argument("--slots", type=int, help="calls in its running batch at most")
    parser.add_argument("--context-tokens", type=int, help="0: as its pool")
    parser.add_argument("--kv-tokens", type=int, help="tokens its KV memory holds")
    parser.add_argument("--capability", dest="capabilities", action="append", choices=CAPABILITIES)
    parser.add_argument(
        "--api-key-file", metavar="PATH", help="its API key, on the first line; - : standard input"
    )


def _list(options: dict[str, Any]) -> list[Fields]:
    names = ("slug", "pool", "state", "kind", "base_url", "slots")
    rows = selectors.replicas(of_pool=options["pool"])
    return [{name: shown(row)[name] for name in names} for row in rows]


def _drain(options: dict[str, Any]) -> str:
    replicas.drain(slug=options["slug"], actor=actor("replica drain"), why=options["why"])
    return f"{options['slug']} gets no new calls and finishes those it has."


def _disable(options: dict[str, Any]) -> str:
    replicas.disable(slug=options["slug"], actor=actor("replica disable"), why=options["why"])
    return f"{options['slug']} is disabled."


def _enable(options: dict[str, Any]) -> str:
    replicas.enable(slug=options["slug"], actor=actor("replica enable"), why=options["why"])
    return f"{options['slug']} is enabled; it gets calls once a probe succeeds."


def _remove(options: dict[str, Any]) -> str:
    replicas.remove(slug=options["slug"], actor=actor("replica remove"), why=options["why"])
    return f"{options['slug']} is removed."


def shown(row: Replica) -> Fields:
    return {"slug": row.slug, **replicas.shown(row)}
