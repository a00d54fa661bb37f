"""Is this request body JSON that the gateway is willing to hold, and who refuses it?

JSON only, one object; of duplicate keys the last wins. NaN, Infinity, numbers out of range, lone
surrogates and bytes that are not UTF-8 are refused by the decoder, NUL and what nests too deep or
has too many keys here. The cheap tests (counting bytes) come first; the walk is for bodies that
fail them.

Keys, and objects and lists with or without keys, are counted over the whole body except its
messages, and over each message alone: a long conversation is not a bomb. Messages are bounded in
number by ``request_fields``. Objects and lists in all, and keys in all, are counted before anything
is decoded, since making them is what costs time and memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from gateway.wire.dialect import BodyBounds
from gateway.wire.lone_surrogates import field_with_lone_surrogate
from gateway.wire.request_fields import MAX_MESSAGES

REFUSED_FIELDS: Final = (
    "api_base",
    "base_url",
    "api_key",
    "extra_headers",
    "callback",
    "chat_template",
    "prompt_logprobs",
    "id_slot",
    "kv_transfer_params",
)
_TEMPLATE_ARGUMENTS: Final = ("chat_template_kwargs", "chat_template_args")
_NO_ARGUMENTS: Final = ("chat_template", "tokenize")  # of the renderer, not of the template
_SLICE_BYTES: Final = 64 * 1024
_ESCAPED_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # an odd number of backslashes
_PLACE: Final = " - at `$"  # before the path, at the end of what msgspec says
_NOT_ONE_OF: Final = "Invalid enum value"  # the caller's own words follow it
_MISSING: Final = re.compile(r"required field `(?P<name>[^`]+)`")

Known = TypeVar("Known", bound=msgspec.Struct)


def invalid(message: str, param: str | None = None) -> Rejected:
    return Rejected(Reason.INVALID_REQUEST, message, param=param)


def accepted(raw: bytes, bounds: BodyBounds, fields: type[Known]) -> tuple[dict[str, Any], Known]:
    """The body as it came, and its known fields, checked for type and range. Raises Rejected."""
    body = _decoded(raw, bounds)
    _check_refused(body)
    try:
        return body, msgspec.convert(body, fields)
    except msgspec.ValidationError as error:
        raise _out_of_range(str(error)) from None


def _decoded(raw: bytes, bounds: BodyBounds) -> dict[str, Any]:
    """Raises Rejected. The message tells where the body is wrong, never what it says."""
    brackets, colons = raw.count(b"{") + raw.count(b"["), raw.count(b":")
    if brackets > bounds.max_containers and _has_more(raw, (b"{", b"["), bounds.max_containers):
        raise invalid(f"The body has more than {bounds.max_containers} objects and lists.")
    most_keys = max(bounds.max_keys_in_all, len(raw) // bounds.bytes_per_key)
    if colons > most_keys and _has_more(raw, (b":",), most_keys):
        raise invalid(f"The body has more than {most_keys} keys.")
    try:
        body = msgspec.json.decode(raw)
    except RecursionError:
        raise _too_deep(bounds) from None
    except msgspec.DecodeError as error:
        raise _undecodable(raw, error) from None
    if not isinstance(body, dict):
        raise invalid("The body must be a JSON object.")
    if brackets > bounds.max_depth or colons > bounds.max_keys:
        _check_shape(body, bounds)
    if b"\\u0000" in raw and _ESCAPED_NUL.search(raw):
        raise invalid("The body contains a NUL character.")
    return body


def _undecodable(raw: bytes, error: msgspec.DecodeError) -> Rejected:
    field = field_with_lone_surrogate(raw)
    if field is None:
        return invalid(f"The body is not valid JSON: {error}.")
    where = f"The field `{field}`" if field else "A name in the body"
    return invalid(f"{where} has half of a character: a lone surrogate.", field or None)


def _check_refused(body: dict[str, Any]) -> None:
    """Fields that would let a caller steer the replica, or the gateway towards another host."""
    for name in REFUSED_FIELDS:
        if name in body:
            raise invalid(f"The field `{name}` is not accepted.", name)
    for holder in _TEMPLATE_ARGUMENTS:
        if holder in body:
            _check_arguments(body[holder], holder)
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        for name in metadata:
            if name.endswith("_api_key"):
                raise invalid("Keys of other services are not accepted.", f"metadata.{name}")


def _check_arguments(arguments: Any, holder: str) -> None:
    """Engines take a template from among its arguments too."""
    for name in _NO_ARGUMENTS:
        if isinstance(arguments, dict) and name in arguments:
            path = f"{holder}.{name}"
            raise invalid(f"The field `{path}` is not accepted.", path)


def _has_more(raw: bytes, marks: tuple[bytes, ...], most: int) -> bool:
    """Outside of strings, as far as ``raw`` is JSON; asked when there are more in all. Escapes go
    first, so that every quote that is left begins or ends a string. Cut in slices, since the pieces
    of all would cost many times their bytes."""
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    inside = found = 0
    for at in range(0, len(bare), _SLICE_BYTES):
        pieces = bare[at : at + _SLICE_BYTES].split(b'"')
        found += sum(map(b"".join(pieces[inside::2]).count, marks))
        if found > most:
            return True
        inside = (inside + len(pieces) - 1) % 2
    return False


def _out_of_range(text: str) -> Rejected:
    problem, _, path = text.rpartition(_PLACE) if _PLACE in text else (text, "", "")
    path = path.removesuffix("`").removeprefix(".")
    missing = _MISSING.search(text)
    if missing:
        path = f"{path}.{missing['name']}" if path else missing["name"]
        return invalid(f"The field `{path}` is missing.", path)
    if "matching regex" in text:  # only names have one
        return invalid(f"The field `{path}` has control characters.", path or None)
    said = _NOT_ONE_OF if problem.startswith(_NOT_ONE_OF) else problem.replace("`", "")
    return invalid(f"The field `{path}` is wrong: {said}.", path or None)


def _check_shape(body: dict[str, Any], bounds: BodyBounds) -> None:
    field = "messages" if "messages" in body else "input"
    given = body.get(field)
    given = given if isinstance(given, list) else []
    messages = [each for each in given if isinstance(each, dict | list)]
    if len(messages) > MAX_MESSAGES:
        raise invalid(f"There are more than {MAX_MESSAGES} messages.", field)
    rest = {name: value for name, value in body.items() if value is not given}
    _check_part(rest, 1, bounds)
    for message in messages:
        _check_part(message, 3, bounds)


def _check_part(part: dict[str, Any] | list[Any], depth: int, bounds: BodyBounds) -> None:
    """Level by level, so that only containers cost Python time."""
    level, keys, containers = [part], 0, 0
    while level:
        if depth > bounds.max_depth:
            raise _too_deep(bounds)
        below = []
        for container in level:
            values: Iterable[Any] = container
            if type(container) is dict:
                keys += len(container)
                values = container.values()
            below += [value for value in values if type(value) is dict or type(value) is list]
        containers += len(level)
        if keys > bounds.max_keys or containers > bounds.max_keys:
            raise invalid(f"The body has more than {bounds.max_keys} keys, objects or lists.")
        level, depth = below, depth + 1


def _too_deep(bounds: BodyBounds) -> Rejected:
    return invalid(f"The body nests deeper than {bounds.max_depth} levels.")
