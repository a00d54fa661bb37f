"""Does somebody try keys from this address? Bad keys are counted; beyond a bound more are refused.

Only callers whose key is bad are counted and refused: a valid key on the same address is never
touched, because one address may be a whole company behind a proxy. An address is an IPv4 address
or an IPv6 /64; what is neither is one address. At most ``KEPT`` addresses are remembered; those
that failed least recently are forgotten first. Times are monotonic seconds.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque

FAILURES = 20  # of an address in WINDOW_S; the next one is refused
WINDOW_S = 60.0
KEPT = 10_000
IPV6_NETWORK_BYTES = 8


class BadKeys:
    """May be used by several threads: a lost count lets one more guess through."""

    def __init__(self) -> None:
        self._failures: OrderedDict[bytes, deque[float]] = OrderedDict()

    def failed(self, address: str, now_s: float) -> float | None:
        """Notes a bad key. Seconds until that address may fail again; None: it may fail now."""
        name = _network(address)
        failures = self._failures.setdefault(name, deque(maxlen=FAILURES))
        self._failures.move_to_end(name)
        if len(self._failures) > KEPT:
            self._failures.popitem(last=False)
        while failures and failures[0] <= now_s - WINDOW_S:
            failures.popleft()
        if len(failures) == FAILURES:
            return failures[0] + WINDOW_S - now_s
        failures.append(now_s)
        return None


def _network(address: str) -> bytes:
    """An IPv4 address within IPv6 is that IPv4 address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return b""
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.packed[:IPV6_NETWORK_BYTES] if ip.ipv4_mapped is None else ip.ipv4_mapped.packed
    return ip.packed
