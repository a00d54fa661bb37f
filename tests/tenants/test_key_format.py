"""The form of an API key and what is recognised without a look-up."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tenants import key_format

SECRET, KEY_ID = key_format.generate()


def test_key_has_the_documented_form() -> None:
    """S01."""
    prefix, key_id, rest = SECRET.split("-")
    assert (prefix, key_id, len(rest)) == ("fw", KEY_ID, 43 + 6)
    assert key_format.parse(SECRET) == KEY_ID


def test_keys_are_distinct_and_their_characters_even() -> None:
    """S01: 20,000 keys; χ² of 61 degrees of freedom stays below its 0.001 quantile of 100.9,
    with room for the repeated runs of a suite."""
    secrets = [key_format.generate()[0] for _ in range(20_000)]
    assert len(set(secrets)) == len(secrets)
    seen = Counter("".join(secret[12:55] for secret in secrets))
    expected = 20_000 * 43 / 62
    chi_square = sum((seen[c] - expected) ** 2 / expected for c in key_format.ALPHABET)
    assert chi_square < 130


def test_checksum_refuses_every_typo_of_one_character() -> None:
    """S01."""
    for position, right in enumerate(SECRET):
        for wrong in key_format.ALPHABET + "-_ é":
            if wrong != right:
                assert key_format.parse(SECRET[:position] + wrong + SECRET[position + 1 :]) is None


@pytest.mark.parametrize(
    "text",
    ["", "fw-", SECRET[:-1], SECRET + "a", SECRET + "\n", SECRET.upper(), "sk-" + SECRET[3:]],
    ids=["empty", "prefix", "shorter", "longer", "with a line end", "upper case", "other prefix"],
)
def test_malformed_keys_have_no_id(text: str) -> None:
    assert key_format.parse(text) is None


def test_digest_depends_on_key_and_pepper() -> None:
    """S02."""
    stored = key_format.digest(SECRET, b"p" * 32)
    assert len(stored) == 32
    assert key_format.matches(SECRET, b"p" * 32, stored)
    assert not key_format.matches(SECRET, b"q" * 32, stored)
    assert not key_format.matches(key_format.generate()[0], b"p" * 32, stored)


def test_checking_a_key_costs_at_most_50_microseconds() -> None:
    """S02; CPU time, best of five."""
    costs = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(2_000):
            key_format.parse(SECRET)
            key_format.digest(SECRET, b"p" * 32)
        costs.append((time.process_time() - started) / 2_000)
    assert min(costs) <= 50e-6
