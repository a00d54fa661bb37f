"""Names that cannot be guessed: 24 characters of base 62 are 142 random bits."""

from __future__ import annotations

import secrets
import string

_ALPHABET = string.digits + string.ascii_letters
_CHARACTERS = 24


def new_id(prefix: str) -> str:
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(_CHARACTERS))
