"""Pools, their models and policy parameters. Operators only."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Status

from gateway import selectors
from gateway.control.access import operator_of
from gateway.control.live import live_pools
from gateway.control.schemas import (
    ModelBody,
    ModelShown,
    ParameterBody,
    ParameterShown,
    PoolBody,
    PoolChange,
    PoolLive,
    PoolShown,
)
from gateway.core.events import PoolSecond
from gateway.models import Alias, Pool
from gateway.services import aliases, parameters, pools
from gateway.services.terms import PoolTerms
from gateway.snapshot.parameters import PARAMETERS
from tenants.control import rendering
from tenants.control.access import new_router
from tenants.control.schemas import AuditShown, answers

router = new_router("pools")
AUDITED = answers(AuditShown)
Reason = Annotated[str, Query(max_length=500)]


@router.get("/pools", response=answers(list[PoolShown]))
def list_pools(request: HttpRequest) -> list[PoolShown]:
    operator_of(request)
    live = live_pools(request)
    return [shown(row, live.get(row.slug)) for row in selectors.pools()]


@router.post("/pools", response=answers(PoolShown, status=201))
def create_pool(request: HttpRequest, body: PoolBody) -> Status[PoolShown]:
    """It serves nothing until it has a model name and a replica."""
    operator = operator_of(request)
    terms = PoolTerms(**given(body))
    pools.create(slug=body.slug, terms=terms, actor=operator.actor, why=body.why)
    return Status(201, shown(selectors.pool(body.slug), None))


@router.get("/pools/{slug}", response=answers(PoolShown))
def show_pool(request: HttpRequest, slug: str) -> PoolShown:
    operator_of(request)
    return shown(selectors.pool(slug), live_pools(request).get(slug))


@router.patch("/pools/{slug}", response=AUDITED)
def change_pool(request: HttpRequest, slug: str, body: PoolChange) -> AuditShown:
    """Queued calls stay queued."""
    actor = operator_of(request).actor
    entry = pools.change(slug=slug, changes=given(body), actor=actor, why=body.why)
    return rendering.audit(entry)


@router.delete("/pools/{slug}", response=AUDITED)
def remove_pool(request: HttpRequest, slug: str, why: Reason = "") -> AuditShown:
    """Refused while a replica or a model name refers to it."""
    actor = operator_of(request).actor
    return rendering.audit(pools.remove(slug=slug, actor=actor, why=why))


@router.put("/pools/{slug}/models", response=answers(ModelShown))
def assign_model(request: HttpRequest, slug: str, body: ModelBody) -> ModelShown:
    """Lets a model name lead to the pool; a name of another pool moves."""
    row = aliases.assign(
        name=body.name,
        pool=slug,
        upstream_model=body.upstream_model or "",
        weight=body.weight,
        others=[
            aliases.Other(other.pool, other.upstream_model or "", other.weight, other.fallback)
            for other in body.others
        ],
        actor=operator_of(request).actor,
        why=body.why,
    )
    return _model(row)


@router.delete("/models", response=AUDITED)
def remove_model(request: HttpRequest, name: str, why: Reason = "") -> AuditShown:
    actor = operator_of(request).actor
    return rendering.audit(aliases.remove(name=name, actor=actor, why=why))


@router.get("/parameters", response=answers(list[ParameterShown]))
def list_parameters(request: HttpRequest) -> list[ParameterShown]:
    """Numbers of the policies that can be changed while the gateway runs."""
    operator_of(request)
    rows = tuple(selectors.parameters())
    return [
        ParameterShown(
            **asdict(known), values={row.pool: row.value for row in rows if row.name == known.name}
        )
        for known in PARAMETERS.values()
    ]


@router.put("/parameters/{name}", response=AUDITED)
def set_parameter(request: HttpRequest, name: str, body: ParameterBody) -> AuditShown:
    actor = operator_of(request).actor
    entry = parameters.set_value(
        name=name, value=body.value, pool=body.pool, actor=actor, why=body.why
    )
    return rendering.audit(entry)


@router.delete("/parameters/{name}", response=AUDITED)
def clear_parameter(
    request: HttpRequest, name: str, pool: str = "*", why: Reason = ""
) -> AuditShown:
    """Back to the default."""
    actor = operator_of(request).actor
    return rendering.audit(parameters.clear(name=name, pool=pool, actor=actor, why=why))


def shown(row: Pool, live: PoolSecond | None) -> PoolShown:
    return PoolShown(
        slug=row.slug,
        **PoolTerms.of(row).columns(),
        models=[_model(alias) for alias in row.aliases.all()],
        replicas=[replica.slug for replica in row.replicas.all()],
        live=None if live is None else _live(live),
    )


def given(body: PoolChange) -> dict[str, Any]:
    """The terms that the body names; null takes an objective away."""
    names = set(PoolTerms.__slots__) & body.model_fields_set
    values = {name: getattr(body, name) for name in names}
    return {
        name: value
        for name, value in values.items()
        if value is not None or name.endswith("objective_s")
    }


def _live(second: PoolSecond) -> PoolLive:
    return PoolLive(
        queued={klass.label: calls for klass, calls in second.queued.items()},
        in_flight=second.in_flight,
        slots=second.slots,
        oldest_wait_s=second.oldest_wait_s,
    )


def _model(row: Alias) -> ModelShown:
    return ModelShown(**aliases.shown(row))
