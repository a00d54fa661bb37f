"""How do the pieces of a streamed answer become one value?

The rule of the public SDKs, for fields known and unknown: strings are joined, lists are joined
(items that carry an ``index`` are merged by it), objects are merged field by field, anything else
is replaced. Strings that name something (``id``, ``type``, ``role``, ``name``) are replaced, not
joined, since some servers repeat them in every event. Null never replaces.

Pieces are gathered in lists and joined once, so that a long answer costs time in proportion to it.
"""

from __future__ import annotations

from typing import Any, Final

_NAMING: Final = frozenset({"id", "type", "role", "name", "finish_reason", "stop_reason"})


class Merged:
    """One object in the making."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def add(self, piece: dict[str, Any]) -> None:
        """Takes what the piece says; it is not kept."""
        fields = self._fields
        for name, value in piece.items():
            if value is None:
                fields.setdefault(name, None)
            elif name in fields or isinstance(value, str | dict | list):
                self._add_field(name, value)
            else:
                fields[name] = value

    def value(self) -> dict[str, Any]:
        return {name: _finished(value) for name, value in self._fields.items()}

    def _add_field(self, name: str, value: Any) -> None:
        old = self._fields.get(name)
        if isinstance(value, str) and name not in _NAMING:
            if isinstance(old, _Text):
                old.pieces.append(value)
            else:
                self._fields[name] = _Text(value)
        elif isinstance(value, dict):
            merged = old if isinstance(old, Merged) else Merged()
            merged.add(value)
            self._fields[name] = merged
        elif isinstance(value, list):
            items = old if isinstance(old, _Items) else _Items()
            items.extend(value)
            self._fields[name] = items
        elif value != "" or old is None:
            self._fields[name] = value


class _Text:
    def __init__(self, first: str) -> None:
        self.pieces = [first]


class _Items:
    """A list whose items with an ``index`` are merged; the index itself is left out at the end."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._by_index: dict[int, Merged] = {}

    def extend(self, items: list[Any]) -> None:
        for item in items:
            if not isinstance(item, dict) or type(item.get("index")) is not int:
                self._items.append(item)
                continue
            index = item["index"]
            if index not in self._by_index:
                self._by_index[index] = Merged()
                self._items.append(self._by_index[index])
            self._by_index[index].add({k: v for k, v in item.items() if k != "index"})

    def value(self) -> list[Any]:
        return [_finished(item) for item in self._items]


def _finished(value: Any) -> Any:
    if isinstance(value, _Text):
        return "".join(value.pieces)
    return value.value() if isinstance(value, Merged | _Items) else value
