"""How much prompt text does a request carry, and in what writing?

Counts UTF-8 bytes at native speed, in proportion to the text. Whatever a template may put before
the model counts: message texts, names, tool calls, tools, functions, response format; where they
stand is known to each dialect's ``prompt_size``. Media parts (images, audio, files) never count by
their bytes: base64 says nothing about tokens.

The script class is where the token estimator starts before it has learned a tenant's bytes per
token. It is taken from a sample, so its cost is constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

BYTES_PER_TOKEN_ID: Final = 4  # a prompt given as token ids, in the unit of the text it stands for
_SAMPLES: Final = 3
_SAMPLE_CHARS: Final = 256

SCRIPTS: Final = ("latin", "two_byte", "cjk", "dense", "other")
"""latin: prose, code with words ·
two_byte: Cyrillic, Greek, Hebrew, Arabic · cjk: Chinese, Japanese, Korean · dense: digits, base64,
JSON rows, emoji (few bytes per token) · other: Indic, Thai, the rest"""

_LETTERS: Final = bytes(range(65, 91)) + bytes(range(97, 123))
_ASCII: Final = bytes(range(128))
_LEADS: Final = {  # first bytes of a character in UTF-8, and the bytes of such a character
    "two_byte": (bytes(range(0xCD, 0xDF)), 2),
    "cjk": (bytes((*range(0xE3, 0xEE), 0xEF)), 3),
    "dense": (bytes(range(0xF0, 0xF5)), 4),
    "other": (bytes(range(0xE0, 0xE3)), 3),
}
_LONG_WORD_BYTES: Final = 24  # mean; longer than in any prose or code: base64, hashes


@dataclass(slots=True)
class PromptText:
    """Accumulates one request."""

    size_bytes: int = 0
    has_media: bool = False
    longest: str = ""

    def add(self, text: str) -> None:
        self.size_bytes += len(text) if text.isascii() else len(text.encode())
        if len(text) > len(self.longest):
            self.longest = text

    def add_json(self, value: Any) -> None:
        self.size_bytes += len(msgspec.json.encode(value))

    def add_tokens(self, count: int) -> None:
        self.size_bytes += BYTES_PER_TOKEN_ID * count

    @property
    def script(self) -> str:
        return script_of(self.longest)


def script_of(text: str) -> str:
    """One of SCRIPTS; the class that most bytes of the sample belong to."""
    sampled = _sample(text)
    sample = sampled.encode("utf-8", "replace")
    if sampled.isascii():
        return "dense" if _is_dense(sample, len(sample)) else "latin"
    ascii_bytes = len(sample) - len(sample.translate(None, _ASCII))
    shares = {"latin": len(sample)}
    for script, (leads, char_bytes) in _LEADS.items():
        shares[script] = _count(sample, leads) * char_bytes
        shares["latin"] -= shares[script]
    script = max(shares, key=shares.__getitem__)
    return "dense" if script == "latin" and _is_dense(sample, ascii_bytes) else script


def _sample(text: str) -> str:
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return text
    middle = (len(text) - _SAMPLE_CHARS) // 2
    return text[:_SAMPLE_CHARS] + text[middle : middle + _SAMPLE_CHARS] + text[-_SAMPLE_CHARS:]


def _is_dense(sample: bytes, ascii_bytes: int) -> bool:
    """Digits and signs outnumber letters, or the words are too long to be words."""
    letters, blanks = _count(sample, _LETTERS), _count(sample, b" \n\t\r")
    signs = ascii_bytes - letters - blanks
    return signs > letters or ascii_bytes > (blanks + 1) * _LONG_WORD_BYTES + _SAMPLE_CHARS // 4


def _count(sample: bytes, chars: bytes) -> int:
    return len(sample) - len(sample.translate(None, chars))
