"""How is the JSON of one event read, of which the gateway must know only a few fields?

The typed decode reads these fields and skips the rest. What does not fit the types (a vendor that
sends content as parts, a usage of strings) is read again without types, so that an odd field is
never an error; what is not JSON, or no object, is ``Garbled``. Each dialect says which fields, and
what of an odd event it still takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]
Shape = TypeVar("Shape")

NOT_AN_OBJECT: Final = "The replica sent an event that is not a JSON object."
_EMPTY: Final = (b"", b"null", b"[]", b"{}", b'""', b"false")


class Garbled(ValueError):
    """The event is not a JSON object."""


def event_decoder(
    shape: type[Shape], untyped: Callable[[dict[str, Any]], Shape]
) -> Callable[[bytes], Shape]:
    """A function that decodes one event, or raises Garbled. ``untyped`` makes one of an object that
    does not fit ``shape``; it never raises."""
    decode = msgspec.json.Decoder(shape).decode

    def decode_event(data: bytes) -> Shape:
        try:
            return decode(data)
        except msgspec.ValidationError:
            told = decode_json(data)
        except (msgspec.DecodeError, RecursionError):
            raise Garbled from None
        if not isinstance(told, dict):
            raise Garbled
        return untyped(told)

    return decode_event


def decode_json(data: bytes | msgspec.Raw) -> Any:
    """The whole of it, without types. Raises Garbled: the typed decode skips what it does not
    read, so it may have taken what this does not."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise Garbled from None


def says(raw: msgspec.Raw) -> bool:
    """The field is there and is not null, empty or false."""
    return bool(raw) and bytes(raw) not in _EMPTY


def fitting(value: Any, shape: type[Any]) -> Any:
    """None where ``value`` is absent or does not fit the shape."""
    try:
        return msgspec.convert(value, shape) if value is not None else None
    except msgspec.ValidationError:
        return None


def text_of(value: Any) -> str | None:
    """A string as it is; anything else that says something stands for its JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value else None


def raw_of(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value)) if value is not None else msgspec.Raw()
