"""What must not go into production? Well-formed values that would leave a door open.

Under ``FAIRWAY_DEBUG`` the secrets are public, so that such a process serves this machine only;
everything else is judged outside of it. A mistake never repeats a secret.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]", "testserver"})
SECRET_CHARACTERS = 32
PUBLIC_BEGINNINGS = ("for-development-only-", "django-insecure-")
DEVELOPMENT_SECRET = PUBLIC_BEGINNINGS[0] * 2


@dataclass(frozen=True, slots=True)
class Judged:
    """``secrets``: variable -> value."""

    debug: bool
    https: bool
    secrets: Mapping[str, str] = field(repr=False)
    allowed_hosts: tuple[str, ...]
    trusted_origins: tuple[str, ...]
    redis_url: str = field(repr=False)


def unsafe(given: Judged) -> Iterator[str]:
    """``VARIABLE: what is wrong`` for each."""
    yield from _origins(given)
    if given.debug:
        yield from _debug(given)
        return
    for name, secret in given.secrets.items():
        yield from _secret(name, secret)
    if "*" in given.allowed_hosts:
        yield "ALLOWED_HOSTS: '*' accepts forged host names; list the names"
    if given.redis_url and not is_guarded(given.redis_url):
        yield (
            "REDIS_URL: a Redis on another machine needs a password, redis://:password@host:port:"
            " whoever reaches it could set quotas and publish to pages"
        )


def is_guarded(redis_url: str) -> bool:
    """Asks for a password, or is reached from this machine alone."""
    try:
        parts = urlsplit(redis_url)
    except ValueError:
        return False
    if parts.scheme == "unix" or parts.password or parse_qs(parts.query).get("password"):
        return True
    return is_loopback(parts.hostname or "localhost")


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _debug(given: Judged) -> Iterator[str]:
    if foreign := set(given.allowed_hosts) - LOCAL_HOSTS:
        yield f"FAIRWAY_DEBUG: its secrets are public; not with the hosts {sorted(foreign)}"
    if given.https:
        yield "FAIRWAY_DEBUG: its secrets are public; not with FAIRWAY_HTTPS"


def _secret(name: str, secret: str) -> Iterator[str]:
    if len(secret) < SECRET_CHARACTERS:
        yield (
            f"{name}: needs a random value of {SECRET_CHARACTERS} characters or more"
            " (or FAIRWAY_DEBUG=true while developing)"
        )
    elif secret.startswith(PUBLIC_BEGINNINGS):
        yield f"{name}: this value is printed in programs; make a random one"


def _origins(given: Judged) -> Iterator[str]:
    for origin in given.trusted_origins:
        scheme, _, host = origin.partition("://")
        if scheme not in ("http", "https") or not host:
            yield "CSRF_TRUSTED_ORIGINS: each begins with https:// (or http://) and names a host"
        elif host.startswith("*") and host.count(".") < 2:
            yield "CSRF_TRUSTED_ORIGINS: '*' trusts every site; list the origins"
