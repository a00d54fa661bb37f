"""Which names and texts may be stored?

Text is NFC and free of what deceives a reader or breaks a log line: control, bidi, zero-width and
other format characters, lone surrogates, unassigned and private code points. Slugs are ASCII, never
change, and no two of them look alike: ``skeleton`` maps letters that are mistaken for one another
to one form (``0`` o, ``1`` and ``i`` l, ``rn`` m, ``vv`` w; hyphens do not count).
"""

from __future__ import annotations

import re
import unicodedata

from tenants.errors import Invalid

NAME_CHARACTERS = 80
TEXT_CHARACTERS = 500
SLUG_CHARACTERS = 40
RESERVED_SLUGS = frozenset({"admin", "api", "fairway", "internal", "me", "new", "system"})
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LOOK_ALIKES = str.maketrans({"0": "o", "1": "l", "i": "l", "-": None})


def clean_name(value: str, *, field: str = "name") -> str:
    """A label for people: 1 to 80 characters. Raises Invalid."""
    return _clean(value, field, NAME_CHARACTERS)


def clean_text(value: str, *, field: str = "why") -> str:
    """One line of free text, such as a reason: 1 to 500 characters. Raises Invalid."""
    return _clean(value, field, TEXT_CHARACTERS)


def clean_slug(value: str, *, field: str = "slug") -> str:
    """Raises Invalid."""
    if not _SLUG.fullmatch(value):
        raise Invalid(
            f"{printable(value)} is not a slug.",
            next_step="Use 1 to 40 of a-z, 0-9 and hyphens, beginning and ending with a-z or 0-9.",
            field=field,
        )
    if value in RESERVED_SLUGS:
        raise Invalid(f"{value} is reserved.", next_step="Choose another slug.", field=field)
    return value


def slug_of(name: str) -> str:
    """The slug that a name suggests. Raises Invalid where none of its characters can be kept."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")[:SLUG_CHARACTERS].strip("-")
    if not slug:
        raise Invalid("The name suggests no slug.", next_step="Give one explicitly.", field="slug")
    return clean_slug(slug)


def skeleton(slug: str) -> str:
    """Equal for slugs that look alike."""
    return slug.translate(_LOOK_ALIKES).replace("rn", "m").replace("vv", "w")


def printable(value: str, characters: int = 60) -> str:
    """``value`` quoted, shortened and escaped, for a message."""
    shortened = value if len(value) <= characters else value[: characters - 1] + "…"
    return ascii(shortened) if _deceptive(shortened) else repr(shortened)


def _clean(value: str, field: str, characters: int) -> str:
    text = unicodedata.normalize("NFC", value).strip()
    if found := _deceptive(text):
        raise Invalid(
            f"{field} contains the character U+{ord(found):04X}, which is invisible or not text.",
            next_step="Remove it.",
            field=field,
        )
    if not 1 <= len(text) <= characters:
        raise Invalid(
            f"{field} has {len(text)} characters.",
            next_step=f"Give 1 to {characters}.",
            field=field,
        )
    return text


def _deceptive(text: str) -> str | None:
    return next((c for c in text if unicodedata.category(c) in _FORBIDDEN_CATEGORIES), None)
