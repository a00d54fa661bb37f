"""Who calls? Key or internal token to principal, from the snapshot alone: no I/O, no database.

Identity comes from ``Authorization: Bearer`` or ``x-api-key`` and from nothing else. Every failure
to identify says the same words, so that a prober learns nothing about which keys exist. Wrong keys
are counted by address; a genuine one that is disabled or expired is not.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from gateway.core.bad_keys import BadKeys
from gateway.core.clock import Clock
from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.internal_token import PREFIX, InvalidToken, verify
from gateway.snapshot.values import Snapshot
from tenants import key_format
from tenants.snapshot import KeyValue, TenantValue

MOST_PRINCIPALS = 10_000


@dataclass(frozen=True, slots=True)
class BatchLine:
    batch_id: str
    line_no: int


@dataclass(frozen=True, slots=True)
class Principal:
    """``highest_class`` is the best class this caller may get, ``default_class`` what it gets
    unasked."""

    tenant: TenantValue
    key: KeyValue
    highest_class: PriorityClass
    default_class: PriorityClass
    line: BatchLine | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secrets of the server: ``pepper`` hashes keys, ``signing_secret`` signs internal tokens."""

    pepper: bytes
    signing_secret: bytes


class Authenticator:
    def __init__(self, credentials: Credentials, clock: Clock) -> None:
        self._credentials = credentials
        self._clock = clock
        self._bad_keys = BadKeys()
        self._principals: dict[bytes, Principal] = {}  # by a hash of the secret

    def principal(
        self, headers: Mapping[str, str], snapshot: Snapshot, *, scope: str, peer: str
    ) -> Principal:
        """Who calls, and permitted to. Raises what ``identified`` and ``check_permitted`` raise."""
        found = self.identified(headers, snapshot, peer=peer)
        check_permitted(found, scope=scope, peer=peer)
        return found

    def identified(self, headers: Mapping[str, str], snapshot: Snapshot, *, peer: str) -> Principal:
        """Who calls, permitted to or not. Raises Rejected: INVALID_API_KEY, TOO_MANY_FAILURES."""
        secret = presented_secret(headers)
        if secret.startswith(PREFIX):
            return self._from_token(secret, snapshot)
        fingerprint = sha256(secret.encode()).digest()
        known = self._principals.get(fingerprint)
        if (
            known is not None
            and _unchanged(known, snapshot)
            and known.key.live_at(self._clock.wall())
        ):
            return known
        key = self._known_key(secret, snapshot)
        if key is None:
            raise self._wrong_key(peer) if secret else Rejected(Reason.INVALID_API_KEY)
        if not self._live(key):
            raise Rejected(Reason.INVALID_API_KEY)
        found = self._principals[fingerprint] = self._of_key(key, _tenant(key, snapshot))
        return found

    def _of_key(self, key: KeyValue, tenant: TenantValue) -> Principal:
        """Made once per configuration."""
        if len(self._principals) >= MOST_PRINCIPALS:
            self._principals.clear()
        highest = tenant.highest_class
        return Principal(
            tenant,
            key,
            key.highest_class.clamped_to(highest),
            key.default_class.clamped_to(key.highest_class).clamped_to(highest),
        )

    def _known_key(self, secret: str, snapshot: Snapshot) -> KeyValue | None:
        key_id = key_format.parse(secret)
        key = snapshot.keys.get(key_id) if key_id else None
        if key is None:
            return None
        digest = key_format.digest(secret, self._credentials.pepper)
        return key if hmac.compare_digest(digest, key.digest) else None

    def _wrong_key(self, peer: str) -> Rejected:
        wait_s = self._bad_keys.failed(peer, self._clock.monotonic())
        if wait_s is None:
            return Rejected(Reason.INVALID_API_KEY)
        return Rejected(Reason.TOO_MANY_FAILURES, retry_after_s=wait_s)

    def _live(self, key: KeyValue) -> bool:
        return key.live_at(self._clock.wall())

    def _from_token(self, token: str, snapshot: Snapshot) -> Principal:
        """The key must still be live: revoking it also stops the batches it started."""
        try:
            claims = verify(self._credentials.signing_secret, token, self._clock.wall())
        except InvalidToken:
            raise Rejected(Reason.INVALID_API_KEY) from None
        key = snapshot.keys.get(claims.key_id)
        if key is None or key.tenant != claims.tenant or not self._live(key):
            raise Rejected(Reason.INVALID_API_KEY)
        klass = PriorityClass.parse(claims.klass)
        line = BatchLine(claims.batch_id, claims.line_no)
        return Principal(_tenant(key, snapshot), key, klass, klass, line)


def check_permitted(caller: Principal, *, scope: str, peer: str) -> None:
    """Raises Rejected: SUSPENDED, NOT_PERMITTED (scope or address; a line of a batch, which the
    gateway sends itself, has neither)."""
    key = caller.key
    if caller.tenant.suspended:
        raise Rejected(Reason.SUSPENDED)
    if caller.line is not None:
        return
    if scope not in key.scopes:
        raise Rejected(Reason.NOT_PERMITTED, f"This API key lacks the scope {scope!r}.")
    if key.allowed_networks and not _within(peer, key.allowed_networks):
        raise Rejected(Reason.NOT_PERMITTED, "This API key may not be used from this address.")


def presented_secret(headers: Mapping[str, str]) -> str:
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credential:
        return credential.strip()
    return headers.get("x-api-key", "").strip()


def _unchanged(known: Principal, snapshot: Snapshot) -> bool:
    """Key and tenant are the very objects of this configuration."""
    key, tenant = known.key, known.tenant
    return snapshot.keys.get(key.key_id) is key and snapshot.tenants.get(key.tenant) is tenant


def _tenant(key: KeyValue, snapshot: Snapshot) -> TenantValue:
    tenant = snapshot.tenants.get(key.tenant)
    if tenant is None:
        raise Rejected(Reason.INVALID_API_KEY)
    return tenant


def _within(peer: str, networks: tuple[str, ...]) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return any(address in ipaddress.ip_network(network) for network in networks)
