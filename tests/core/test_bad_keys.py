"""Who may try keys, and how often."""

from __future__ import annotations

from gateway.core.bad_keys import FAILURES, KEPT, WINDOW_S, BadKeys


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


def test_memory_is_bounded_and_the_oldest_address_goes_first() -> None:
    keys = BadKeys()
    for _ in range(FAILURES):
        keys.failed("192.0.2.1", 0.0)
    for n in range(KEPT):
        keys.failed(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", 0.0)
    assert keys.failed("192.0.2.1", 0.0) is None
