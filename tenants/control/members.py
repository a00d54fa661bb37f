"""Members of a tenant: read, add, set the role, remove."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Status

from tenants.control import rendering
from tenants.control.access import new_router, principal_of
from tenants.control.schemas import (
    AuditShown,
    MemberAdded,
    MemberBody,
    MemberShown,
    RoleBody,
    answers,
)
from tenants.permissions import Action, require
from tenants.selectors import organizations as select
from tenants.services import members

router = new_router("members")
MEMBERS = "/tenants/{slug}/members"
MEMBER = MEMBERS + "/{username}"
AUDITED = answers(AuditShown)


@router.get(MEMBERS, response=answers(list[MemberShown]))
def list_members(request: HttpRequest, slug: str) -> list[MemberShown]:
    require(principal_of(request), Action.VIEW, slug)
    return [rendering.member(row) for row in select.members_of(slug)]


@router.post(MEMBERS, response=answers(MemberAdded, status=201))
def add_member(request: HttpRequest, slug: str, body: MemberBody) -> Status[MemberAdded]:
    """Makes an account; its password is in the answer, this once. One that exists already, only
    operators may add."""
    principal = principal_of(request)
    require(principal, Action.MANAGE_MEMBERS, slug)
    account = members.add(
        slug=slug, actor=principal.actor, may_exist=principal.operator, **body.dict()
    )
    shown = rendering.member(select.member(slug, account.username))
    return Status(201, MemberAdded(password=account.password, **shown.dict()))


@router.patch(MEMBER, response=AUDITED)
def set_role(request: HttpRequest, slug: str, username: str, body: RoleBody) -> AuditShown:
    principal = principal_of(request)
    require(principal, Action.MANAGE_MEMBERS, slug)
    return rendering.audit(
        members.set_role(slug=slug, username=username, actor=principal.actor, **body.dict())
    )


@router.delete(MEMBER, response=AUDITED)
def remove_member(request: HttpRequest, slug: str, username: str) -> AuditShown:
    """The account stays."""
    principal = principal_of(request)
    require(principal, Action.MANAGE_MEMBERS, slug)
    return rendering.audit(members.remove(slug=slug, username=username, actor=principal.actor))
