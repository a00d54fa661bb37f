"""How does an API key look, and how is it recognised without a look-up?

``fw-`` + 8-character id + ``-`` + 43 base62 characters + 6-character checksum. The 43 characters
carry 256 bits from the system's random source. The checksum is the CRC-32 of everything before it
in base62, so that a typo is refused before any table is read. The id is public and looks the row
up; the row holds HMAC-SHA-256(pepper, key) alone.
"""

from __future__ import annotations

import hmac
import re
import secrets
import zlib

PREFIX = "fw-"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_CHARACTERS = 8
RANDOM_CHARACTERS = 43
CHECKSUM_CHARACTERS = 6
KEY_CHARACTERS = len(PREFIX) + ID_CHARACTERS + 1 + RANDOM_CHARACTERS + CHECKSUM_CHARACTERS
_ID = re.compile(r"[0-9A-Za-z]{8}")
_KEY = re.compile(r"fw-([0-9A-Za-z]{8})-[0-9A-Za-z]{49}")


def generate() -> tuple[str, str]:
    """A new secret and its id. The secret is shown once and never stored."""
    key_id = _random(ID_CHARACTERS)
    unchecked = f"{PREFIX}{key_id}-{_random(RANDOM_CHARACTERS)}"
    return unchecked + _checksum(unchecked), key_id


def parse(secret: str) -> str | None:
    """The id of a well-formed key, else None. Reads no table."""
    if len(secret) != KEY_CHARACTERS or not (match := _KEY.fullmatch(secret)):
        return None
    unchecked, checksum = secret[:-CHECKSUM_CHARACTERS], secret[-CHECKSUM_CHARACTERS:]
    return match[1] if checksum == _checksum(unchecked) else None


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def digest(secret: str, pepper: bytes) -> bytes:
    """What is stored; 32 bytes."""
    return hmac.digest(pepper, secret.encode(), "sha256")


def matches(secret: str, pepper: bytes, stored: bytes) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(digest(secret, pepper), stored)


def _random(characters: int) -> str:
    return _base62(secrets.randbelow(len(ALPHABET) ** characters), characters)


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), CHECKSUM_CHARACTERS)


def _base62(number: int, characters: int) -> str:
    digits = []
    for _ in range(characters):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
