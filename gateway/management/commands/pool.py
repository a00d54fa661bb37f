"""``manage.py pool``: pools and the model names that lead to them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError, CommandParser

from gateway import selectors
from gateway.core.routing.policies import ROUTING_POLICIES
from gateway.models import Pool, ReplicaSetting
from gateway.services import aliases, pools
from gateway.services.terms import CAPABILITIES, ENDPOINTS, PoolTerms
from tenants.management.command_line import Result, SubCommands, add_why, given
from tenants.services.transactions import transactional

TERMS = tuple(PoolTerms.__slots__)


class Command(SubCommands):
    help = "Create, list, show, change and remove pools; say which model names they answer to."
    noun = "pool"

    def define(self) -> None:
        self.add("create", self.create, "Make a pool.", _create_arguments)
        self.add("list", self.list, "List pools.", lambda parser: None)
        self.add("show", self.show, "Show a pool with its models and replicas.", _slug)
        self.add("change", self.change, "Change what is named.", _change_arguments)
        self.add("remove", self.remove, "Remove a pool that nothing refers to.", _slug_and_why)
        self.add("name", self.name, "Let a model name lead to it.", _name_arguments)
        self.add("unname", self.unname, "Remove a model name.", _unname_arguments)
        self.add("drain", self.drain, "Drain every replica of it.", _slug_and_why)
        self.add("disable", self.disable, "Disable every replica of it.", _slug_and_why)
        self.add("enable", self.enable, "Enable every replica of it.", _slug_and_why)

    @transactional
    def create(self, options: Namespace) -> Result:
        """With its model names, or not at all."""
        terms = PoolTerms(**given(options, TERMS))
        pools.create(slug=options.slug, terms=terms, actor=self.actor, why=options.why)
        for model in options.model or ():
            name, _, upstream = model.partition("=")
            self._assign(name, upstream, options)
        return _details(options.slug)

    def list(self, options: Namespace) -> Result:
        names = ("slug", "models", "routing", "context_tokens", "replicas")
        return [{name: shown(row)[name] for name in names} for row in selectors.pools()]

    def show(self, options: Namespace) -> Result:
        return _details(options.slug)

    def change(self, options: Namespace) -> Result:
        changes = given(options, TERMS)
        pools.change(slug=options.slug, changes=changes, actor=self.actor, why=options.why)
        return _details(options.slug)

    def remove(self, options: Namespace) -> Result:
        pools.remove(slug=options.slug, actor=self.actor, why=options.why)
        return f"The pool {options.slug} is removed."

    def name(self, options: Namespace) -> Result:
        others = [_target(one) for one in options.also or ()]
        others += [replace(_target(one), fallback=True) for one in options.fallback or ()]
        self._assign(options.model, options.upstream_model, options, options.weight, others)
        told = f"{options.model} leads to the pool {options.slug}"
        also = [f"{one.pool}{' as a fallback' if one.fallback else ''}" for one in others]
        return f"{', and to '.join([told, *also])}."

    def unname(self, options: Namespace) -> Result:
        aliases.remove(name=options.model, actor=self.actor, why=options.why)
        return f"{options.model} is no model any more."

    def drain(self, options: Namespace) -> Result:
        return self._switch(options, ReplicaSetting.DRAINING)

    def disable(self, options: Namespace) -> Result:
        return self._switch(options, ReplicaSetting.DISABLED)

    def enable(self, options: Namespace) -> Result:
        return self._switch(options, ReplicaSetting.ENABLED)

    def _assign(
        self,
        name: str,
        upstream: str,
        options: Namespace,
        weight: int = 1,
        others: Sequence[aliases.Other] = (),
    ) -> None:
        aliases.assign(
            name=name,
            pool=options.slug,
            upstream_model=upstream,
            weight=weight,
            others=others,
            actor=self.actor,
            why=options.why,
        )

    def _switch(self, options: Namespace, state: ReplicaSetting) -> Result:
        slug = options.slug
        changed = pools.switch(slug=slug, state=state, actor=self.actor, why=options.why)
        return f"{changed} replicas of {slug} are {state} now."


def _slug(parser: CommandParser) -> None:
    parser.add_argument("slug", metavar="POOL")


def _slug_and_why(parser: CommandParser) -> None:
    _slug(parser)
    add_why(parser)


def _create_arguments(parser: CommandParser) -> None:
    _change_arguments(parser)
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME[=UPSTREAM]",
        help="a model name that callers use, and what the replicas call it",
    )


def _change_arguments(parser: CommandParser) -> None:
    _slug_and_why(parser)
    parser.add_argument("--routing", choices=sorted(ROUTING_POLICIES))
    for kind in ("input", "cached", "output"):
        text = f"microcredits per million {kind} tokens"
        parser.add_argument(f"--{kind}-per-mtok", type=int, help=text)
    parser.add_argument("--context-tokens", type=int, help="0: unknown")
    parser.add_argument("--endpoint", dest="endpoints", action="append", choices=ENDPOINTS)
    parser.add_argument("--capability", dest="capabilities", action="append", choices=CAPABILITIES)
    parser.add_argument("--ttft-objective-s", type=float)
    parser.add_argument("--tpot-objective-s", type=float)


def _name_arguments(parser: CommandParser) -> None:
    _slug_and_why(parser)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--upstream-model", default="", help="what the replicas call it")
    parser.add_argument("--weight", type=int, default=1, help="this pool's part of the calls")
    target = "POOL[=UPSTREAM][*WEIGHT]"
    also, fallback = "one more pool that answers to it", "only when no other can serve"
    parser.add_argument("--also", action="append", metavar=target, help=also)
    parser.add_argument("--fallback", action="append", metavar="POOL[=UPSTREAM]", help=fallback)


def _target(text: str) -> aliases.Other:
    """Raises CommandError."""
    rest, star, weight = text.partition("*")
    pool, _, upstream = rest.partition("=")
    if star and not weight.isdecimal():
        raise CommandError(f"{text}: after the * comes a whole number, its part of the calls.")
    return aliases.Other(pool, upstream, int(weight) if star else 1)


def _unname_arguments(parser: CommandParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    add_why(parser)


def _details(slug: str) -> dict[str, Any]:
    return shown(selectors.pool(slug))


def shown(row: Pool) -> dict[str, Any]:
    return {
        "slug": row.slug,
        **PoolTerms.of(row).columns(),
        "models": [alias.name for alias in row.aliases.all()],
        "replicas": [f"{replica.slug} ({replica.state})" for replica in row.replicas.all()],
    }
