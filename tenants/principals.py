"""Who is this? A signed-in account or a management key becomes a principal.

The key's row is read from the database: the control API is not the hot path. A secret that is
malformed reads nothing.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime

from tenants import key_format
from tenants.actors import Actor
from tenants.errors import NotAllowed
from tenants.models import ApiKey, Scope
from tenants.permissions import As, Principal
from tenants.selectors.people import is_operator, roles_of


def of_account(user_id: int, username: str, *, address: str = "") -> Principal:
    """An account without a role gets a principal that may see nothing."""
    roles = {slug: As(role) for slug, role in roles_of(user_id).items()}
    return Principal(Actor.user(username, address), roles, operator=is_operator(user_id))


def of_key(secret: str, *, pepper: bytes, address: str, now: datetime) -> Principal | None:
    """None for a key that is not valid now; NotAllowed for one that lacks the scope or network."""
    row = valid_key(secret, pepper=pepper, now=now)
    if row is None:
        return None
    if Scope.MANAGE not in row.scopes:
        raise NotAllowed(
            "The key lacks the scope manage.", next_step="Create a key that has it and use that."
        )
    if row.organization.suspended:
        raise NotAllowed("The organization is suspended.", next_step="Ask an operator.")
    if not in_networks(address, row.allowed_networks):
        raise NotAllowed("The key may not be used from this address.", next_step="Use another.")
    return Principal(Actor.key(row.key_id, address), {row.organization.slug: As.KEY})


def valid_key(secret: str, *, pepper: bytes, now: datetime) -> ApiKey | None:
    """The row of a well-formed, known, enabled and unexpired key."""
    key_id = key_format.parse(secret)
    if key_id is None:
        return None
    row = ApiKey.objects.select_related("organization").filter(key_id=key_id).first()
    if row is None or not key_format.matches(secret, pepper, bytes(row.digest)):
        return None
    expired = row.expires_at is not None and now >= row.expires_at
    return row if row.enabled and not expired else None


def in_networks(address: str, networks: list[str]) -> bool:
    """No networks: any address. An address that cannot be read is in none."""
    if not networks:
        return True
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in ipaddress.ip_network(network) for network in networks)
