import pytest

from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.wire.request_hints import request_hints, service_tier_of

INTERACTIVE, STANDARD, BATCH = PriorityClass


@pytest.mark.parametrize(
    ("header", "tier", "klass"),
    [
        (None, None, None),
        (None, "auto", None),
        (None, "default", None),
        (None, "priority", INTERACTIVE),
        (None, "fast", INTERACTIVE),
        (None, "flex", BATCH),
        ("standard", "fast", STANDARD),
        (" Batch ", None, BATCH),
    ],
)
def test_class_is_wished_by_header_before_tier(
    header: str | None, tier: str | None, klass: PriorityClass | None
) -> None:
    headers = {} if header is None else {"x-fairway-priority": header}
    assert request_hints(headers, tier).klass is klass


@pytest.mark.parametrize(
    ("header", "tier", "param"),
    [("urgent", None, "x-fairway-priority"), ("0", "fast", "x-fairway-priority"),
     ("batch", "gold", "service_tier")],
)  # fmt: skip
def test_unknown_class_is_refused(header: str, tier: str | None, param: str) -> None:
    """G18"""
    with pytest.raises(Rejected) as caught:
        request_hints({"x-fairway-priority": header}, tier)
    assert (caught.value.reason, caught.value.param) == (Reason.INVALID_REQUEST, param)


def test_served_class_has_a_word_of_the_api() -> None:
    assert [service_tier_of(klass) for klass in PriorityClass] == ["priority", "default", "flex"]


def test_own_deadline_wins_over_the_sdks() -> None:
    headers = {"x-fairway-deadline-ms": "1500", "x-stainless-read-timeout": "600"}
    assert request_hints(headers, None).deadline_s == 1.5
    assert request_hints({"x-stainless-read-timeout": "600"}, None).deadline_s == 600
    assert request_hints({}, None).deadline_s is None


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "inf", "None", "1e9"])
def test_senseless_deadlines(value: str) -> None:
    assert request_hints({"x-stainless-read-timeout": value}, None).deadline_s is None
    with pytest.raises(Rejected) as caught:
        request_hints({"x-fairway-deadline-ms": value and value + "000"}, None)
    assert caught.value.param == "x-fairway-deadline-ms"


def test_objectives_are_milliseconds() -> None:
    hints = request_hints({"x-slo-ttft-ms": "250", "x-slo-tpot-ms": "40"}, None)
    assert (hints.slo_ttft_s, hints.slo_tpot_s) == (0.25, 0.04)


@pytest.mark.parametrize(("value", "count"), [("2", 2), ("", 0), ("-1", 0), ("x", 0), ("9999", 0)])
def test_retry_count_of_the_sdk(value: str, count: int) -> None:
    assert request_hints({"x-stainless-retry-count": value}, None).retry_count == count


def test_user_agent_is_shortened() -> None:
    assert len(request_hints({"user-agent": "x" * 1000}, None).client) == 128
