"""What does a simulated model read and write? Tokens of exactly four bytes.

A prompt's tokens are its UTF-8 bytes in groups of four, so equal beginnings are equal tokens, and
an answer that comes back in the next turn's prompt is found in the prefix cache. An answer begins
with ``[simulated]`` and goes on with pseudo-words; it depends only on prompt and salt. It wants
to end after 32-543 tokens, as the hash of the prompt decides.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

TOKEN_BYTES = 4
_OPENING = b"[simulated] "
_CONSONANTS = b"bdfgklmnprstvz"
_VOWELS = b"aeiou"


@dataclass(frozen=True, slots=True)
class PseudoPrompt:
    text: bytes
    salt: bytes

    @property
    def tokens(self) -> int:
        return max(1, -(-len(self.text) // TOKEN_BYTES))

    @property
    def wanted_tokens(self) -> int:
        """How long the answer is if nothing stops it."""
        return 32 + int.from_bytes(self._digest()[:4], "big") % 512

    def answer(self, tokens: int) -> list[bytes]:
        """The first ``tokens`` tokens of the answer, four bytes each."""
        length = tokens * TOKEN_BYTES
        noise = hashlib.shake_128(self._digest()).digest(max(0, tokens) * 3)
        words = b"".join(
            bytes(
                (
                    _CONSONANTS[noise[at] % len(_CONSONANTS)],
                    _VOWELS[noise[at + 1] % len(_VOWELS)],
                    _CONSONANTS[noise[at + 2] % len(_CONSONANTS)],
                    0x20,
                )
            )
            for at in range(0, len(noise), 3)
        )
        text = (_OPENING + words)[:length]
        return [text[at : at + TOKEN_BYTES] for at in range(0, length, TOKEN_BYTES)]

    def _digest(self) -> bytes:
        return hashlib.blake2b(self.text, digest_size=16).digest()


def block_hashes(salt: bytes, text: bytes, block_tokens: int) -> tuple[int, ...]:
    """Chained 64-bit hashes of the full blocks of ``text``; the salt seeds the chain."""
    size = block_tokens * TOKEN_BYTES
    chain = hashlib.blake2b(salt, digest_size=8).digest()
    hashes = []
    for at in range(0, len(text) - size + 1, size):
        chain = hashlib.blake2b(chain + text[at : at + size], digest_size=8).digest()
        hashes.append(int.from_bytes(chain, "big"))
    return tuple(hashes)
