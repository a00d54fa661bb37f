"""``manage.py tenant``: organizations, their limits, members and credit."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from gateway.core.limits.limit import ANY, LIMIT_CLASSES, METERS, ONLINE, Limit
from gateway.core.priority import PriorityClass
from tenants.errors import Invalid
from tenants.management.command_line import Result, SubCommands, add_why
from tenants.models import AuditEntry, Organization, Role
from tenants.selectors import organizations as select
from tenants.selectors.credit import credit_of
from tenants.selectors.limits import effective_limits
from tenants.services import credit, limits, members, organizations
from tenants.services.transactions import transactional

CLASSES = [member.label for member in PriorityClass]


class Command(SubCommands):
    help = "Create, list, show, change, disable and enable tenants."
    noun = "tenant"

    def define(self) -> None:
        self.add("create", self.create, "Make a tenant.", _create_arguments)
        self.add("list", self.list, "List tenants.", lambda parser: None)
        self.add("show", self.show, "Show a tenant with what applies to it.", _slug)
        self.add("change", self.change, "Change what is named.", _change_arguments)
        self.add("disable", self.disable, "Suspend: refuse every new call.", _slug_and_why)
        self.add("enable", self.enable, "End a suspension.", _slug_and_why)
        self.add("limit", self.limit, "Set a limit, or clear it.", _limit_arguments)
        self.add("member", self.member, "Add a member, or set the role.", _member_arguments)
        self.add("grant", self.grant, "Grant credit.", _grant_arguments)

    def create(self, options: Namespace) -> Result:
        row = organizations.create(
            name=options.name,
            slug=options.slug,
            plan=options.plan,
            weight=options.weight,
            highest_class=options.highest_class,
            limits=tuple(_named_limits(options)),
            actor=self.actor,
            why=options.why,
        )
        return _details(row.slug)

    def list(self, options: Namespace) -> Result:
        return [_summary(row) for row in select.organizations()]

    def show(self, options: Namespace) -> Result:
        return _details(options.tenant)

    @transactional
    def change(self, options: Namespace) -> Result:
        """All of it or nothing."""
        slug, why = options.tenant, options.why
        changes: Sequence[tuple[Any, Callable[..., AuditEntry], str]] = [
            (options.name, organizations.rename, "name"),
            (options.plan, organizations.set_plan, "plan"),
            (options.weight, organizations.set_weight, "weight"),
            (options.highest_class, organizations.set_highest_class, "highest_class"),
        ]
        named = [(value, service, name) for value, service, name in changes if value is not None]
        new_limits = tuple(_named_limits(options))
        if not named and not new_limits:
            raise Invalid("Nothing to change.", next_step="Name what, such as --weight 2.")
        for value, service, name in named:
            service(slug=slug, actor=self.actor, why=why, **{name: value})
        for limit in new_limits:
            limits.set_limit(slug=slug, limit=limit, actor=self.actor, why=why)
        return _details(slug)

    def disable(self, options: Namespace) -> Result:
        organizations.suspend(slug=options.tenant, actor=self.actor, why=options.why)
        return _details(options.tenant)

    def enable(self, options: Namespace) -> Result:
        organizations.resume(slug=options.tenant, actor=self.actor, why=options.why)
        return _details(options.tenant)

    def limit(self, options: Namespace) -> Result:
        place = {"pool": options.pool, "klass": options.limit_class}
        owner: dict[str, Any] = {"slug": options.tenant, "key_id": options.key}
        if options.clear:
            limits.clear_limit(
                meter=options.meter, actor=self.actor, why=options.why, **owner, **place
            )
        elif options.amount is None:
            raise Invalid("No amount.", next_step="Give one, or --clear.")
        else:
            limit = Limit(options.meter, options.amount, burst=options.burst, **place)
            limits.set_limit(limit=limit, actor=self.actor, why=options.why, **owner)
        return _details(options.tenant)

    def member(self, options: Namespace) -> Result:
        slug, username, role = options.tenant, options.username, options.role
        if select.members_of(slug).filter(user__username=username).exists():
            members.set_role(slug=slug, username=username, role=role, actor=self.actor)
            return {"tenant": slug, "username": username, "role": role, "password": None}
        account = members.add(slug=slug, username=username, role=role, actor=self.actor)
        return {"tenant": slug, "username": username, "role": role, "password": account.password}

    def grant(self, options: Namespace) -> Result:
        credit.grant(
            slug=options.tenant,
            amount_microcredits=options.microcredits,
            actor=self.actor,
            why=options.why,
        )
        state = credit_of(options.tenant)
        return {"tenant": options.tenant, **(asdict(state) if state else {})}


def _slug(parser: CommandParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="its slug")


def _slug_and_why(parser: CommandParser) -> None:
    _slug(parser)
    add_why(parser)


def _terms(parser: CommandParser) -> None:
    parser.add_argument("--plan")
    parser.add_argument("--weight", type=float, help="share of capacity relative to others")
    parser.add_argument("--class", dest="highest_class", choices=CLASSES, help="highest allowed")
    parser.add_argument("--tpm", type=float, help="tokens per minute, interactive and standard")
    parser.add_argument("--rpm", type=float, help="calls per minute, interactive and standard")
    parser.add_argument("--concurrency", type=float, help="calls at once, both classes")
    add_why(parser)


def _create_arguments(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--slug", help="made from the name where it is left out")
    _terms(parser)


def _change_arguments(parser: CommandParser) -> None:
    _slug(parser)
    parser.add_argument("--name")
    _terms(parser)


def _limit_arguments(parser: CommandParser) -> None:
    _slug_and_why(parser)
    parser.add_argument("meter", choices=METERS)
    parser.add_argument("amount", nargs="?", type=float)
    parser.add_argument("--clear", action="store_true", help="back to the plan's limit")
    parser.add_argument("--burst", type=float)
    parser.add_argument("--pool", default=ANY)
    parser.add_argument("--class", dest="limit_class", choices=LIMIT_CLASSES, default=ANY)
    parser.add_argument("--key", metavar="KEY_ID", help="of this key instead of the tenant")


def _member_arguments(parser: CommandParser) -> None:
    _slug(parser)
    parser.add_argument("username")
    parser.add_argument("--role", choices=Role.values, default=Role.MEMBER.value)


def _grant_arguments(parser: CommandParser) -> None:
    _slug_and_why(parser)
    parser.add_argument("microcredits", type=int)


def _named_limits(options: Namespace) -> Iterator[Limit]:
    amounts = {"tpm": options.tpm, "rpm": options.rpm, "concurrent": options.concurrency}
    for meter, amount in amounts.items():
        if amount is not None:
            yield Limit(meter, amount, klass=ONLINE)


def _summary(row: Organization) -> dict[str, Any]:
    return {
        "slug": row.slug,
        "name": row.name,
        "plan": row.plan.slug,
        "weight": row.weight,
        "highest_class": PriorityClass(row.highest_class).label,
        "suspended": row.suspended,
    }


def _details(slug: str) -> dict[str, Any]:
    shown = [asdict(one.limit) | {"source": one.source} for one in effective_limits(slug)]
    state = credit_of(slug)
    return _summary(select.organization(slug)) | {
        "version": select.organization(slug).version,
        "limits": shown,
        "credit": asdict(state) if state else None,
    }
