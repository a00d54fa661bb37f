"""Who may try keys, and how often."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

import pytest

from gateway.core.bad_keys import FAILURES, KEPT, WINDOW_S, BadKeys

ADDRESSES = int(os.environ.get("TEST_ADDRESSES", "20000"))


def _address(n: int) -> str:
    return f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"


def _network_v6(n: int) -> str:
    return f"2001:db8:{n >> 16:x}:{n & 0xFFFF:x}::1"


def test_twenty_first_bad_key_of_a_minute_waits_for_the_first_to_age() -> None:
    """S07."""
    keys = BadKeys()
    assert [keys.failed("192.0.2.1", n) for n in range(FAILURES)] == [None] * FAILURES
    assert keys.failed("192.0.2.1", 30.0) == WINDOW_S - 30.0
    assert keys.failed("192.0.2.2", 30.0) is None
    assert keys.failed("192.0.2.1", WINDOW_S) is None


def test_addresses_of_one_ipv6_network_are_one() -> None:
    keys = BadKeys()
    for n in range(FAILURES):
        assert keys.failed(f"2001:db8::{n:x}", 0.0) is None
    assert keys.failed("2001:db8::ffff", 0.0) is not None
    assert keys.failed("2001:db8:0:1::1", 0.0) is None


def test_an_ipv4_address_is_the_same_within_ipv6() -> None:
    keys = BadKeys()
    for _ in range(FAILURES):
        assert keys.failed("::ffff:192.0.2.1", 0.0) is None
    assert keys.failed("192.0.2.1", 0.0) is not None
    assert keys.failed("::ffff:192.0.2.2", 0.0) is None


def test_the_oldest_address_is_forgotten_first() -> None:
    keys = BadKeys()
    for _ in range(FAILURES):
        keys.failed("192.0.2.1", 0.0)
    for n in range(KEPT):
        keys.failed(_address(n), 0.0)
    assert keys.failed("192.0.2.1", 0.0) is None


@pytest.mark.parametrize("address_of", [_address, _network_v6], ids=["IPv4", "IPv6 /64"])
def test_memory_is_bounded_whatever_the_number_of_addresses(
    address_of: Callable[[int], str],
) -> None:
    """S07; counted in objects that Python holds."""
    keys = BadKeys()
    gc.collect()
    empty = sys.getallocatedblocks()
    for n in range(KEPT):
        keys.failed(address_of(n), n / 1_000)
    full = sys.getallocatedblocks() - empty
    for n in range(KEPT, ADDRESSES):
        keys.failed(address_of(n), n / 1_000)
    grown = sys.getallocatedblocks() - empty - full
    print(f"{KEPT:,} addresses: {full:,} objects; after {ADDRESSES:,} addresses {grown:+,}")
    assert full <= 10 * KEPT
    assert grown <= 0.1 * full
