"""Who may do what? One matrix, used by the control API and by pages.

A principal is an operator, a member of some tenants, or a management key of one tenant. Towards a
tenant it has nothing to do with, everything is NotFound, as if the tenant did not exist; towards
its own, what the role may not do is NotAllowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tenants.actors import Actor
from tenants.errors import NotAllowed, NotFound
from tenants.wording import printable


class As(StrEnum):
    """What a principal is towards one tenant."""

    OPERATOR = "operator"
    OWNER = "owner"
    MEMBER = "member"
    VIEWER = "viewer"
    KEY = "key"


class Action(StrEnum):
    VIEW = "view"
    VIEW_AUDIT = "view the audit trail"
    MANAGE_KEYS = "manage keys"
    MANAGE_MANAGEMENT_KEYS = "manage management keys"
    SET_KEY_LIMITS = "set limits of keys"
    MANAGE_MEMBERS = "manage members"
    RENAME = "rename"
    OPERATE = "change what the tenant is granted"


_ALL = frozenset(As)
_OWNERS = frozenset({As.OPERATOR, As.OWNER})
ALLOWED: dict[Action, frozenset[As]] = {
    Action.VIEW: _ALL,
    Action.VIEW_AUDIT: _OWNERS | {As.KEY},
    Action.MANAGE_KEYS: _OWNERS | {As.MEMBER, As.KEY},
    Action.MANAGE_MANAGEMENT_KEYS: _OWNERS,
    Action.SET_KEY_LIMITS: _OWNERS | {As.KEY},
    Action.MANAGE_MEMBERS: _OWNERS,
    Action.RENAME: _OWNERS | {As.KEY},
    Action.OPERATE: frozenset({As.OPERATOR}),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """``roles``: tenant slug to what the principal is there, besides being an operator or not."""

    actor: Actor
    roles: Mapping[str, As]
    operator: bool = False

    def role_in(self, slug: str) -> As | None:
        return As.OPERATOR if self.operator else self.roles.get(slug)

    def may(self, action: Action, slug: str) -> bool:
        role = self.role_in(slug)
        return role is not None and role in ALLOWED[action]


def require(principal: Principal, action: Action, slug: str) -> None:
    """Raises NotFound for a foreign tenant, NotAllowed for a role that may not."""
    role = principal.role_in(slug)
    if role is None:
        raise NotFound(f"There is no tenant {printable(slug)}.", next_step="Check the name.")
    if role not in ALLOWED[action]:
        able = ", ".join(sorted(ALLOWED[action]))
        article = "An" if role in _OWNERS else "A"
        raise NotAllowed(f"{article} {role} may not {action}.", next_step=f"These may: {able}.")


def require_operator(principal: Principal) -> None:
    """Raises NotAllowed."""
    if not principal.operator:
        raise NotAllowed("Only operators may do this.", next_step="Ask an operator.")
