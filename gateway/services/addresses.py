"""Which addresses may a replica have? Operators enter them, yet a mistake must not reach the
metadata service of a cloud or this machine itself.

Private networks are normal for GPUs. Refused unless a network of the setting
``FAIRWAY_GATEWAY_REPLICA_NETWORKS`` contains them: loopback, link-local, multicast, unspecified
and reserved addresses, and known metadata services; also inside IPv6 forms that carry an IPv4
address. A name is resolved when it is entered; one that does not resolve yet is accepted.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from tenants.errors import Invalid
from tenants.wording import printable

URL_CHARACTERS = 300
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,62})(\.[a-z0-9]([a-z0-9-]{0,62}))*", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_METADATA = tuple(
    ipaddress.ip_network(address)
    for address in ("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128")
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def clean_base_url(value: str, networks: Sequence[str]) -> str:
    """Scheme, host and port, lower case, without a path (``/v1`` is cut). Raises Invalid."""
    parts = _split(value)
    host = (parts.hostname or "").rstrip(".")
    _refuse_names(value, host)
    for address in _addresses_of(host):
        if not is_allowed(address, networks):
            raise _invalid(
                f"{printable(host)} is {address}, where no replica may be.",
                "Use an address of the servers' network, or list its network in"
                " FAIRWAY_GATEWAY_REPLICA_NETWORKS.",
            )
    shown = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{shown}{port}"


def is_allowed(address: Address, networks: Sequence[str]) -> bool:
    """Whether a replica may be there, by the rules above."""
    for form in _forms(address):
        if any(form in ipaddress.ip_network(network) for network in networks):
            continue
        if _is_special(form):
            return False
    return True


def _split(value: str) -> SplitResult:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise _invalid(f"{printable(value)} is not a URL.", _FORM) from None
    plain = value.isascii() and value.isprintable() and " " not in value and "\\" not in value
    if not plain or len(value) > URL_CHARACTERS or parts.scheme not in ("http", "https"):
        raise _invalid(f"{printable(value)} is not an http or https URL.", _FORM)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise _invalid("The URL has credentials, a query or a fragment.", _FORM)
    if parts.path.rstrip("/") not in ("", "/v1") or port == 0:
        raise _invalid("The URL has a path other than /v1, or port 0.", _FORM)
    return parts


def _refuse_names(value: str, host: str) -> None:
    """Hosts that are written so that parsers may disagree about them."""
    if ":" in host:
        if "%" in host or not _is_address(host):
            raise _invalid(f"{printable(value)} has no valid host.", _FORM)
    elif not _HOST.fullmatch(host) or (_is_number(host) and not _is_address(host)):
        raise _invalid(f"{printable(value)} has no valid host.", _FORM)


def _is_number(host: str) -> bool:
    """Resolvers read a name that ends in a number as an address, in one of many spellings."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _addresses_of(host: str) -> list[Address]:
    if _is_address(host):
        return [ipaddress.ip_address(host)]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def _forms(address: Address) -> list[Address]:
    """The address and every IPv4 address that it carries."""
    forms: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        carried = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        found = [form for form in carried if form is not None]
        forms = list(found) if address.ipv4_mapped else [address, *found]
    return forms


def _is_special(address: Address) -> bool:
    special = (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
    )
    return special or any(address in network for network in _METADATA)


def _invalid(message: str, next_step: str) -> Invalid:
    return Invalid(message, next_step=next_step, field="base_url")


_FORM = "Write it as http://host:port."
