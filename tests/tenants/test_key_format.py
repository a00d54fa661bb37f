"""The form of an API key and what is recognised without a look-up."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tenants import key_format
from tests.key_typos import typos

SECRET, KEY_ID = key_format.generate()
KEYS = int(os.environ.get("TEST_KEYS", "20000"))
FULL_SIZE = 1_000_000
# Quantiles of χ² of 61 degrees of freedom: at full size the one of p = 0.001, which one run in a
# thousand exceeds; a suite that runs often is given room.
MOST_CHI_SQUARE = 100.9 if KEYS >= FULL_SIZE else 130.0


def test_key_has_the_documented_form() -> None:
    """S01."""
    prefix, key_id, rest = SECRET.split("-")
    assert (prefix, key_id, len(rest)) == ("fw", KEY_ID, 43 + 6)
    assert key_format.parse(SECRET) == KEY_ID


def test_keys_are_distinct_and_their_characters_even() -> None:
    """S01."""
    secrets = [key_format.generate()[0] for _ in range(KEYS)]
    assert len(set(secrets)) == KEYS
    seen: Counter[str] = Counter()
    for secret in secrets:
        seen.update(secret[12:55])
    expected = KEYS * 43 / 62
    chi_square = sum((seen[c] - expected) ** 2 / expected for c in key_format.ALPHABET)
    print(f"{KEYS:,} keys: no duplicate; χ² of their characters {chi_square:.1f} (61 degrees)")
    assert seen.keys() == set(key_format.ALPHABET)
    assert chi_square < MOST_CHI_SQUARE


def test_checksum_refuses_every_typo_of_one_character() -> None:
    """S01."""
    wrong = typos(SECRET)
    assert len(wrong) > 60 * 60
    assert [text for text in wrong if key_format.parse(text) is not None] == []


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
