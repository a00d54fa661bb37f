"""Pools and the model names that lead to them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction

from gateway import selectors
from gateway.core.routing.policies import ROUTING_POLICIES
from gateway.management.operations import (
    Fields,
    OperationsCommand,
    actor,
    add_operation,
    add_why,
    given,
)
from gateway.models import Pool, ReplicaSetting
from gateway.services import aliases, pools
from gateway.services.terms import CAPABILITIES, ENDPOINTS, PoolTerms

TERMS = tuple(PoolTerms.__slots__)


class Command(OperationsCommand):
    help = "Create, list, show, change and remove pools; say which model names they answer to."

    def add_arguments(self, parser: ArgumentParser) -> None:
        operations = parser.add_subparsers(dest="operation", required=True)
        create = add_operation(operations, "create", "make a pool", "slug")
        create.add_argument(
            "--model",
            action="append",
            metavar="NAME[=UPSTREAM]",
            help="a model name that callers use, and what the replicas call it",
        )
        change = add_operation(operations, "change", "change what is given", "slug")
        for one in (create, change):
            _add_terms(one)
        add_operation(operations, "list", "all pools")
        add_operation(operations, "show", "one pool with its models and replicas", "slug")
        name = add_operation(operations, "name", "let a model name lead to it", "slug", "model")
        name.add_argument("--upstream-model", default="", help="what the replicas call it")
        unname = add_operation(operations, "unname", "remove a model name", "model")
        others = [
            add_operation(operations, "remove", "remove a pool that nothing refers to", "slug"),
            add_operation(operations, "drain", "drain every replica of it", "slug"),
            add_operation(operations, "disable", "disable every replica of it", "slug"),
            add_operation(operations, "enable", "enable every replica of it", "slug"),
        ]
        for one in (create, change, name, unname, *others):
            add_why(one)

    def operations(self) -> Mapping[str, Callable[[dict[str, Any]], Fields | list[Fields] | str]]:
        return {
            "create": _create,
            "change": _change,
            "list": lambda _: [_line(row) for row in selectors.pools()],
            "show": lambda options: shown(selectors.pool(options["slug"])),
            "name": _name,
            "unname": _unname,
            "remove": _remove,
            "drain": lambda options: _switch(options, ReplicaSetting.DRAINING),
            "disable": lambda options: _switch(options, ReplicaSetting.DISABLED),
            "enable": lambda options: _switch(options, ReplicaSetting.ENABLED),
        }


def _add_terms(parser: ArgumentParser) -> None:
    parser.add_argument("--routing", choices=sorted(ROUTING_POLICIES))
    for kind in ("input", "cached", "output"):
        text = f"microcredits per million {kind} tokens"
        parser.add_argument(f"--{kind}-per-mtok", type=int, help=text)
    parser.add_argument("--context-tokens", type=int, help="0: unknown")
    parser.add_argument("--endpoint", dest="endpoints", action="append", choices=ENDPOINTS)
    parser.add_argument("--capability", dest="capabilities", action="append", choices=CAPABILITIES)
    parser.add_argument("--ttft-objective-s", type=float)
    parser.add_argument("--tpot-objective-s", type=float)


def _create(options: dict[str, Any]) -> Fields:
    slug, why = options["slug"], options["why"]
    terms = PoolTerms(**given(options, TERMS))
    with transaction.atomic():
        pools.create(slug=slug, terms=terms, actor=actor("pool create"), why=why)
        for model in options["model"] or ():
            name, _, upstream = model.partition("=")
            aliases.assign(
                name=name, pool=slug, upstream_model=upstream, actor=actor("pool create"), why=why
            )
    return shown(selectors.pool(slug))


def _change(options: dict[str, Any]) -> Fields:
    slug = options["slug"]
    changes = given(options, TERMS)
    pools.change(slug=slug, changes=changes, actor=actor("pool change"), why=options["why"])
    return shown(selectors.pool(slug))


def _name(options: dict[str, Any]) -> str:
    name, slug = options["model"], options["slug"]
    aliases.assign(
        name=name,
        pool=slug,
        upstream_model=options["upstream_model"],
        actor=actor("pool name"),
        why=options["why"],
    )
    return f"{name} leads to the pool {slug}."


def _unname(options: dict[str, Any]) -> str:
    aliases.remove(name=options["model"], actor=actor("pool unname"), why=options["why"])
    return f"{options['model']} is no model any more."


def _remove(options: dict[str, Any]) -> str:
    pools.remove(slug=options["slug"], actor=actor("pool remove"), why=options["why"])
    return f"The pool {options['slug']} is removed."


def _switch(options: dict[str, Any], state: ReplicaSetting) -> str:
    slug = options["slug"]
    changed = pools.switch(slug=slug, state=state, actor=actor("pool"), why=options["why"])
    return f"{changed} replicas of {slug} are {state} now."


def shown(row: Pool) -> Fields:
    return {
        "slug": row.slug,
        **PoolTerms.of(row).columns(),
        "models": [alias.name for alias in row.aliases.all()],
        "replicas": [f"{replica.slug} ({replica.state})" for replica in row.replicas.all()],
    }


def _line(row: Pool) -> Fields:
    return {
        "slug": row.slug,
        "models": [alias.name for alias in row.aliases.all()],
        "routing": row.routing,
        "context_tokens": row.context_tokens,
        "replicas": [replica.slug for replica in row.replicas.all()],
    }
