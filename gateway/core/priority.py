"""The three priority classes and how a caller's wish is clamped to its grant.

Lower value = served earlier. The names are the words used on the wire, in metrics and on pages.
"""

from __future__ import annotations

from enum import IntEnum


class PriorityClass(IntEnum):
    INTERACTIVE = 0
    STANDARD = 1
    BATCH = 2

    @property
    def label(self) -> str:
        return _LABELS[self]

    @classmethod
    def parse(cls, label: str) -> PriorityClass:
        """Raises ValueError that lists the known names."""
        try:
            return _BY_LABEL[label]
        except KeyError:
            raise ValueError(f"unknown class {label!r}; known: {', '.join(_BY_LABEL)}") from None

    def clamped_to(self, highest: PriorityClass) -> PriorityClass:
        """The class served when ``highest`` is the best one the key was granted."""
        return max(self, highest)


UNCLASSIFIED = "unclassified"  # of a call that was refused before its class was known


def label_of(klass: int | None) -> str:
    return UNCLASSIFIED if klass is None else _LABELS[klass]


CLASSES = tuple(PriorityClass)  # highest first; quicker to go through than the enum
_LABELS = tuple(member.name.lower() for member in PriorityClass)
_BY_LABEL = {member.label: member for member in PriorityClass}
