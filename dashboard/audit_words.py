"""What did an audit entry change, in words? One ``Change`` per value, never a value of Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dashboard import numbers
from gateway.core.limits.limit import METER_NAMED
from tenants.models import AuditEntry

LONGEST = 80
NOTHING = "none"
OPEN_LISTS = {"models", "allowed_networks", "tenants"}  # empty: everything is allowed
TITLES = {"klass": "class", "others": "more targets"}
_EMPTY: tuple[object, ...] = (None, "", [])


@dataclass(frozen=True, slots=True)
class Change:
    """``before`` None: it was made; ``after`` None: it was removed."""

    name: str
    before: str | None
    after: str | None


def changes(entry: AuditEntry) -> list[Change]:
    if entry.action.startswith("limit."):
        return [_limit_change(entry.before, entry.after)]
    return list(_changes(entry))


def _changes(entry: AuditEntry) -> Iterator[Change]:
    before, after = entry.before or {}, entry.after or {}
    money = entry.action.startswith("credit.")
    for name in sorted({*before, *after}, key=_title):  # databases keep no order of their own
        old, new = before.get(name), after.get(name)
        if old == new or (entry.before is None and new in _EMPTY):
            continue
        yield Change(
            _title(name),
            None if entry.before is None else _value(name, old, money),
            None if entry.after is None else _value(name, new, money),
        )


def _title(name: str) -> str:
    return TITLES.get(name, name.removesuffix("_s").removesuffix("_at").replace("_", " "))


def _limit_change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Change:
    one = after or before or {}
    name = ", ".join((_meter(one), *_scope(one)))
    return Change(name, _amount(before) if before else None, _amount(after) if after else None)


def _value(name: str, value: Any, money: bool) -> str:
    if money and isinstance(value, int):
        return f"{numbers.credits(value)} credits"
    if name.endswith("_s") and isinstance(value, int | float):
        return numbers.duration(value)
    if name.endswith("_at") and isinstance(value, str):
        return _moment(value)
    if value == [] and name in OPEN_LISTS:
        return "any"
    return _short(words(value))


def _moment(text: str) -> str:
    """A time as JSON keeps it."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text or NOTHING
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def words(value: Any) -> str:
    match value:
        case None | "" | []:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return numbers.plain(value)
        case list():
            return ("; " if isinstance(value[0], dict) else ", ").join(map(words, value))
        case {"meter": str()}:
            return ", ".join((f"{_amount(value)} {_meter(value)}", *_scope(value)))
        case {"pool": pool, "fallback": fallback}:
            return _target(str(pool), bool(fallback), value)
        case dict():
            return ", ".join(
                f"{name.replace('_', ' ')} {words(v)}" for name, v in sorted(value.items())
            )
    return str(value)


def _target(pool: str, fallback: bool, one: Mapping[str, Any]) -> str:
    """One more pool that answers to a model name."""
    asked_for = f" as {one['upstream_model']}" if one.get("upstream_model") else ""
    part = "fallback" if fallback else f"weight {one.get('weight', 1)}"
    return f"{pool}{asked_for}, {part}"


def _meter(limit: Mapping[str, Any]) -> str:
    name = str(limit.get("meter"))
    return METER_NAMED[name].unit if name in METER_NAMED else name


def _amount(limit: Mapping[str, Any]) -> str:
    burst = limit.get("burst")
    amount = numbers.count(limit.get("amount"))
    return amount if burst is None else f"{amount}, burst {numbers.count(burst)}"


def _scope(limit: Mapping[str, Any]) -> Iterator[str]:
    for name, title in (("pool", "pool"), ("klass", "class")):
        if limit.get(name, "*") != "*":
            yield f"{title} {limit[name]}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
