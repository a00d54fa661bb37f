"""What does the first installation hold? Pools with their replicas, tenants with a key each, an
operator. Runs again at every start: what is there stays, what differs is changed, keys and
passwords that still work are kept, all through the services that pages and commands use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model

from gateway import selectors as fleet
from gateway.replicas.adapters import adapter_of
from gateway.services import aliases, pools, replicas
from gateway.services.terms import PoolTerms, ReplicaTerms
from tenants import key_format
from tenants.actors import Actor
from tenants.errors import NotFound
from tenants.key_terms import KeyTerms
from tenants.models import Role
from tenants.selectors import keys as key_rows
from tenants.selectors import organizations as tenant_rows
from tenants.selectors import people
from tenants.services import accounts, keys, members, operators, organizations

ACTOR = Actor.command("prepare_demo")
WHY = "first installation"
OPERATOR = "olga"
GENERATING = ("chat/completions", "completions", "responses", "messages")
PRICED = PoolTerms(
    input_per_mtok=200_000,
    cached_per_mtok=50_000,
    output_per_mtok=600_000,
    capabilities=("tools", "structured_output", "logprobs"),  # of text, no pictures
)


@dataclass(frozen=True, slots=True)
class DemoTenant:
    name: str
    slug: str
    plan: str
    default_class: str = "standard"


TENANTS = (
    DemoTenant("Acme", "acme", "team", "interactive"),
    DemoTenant("Heavy Labs", "heavy-labs", "enterprise", "batch"),
    DemoTenant("Bursty Bikes", "bursty-bikes", "free"),
    DemoTenant("Prefix Press", "prefix-press", "team"),
    DemoTenant("Date Desk", "date-desk", "team"),
)


def seed(wish: Mapping[str, Any]) -> dict[str, Any]:
    """``wish`` has base_url, pools and the earlier run's facts as ``known``; the result is what
    ``var/run.json`` holds."""
    for pool in wish["pools"]:
        _pool(pool)
    slugs = [server["slug"] for pool in wish["pools"] for server in pool["servers"]]
    _forget(set(wish["known"].get("replicas", ())) - set(slugs))
    known = {tenant["slug"]: tenant for tenant in wish["known"].get("tenants", ())}
    models = [pool["model"] for pool in wish["pools"]]
    return {
        "base_url": wish["base_url"],
        "openai_base_url": f"{wish['base_url']}/v1",
        "operator": _operator(wish["known"].get("operator", {})),
        "tenants": [_tenant(tenant, known.get(tenant.slug, {})) for tenant in TENANTS],
        "model": next(iter(models), ""),
        "models": models,
        "replicas": slugs,
    }


def _pool(wish: Mapping[str, Any]) -> None:
    slug = wish["slug"]
    wished = {"context_tokens": wish["context_tokens"], "endpoints": _endpoints(wish["servers"])}
    try:
        row = fleet.pool(slug)
    except NotFound:
        terms = replace(PRICED, **wished)
        row = pools.create(slug=slug, terms=terms, actor=ACTOR, why=WHY)
    missing = [endpoint for endpoint in wished["endpoints"] if endpoint not in row.endpoints]
    wished["endpoints"] = (*row.endpoints, *missing)
    if missing or row.context_tokens != wished["context_tokens"]:
        pools.change(slug=slug, changes=wished, actor=ACTOR, why=WHY)
    _alias(slug, wish["model"], wish["upstream_model"])
    for server in wish["servers"]:
        _replica(slug, server)


def _endpoints(servers: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Those that every server of a pool has."""
    kinds = [adapter_of(server["kind"]).endpoints for server in servers]
    return tuple(name for name in GENERATING if all(name in kind for kind in kinds))


def _alias(pool: str, name: str, upstream_model: str) -> None:
    try:
        row = fleet.alias(name)
    except NotFound:
        pass
    else:
        if (row.pool.slug, row.upstream_model) == (pool, upstream_model):
            return
    aliases.assign(name=name, pool=pool, upstream_model=upstream_model, actor=ACTOR, why=WHY)


def _replica(pool: str, wish: Mapping[str, Any]) -> None:
    terms = ReplicaTerms(kind=wish["kind"], base_url=wish["base_url"], slots=wish["slots"])
    try:
        row = fleet.replica(wish["slug"])
    except NotFound:
        replicas.create(slug=wish["slug"], pool=pool, terms=terms, actor=ACTOR, why=WHY)
        return
    now = ReplicaTerms.of(row)
    if (now.kind, now.base_url) != (terms.kind, terms.base_url):
        replicas.change(
            slug=wish["slug"],
            changes={"kind": terms.kind, "base_url": terms.base_url},
            actor=ACTOR,
            why=WHY,
        )


def _forget(gone: set[str]) -> None:
    """Replicas that an earlier run started and this one does not would stay down for ever."""
    for row in list(fleet.replicas().filter(slug__in=gone)):
        replicas.remove(slug=row.slug, actor=ACTOR, why="not part of this run")


def _tenant(wish: DemoTenant, known: Mapping[str, str]) -> dict[str, Any]:
    try:
        tenant_rows.organization(wish.slug)
    except NotFound:
        organizations.create(name=wish.name, slug=wish.slug, plan=wish.plan, actor=ACTOR, why=WHY)
    username = f"{wish.slug}-owner"
    return {
        "name": wish.name,
        "slug": wish.slug,
        "api_key": _key(wish, known.get("api_key", "")),
        "class": wish.default_class,
        **_member(wish.slug, username, known),
    }


def _key(wish: DemoTenant, known: str) -> str:
    """The key of the earlier run, or a new one where that one is absent or no longer works."""
    if known and _works(wish.slug, known):
        return known
    terms = KeyTerms(
        label="demo",
        scopes=("inference", "batch", "usage", "manage"),
        default_class=wish.default_class,
    )
    return keys.create(slug=wish.slug, terms=terms, actor=ACTOR, why=WHY).secret


def _works(slug: str, secret: str) -> bool:
    try:
        row = key_rows.key(slug, key_format.parse(secret) or "")
    except NotFound:
        return False
    digest = key_format.digest(secret, settings.FAIRWAY_TENANTS.key_pepper)
    return row.enabled and bytes(row.digest) == digest and row.expires_at is None


def _member(slug: str, username: str, known: Mapping[str, str]) -> dict[str, str]:
    try:
        tenant_rows.member(slug, username)
    except NotFound:
        made = members.add(slug=slug, username=username, role=Role.OWNER, actor=ACTOR, why=WHY)
        if made.password is not None:
            return _login(username, made.password)
    return _kept_login(username, known)


def _operator(known: Mapping[str, str]) -> dict[str, str]:
    try:
        people.operator(OPERATOR)
    except NotFound:
        made = operators.create(username=OPERATOR, actor=ACTOR, why=WHY)
        if made.password is not None:
            return _login(OPERATOR, made.password)
    return _kept_login(OPERATOR, known)


def _kept_login(username: str, known: Mapping[str, str]) -> dict[str, str]:
    """The known password while it is the account's, else a new one."""
    if known.get("password") and known.get("stamp") == _stamp(username):
        return _login(username, known["password"])
    made = accounts.reset_password(username=username, actor=ACTOR, why=WHY)
    assert made.password is not None
    return _login(username, made.password)


def _login(username: str, password: str) -> dict[str, str]:
    return {"username": username, "password": password, "stamp": _stamp(username)}


def _stamp(username: str) -> str:
    """Changes with the password; comparing it costs nothing, checking a password a second."""
    stored = get_user_model().objects.values_list("password", flat=True).get(username=username)
    return hashlib.sha256(stored.encode()).hexdigest()[:16]
