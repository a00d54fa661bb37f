"""How does a worker prove, for one line of a batch, on whose behalf it calls?

``fwi-<claims>.<signature>``: claims as base64url JSON, HMAC-SHA-256 under a key derived from the
server secret. Lives 60 s from minting (wall clock). It names tenant, key, class, batch and line, so
that the gateway meters the call exactly as if the key itself had made it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

import msgspec

PREFIX = "fwi-"
LIFETIME_S = 60.0
_SKEW_S = 5.0


class Claims(msgspec.Struct, frozen=True):
    tenant: str
    key_id: str
    klass: str
    batch_id: str
    line_no: int
    expires_at: float = 0.0  # Unix epoch; set by ``mint``


class InvalidToken(Exception):
    """Malformed, forged or expired."""


def mint(secret: bytes, claims: Claims, now_at: float) -> str:
    stamped = msgspec.structs.replace(claims, expires_at=now_at + LIFETIME_S)
    payload = base64.urlsafe_b64encode(msgspec.json.encode(stamped)).rstrip(b"=")
    return f"{PREFIX}{payload.decode()}.{_signature(secret, payload)}"


def verify(secret: bytes, token: str, now_at: float) -> Claims:
    """Raises InvalidToken."""
    payload, dot, signature = token.removeprefix(PREFIX).encode().partition(b".")
    if not dot or not token.startswith(PREFIX):
        raise InvalidToken("malformed")
    if not hmac.compare_digest(_signature(secret, payload).encode(), signature):
        raise InvalidToken("bad signature")
    try:
        claims = msgspec.json.decode(_unpadded(payload), type=Claims)
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise InvalidToken("malformed") from error
    if not now_at <= claims.expires_at <= now_at + LIFETIME_S + _SKEW_S:
        raise InvalidToken("expired")
    return claims


def _unpadded(payload: bytes) -> bytes:
    return base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4))


def _signature(secret: bytes, payload: bytes) -> str:
    key = hashlib.sha256(b"fairway internal token\0" + secret).digest()
    digest = hmac.new(key, payload, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
