"""Every way to mistype one character of a key: another of the alphabet, or one that no key has."""

from __future__ import annotations

from tenants.key_format import ALPHABET


def typos(secret: str) -> list[str]:
    return [
        secret[:position] + wrong + secret[position + 1 :]
        for position, right in enumerate(secret)
        for wrong in ALPHABET + "-_ é\x00"
        if wrong != right
    ]
