"""Replicas: add, change, drain, disable, enable, remove. Operators only."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Status

from gateway import selectors
from gateway.control.access import operator_of
from gateway.control.live import live_replicas
from gateway.control.schemas import ReplicaBody, ReplicaChange, ReplicaLive, ReplicaShown
from gateway.core.events import ReplicaSecond
from gateway.models import Replica
from gateway.services import replicas
from gateway.services.terms import ReplicaTerms
from tenants.control import rendering
from tenants.control.access import new_router
from tenants.control.schemas import AuditShown, WhyNot, answers

router = new_router("replicas")
AUDITED = answers(AuditShown)
Reason = Annotated[str, Query(max_length=500)]


@router.get("/replicas", response=answers(list[ReplicaShown]))
def list_replicas(request: HttpRequest, pool: str | None = None) -> list[ReplicaShown]:
    operator_of(request)
    live = live_replicas(request)
    return [shown(row, live.get(row.slug)) for row in selectors.replicas(of_pool=pool)]


@router.post("/replicas", response=answers(ReplicaShown, status=201))
def create_replica(request: HttpRequest, body: ReplicaBody) -> Status[ReplicaShown]:
    """It gets calls once its first probe succeeds."""
    row = replicas.create(
        slug=body.slug,
        pool=body.pool,
        terms=ReplicaTerms(**given(body)),
        api_key=body.api_key or "",
        actor=operator_of(request).actor,
        why=body.why,
    )
    return Status(201, shown(row, None))


@router.get("/replicas/{slug}", response=answers(ReplicaShown))
def show_replica(request: HttpRequest, slug: str) -> ReplicaShown:
    operator_of(request)
    return shown(selectors.replica(slug), live_replicas(request).get(slug))


@router.patch("/replicas/{slug}", response=AUDITED)
def change_replica(request: HttpRequest, slug: str, body: ReplicaChange) -> AuditShown:
    actor = operator_of(request).actor
    entry = replicas.change(
        slug=slug, changes=given(body), api_key=body.api_key, actor=actor, why=body.why
    )
    return rendering.audit(entry)


@router.post("/replicas/{slug}/drain", response=AUDITED)
def drain_replica(request: HttpRequest, slug: str, body: WhyNot) -> AuditShown:
    """It finishes its calls and gets no new ones."""
    actor = operator_of(request).actor
    return rendering.audit(replicas.drain(slug=slug, actor=actor, why=body.why))


@router.post("/replicas/{slug}/disable", response=AUDITED)
def disable_replica(request: HttpRequest, slug: str, body: WhyNot) -> AuditShown:
    """No new calls, no probes."""
    actor = operator_of(request).actor
    return rendering.audit(replicas.disable(slug=slug, actor=actor, why=body.why))


@router.post("/replicas/{slug}/enable", response=AUDITED)
def enable_replica(request: HttpRequest, slug: str, body: WhyNot) -> AuditShown:
    actor = operator_of(request).actor
    return rendering.audit(replicas.enable(slug=slug, actor=actor, why=body.why))


@router.delete("/replicas/{slug}", response=AUDITED)
def remove_replica(request: HttpRequest, slug: str, why: Reason = "") -> AuditShown:
    """Its calls in flight finish."""
    actor = operator_of(request).actor
    return rendering.audit(replicas.remove(slug=slug, actor=actor, why=why))


def shown(row: Replica, live: ReplicaSecond | None) -> ReplicaShown:
    names = ReplicaLive.model_fields
    now = None if live is None else ReplicaLive(**{name: getattr(live, name) for name in names})
    return ReplicaShown(slug=row.slug, **replicas.shown(row), live=now)


def given(body: ReplicaChange) -> dict[str, Any]:
    """The terms that the body names."""
    names = set(ReplicaTerms.__slots__) & body.model_fields_set
    return {name: value for name in names if (value := getattr(body, name)) is not None}
