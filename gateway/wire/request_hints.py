"""What does a caller wish, beside the body: class, deadline, objectives?

Where: ``x-fairway-region``. Order: ``x-fairway-ordered: true``.
Class: ``x-fairway-priority``, else ``service_tier``; clamping to the key's grant is the caller's of
this module. Deadline: ``x-fairway-deadline-ms``, else the SDK's own ``x-stainless-read-timeout``
(seconds). A wish of Fairway's own headers that cannot be read is refused; what an SDK sends by
itself is ignored when it makes no sense. Durations are seconds from arrival.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

MAX_DEADLINE_S: Final = 24 * 3600.0
_CLASS_OF_TIER: Final[dict[str, PriorityClass | None]] = {
    "auto": None,
    "default": None,
    "scale": None,
    "priority": PriorityClass.INTERACTIVE,
    "fast": PriorityClass.INTERACTIVE,
    "flex": PriorityClass.BATCH,
    "standard_only": PriorityClass.STANDARD,  # of the Messages API
}
_TIER_OF_CLASS: Final = {
    PriorityClass.INTERACTIVE: "priority",
    PriorityClass.STANDARD: "default",
    PriorityClass.BATCH: "flex",
}
_WISHES: Final = frozenset(
    {
        "x-fairway-priority",
        "x-fairway-deadline-ms",
        "x-fairway-region",
        "x-fairway-ordered",
        "x-slo-ttft-ms",
        "x-slo-tpot-ms",
        "x-stainless-read-timeout",
        "x-stainless-retry-count",
    }
)
_MAX_CLIENT_CHARS: Final = 128
_MAX_REGION_CHARS: Final = 40


class RequestHints(msgspec.Struct, frozen=True):
    """None = the caller does not say."""

    klass: PriorityClass | None = None
    deadline_s: float | None = None
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    retry_count: int = 0
    client: str = ""  # the user agent, for the record
    region: str = ""  # where the call must run
    ordered: bool = False  # calls of this caller must not overtake each other


def request_hints(headers: Mapping[str, str], service_tier: str | None) -> RequestHints:
    """``headers`` as ``headers.decoded`` gives them. Raises Rejected(INVALID_REQUEST)."""
    client = headers.get("user-agent", "")[:_MAX_CLIENT_CHARS]
    if service_tier is None and _WISHES.isdisjoint(headers):
        return RequestHints(client=client)
    retries = headers.get("x-stainless-retry-count", "")
    return RequestHints(
        klass=_wished_class(headers, service_tier),
        deadline_s=_deadline_s(headers),
        slo_ttft_s=_own_seconds(headers, "x-slo-ttft-ms"),
        slo_tpot_s=_own_seconds(headers, "x-slo-tpot-ms"),
        retry_count=int(retries) if retries.isdecimal() and len(retries) < 4 else 0,
        client=client,
        region=headers.get("x-fairway-region", "")[:_MAX_REGION_CHARS],
        ordered=_switch(headers, "x-fairway-ordered"),
    )


def service_tier_of(klass: PriorityClass) -> str:
    """The class served, in the API's own word."""
    return _TIER_OF_CLASS[klass]


def _wished_class(headers: Mapping[str, str], service_tier: str | None) -> PriorityClass | None:
    if service_tier is not None and service_tier not in _CLASS_OF_TIER:
        known = ", ".join(_CLASS_OF_TIER)
        raise _refused(f"The service tier is unknown; known: {known}.", "service_tier")
    label = headers.get("x-fairway-priority")
    if label is None:
        return _CLASS_OF_TIER[service_tier] if service_tier is not None else None
    try:
        return PriorityClass.parse(label.strip().lower())
    except ValueError:
        known = ", ".join(member.label for member in PriorityClass)
        raise _refused(f"The class is unknown; known: {known}.", "x-fairway-priority") from None


def _deadline_s(headers: Mapping[str, str]) -> float | None:
    own_s = _own_seconds(headers, "x-fairway-deadline-ms")
    if own_s is not None:
        return own_s
    sdk_s = _number(headers.get("x-stainless-read-timeout", ""))
    return sdk_s if sdk_s is not None and 0 < sdk_s <= MAX_DEADLINE_S else None


def _own_seconds(headers: Mapping[str, str], name: str) -> float | None:
    if name not in headers:
        return None
    value_ms = _number(headers[name])
    if value_ms is None or not 0 < value_ms <= MAX_DEADLINE_S * 1000:
        raise _refused("The header must be a positive number of milliseconds.", name)
    return value_ms / 1000


def _switch(headers: Mapping[str, str], name: str) -> bool:
    value = headers.get(name, "false").strip().lower()
    if value not in ("true", "false"):
        raise _refused("The header must be true or false.", name)
    return value == "true"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _refused(message: str, param: str) -> Rejected:
    return Rejected(Reason.INVALID_REQUEST, message, param=param)
