"""Writes of a tenant's members: add, set the role, remove.

Keyword-only; each is one transaction and leaves one audit row. A tenant keeps its last owner.
"""

from __future__ import annotations

from tenants.actors import Actor
from tenants.errors import AlreadyExists, Invalid, Stale
from tenants.models import AuditEntry, Member, Role
from tenants.selectors import organizations as select
from tenants.services import audit, versions
from tenants.services.accounts import Account, find_or_make
from tenants.services.transactions import transactional
from tenants.wording import printable


@transactional
def add(
    *,
    slug: str,
    username: str,
    role: str,
    actor: Actor,
    password: str | None = None,
    why: str = "",
    may_exist: bool = True,
) -> Account:
    """Makes the account where there is none of that name. ``may_exist``: false for who may not put
    people of other organizations into this one, which would then be what they see."""
    versions.bump()
    row = select.organization(slug)
    known_role = _clean_role(role)
    user, made_up = find_or_make(username, password)
    if _is_member(user.pk, slug):
        raise AlreadyExists(
            f"{username} is a member of {slug} already.", next_step="Change the role instead."
        )
    if made_up is None and not may_exist:
        raise AlreadyExists(
            f"The account {username} exists already; only operators add it here.",
            next_step="Take another name, or ask an operator.",
            field="username",
        )
    created = Member.objects.create(organization=row, user=user, role=known_role)
    _record("add", created, None, {"role": known_role}, actor, why)
    return Account(username, made_up)


@transactional
def set_role(*, slug: str, username: str, role: str, actor: Actor, why: str = "") -> AuditEntry:
    versions.bump()
    row = select.member(slug, username)
    before, row.role = row.role, _clean_role(role)
    row.save(update_fields=("role",))
    if before == Role.OWNER:
        _keep_an_owner(slug)
    return _record("set_role", row, {"role": before}, {"role": row.role}, actor, why)


@transactional
def remove(*, slug: str, username: str, actor: Actor, why: str = "") -> AuditEntry:
    """The account stays."""
    versions.bump()
    row = select.member(slug, username)
    row.delete()
    if row.role == Role.OWNER:
        _keep_an_owner(slug)
    return _record("remove", row, {"role": row.role}, None, actor, why)


def _is_member(user_id: int, slug: str) -> bool:
    return Member.objects.filter(organization__slug=slug, user=user_id).exists()


def _clean_role(role: str) -> str:
    if role not in Role.values:
        raise Invalid(
            f"There is no role {printable(role)}.",
            next_step=f"Known: {', '.join(Role.values)}.",
            field="role",
        )
    return role


def _keep_an_owner(slug: str) -> None:
    if not Member.objects.filter(organization__slug=slug, role=Role.OWNER).exists():
        raise Stale(f"{slug} would have no owner.", next_step="Make somebody else owner first.")


def _record(
    verb: str,
    row: Member,
    before: dict[str, str] | None,
    after: dict[str, str] | None,
    actor: Actor,
    why: str,
) -> AuditEntry:
    return audit.record(
        actor=actor,
        action=f"member.{verb}",
        target=f"member:{row.user.username}",
        tenant=row.organization.slug,
        before=before,
        after=after,
        why=why,
    )
