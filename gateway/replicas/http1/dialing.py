"""Which address does a new connection to a replica go to?

A name is resolved here, each address is checked, and the socket is made for the very address that
was checked: a name that has come to mean an address at which no replica may be leads nowhere.
Proxies of the environment are not used. TLS is verified against the certificates of the system
(OpenSSL's SSL_CERT_FILE and SSL_CERT_DIR name others).

The addresses of a name are tried in order, each with its share of the time that is left. What a
name means is remembered for NAME_S. Units: seconds.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from urllib.parse import urlsplit

from gateway.replicas.http1.connection import Connection
from gateway.services.addresses import is_allowed

NAME_S = 10.0
MOST_NAMES = 1_024
PORTS = {"http": 80, "https": 443}

Resolve = Callable[[str], Awaitable[Sequence[str]]]  # a name -> addresses, best first


@dataclass(frozen=True, slots=True)
class Origin:
    host: str  # a name or an address, without brackets
    port: int
    is_tls: bool
    field: str  # as the Host field says it

    @classmethod
    def of(cls, base_url: str) -> Origin:
        """Raises ValueError."""
        parts = urlsplit(base_url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("the URL of the replica is not one of http or https")
        port = parts.port or PORTS[parts.scheme]
        return cls(parts.hostname, port, parts.scheme == "https", parts.netloc)


class Dialer:
    """``networks``: as in ``gateway.services.addresses``. ``resolve`` None: the system's."""

    def __init__(self, networks: Sequence[str], resolve: Resolve | None = None) -> None:
        self._is_allowed = lru_cache(MOST_NAMES)(partial(_is_allowed, networks))
        self._resolve = resolve or _system_addresses
        self._known: dict[str, tuple[float, Sequence[str]]] = {}
        self._tls: ssl.SSLContext | None = None

    async def dial(
        self, origin: Origin, timeout_s: float, protocol: Callable[[], Connection]
    ) -> Connection:
        """Raises OSError (TimeoutError and PermissionError among them) or ValueError."""
        async with asyncio.timeout(timeout_s) as limit:
            addresses = await self._allowed(origin.host)
            end_s = limit.when()
            assert end_s is not None
            for left in range(len(addresses), 1, -1):
                share_s = (end_s - asyncio.get_running_loop().time()) / left
                try:
                    async with asyncio.timeout(share_s):
                        return await self._connected(addresses[-left], origin, protocol)
                except OSError:
                    continue
            return await self._connected(addresses[-1], origin, protocol)

    async def _connected(
        self, address: str, origin: Origin, protocol: Callable[[], Connection]
    ) -> Connection:
        loop = asyncio.get_running_loop()
        if not origin.is_tls:
            _, connection = await loop.create_connection(protocol, address, origin.port)
            return connection
        self._tls = self._tls or ssl.create_default_context()
        _, connection = await loop.create_connection(
            protocol, address, origin.port, ssl=self._tls, server_hostname=origin.host
        )
        return connection

    async def _allowed(self, host: str) -> list[str]:
        """Raises PermissionError when no replica may be at any of them."""
        addresses = [host] if _is_address(host) else await self._meant(host)
        allowed = [each for each in addresses if self._is_allowed(each)]
        if not allowed:
            raise PermissionError(errno.EACCES, "no replica may be at this address")
        return allowed

    async def _meant(self, name: str) -> Sequence[str]:
        now_s = asyncio.get_running_loop().time()
        until_s, addresses = self._known.get(name, (0.0, ()))
        if now_s >= until_s:
            addresses = await self._resolve(name)
            if len(self._known) >= MOST_NAMES:
                self._known.clear()
            self._known[name] = now_s + NAME_S, addresses
        return addresses


def _is_allowed(networks: Sequence[str], address: str) -> bool:
    return is_allowed(ipaddress.ip_address(address.partition("%")[0]), networks)


@lru_cache(MOST_NAMES)
def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def _system_addresses(name: str) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]
