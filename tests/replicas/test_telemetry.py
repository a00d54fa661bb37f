from __future__ import annotations

import time

import pytest

from gateway.core.dispatch.effects import ReplicaTelemetry
from gateway.replicas.adapters import ADAPTERS
from gateway.replicas.telemetry import MAX_TEXT_BYTES, TelemetryUnusable, read

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 4.0
vllm:num_requests_running{engine="1",model_name="m"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 8.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 99.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
"""
LLAMACPP = b"""# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 4
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 2
"""


def sample(text: bytes, kind: str = "vllm") -> ReplicaTelemetry:
    return read(text, ADAPTERS[kind].metrics, slug="r1", at_s=1.0)


def test_vllm_engines_are_added_up_and_ratios_averaged() -> None:
    assert sample(VLLM) == ReplicaTelemetry("r1", 1.0, running=7, waiting=8, kv_ratio=0.375)


def test_llamacpp_reports_no_kv_which_is_not_zero() -> None:
    assert sample(LLAMACPP, "llamacpp") == ReplicaTelemetry("r1", 1.0, running=4, waiting=2)


def test_older_alias_is_read_when_the_current_name_is_missing() -> None:
    assert sample(b"vllm:gpu_cache_usage_perc 0.5\n").kv_ratio == 0.5
    both = b"vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.5\n"
    assert sample(both).kv_ratio == 0.5


@pytest.mark.parametrize("value", [b"NaN", b"-1", b"+Inf"])
def test_unusable_value_is_missing(value: bytes) -> None:
    """R17: missing is neither 0 nor 100 %."""
    text = b"vllm:num_requests_running 1\nvllm:num_requests_waiting %b\n" % value
    assert sample(text).waiting is None
    assert sample(text).running == 1


@pytest.mark.parametrize(
    "text",
    [b"", b"<html></html>", b"renamed 1\n", b"vllm:num_requests_running{ 1\n", b"\xff\x00\n"],
)
def test_text_without_a_known_series_is_unusable(text: bytes) -> None:
    """R17"""
    with pytest.raises(TelemetryUnusable):
        sample(text)


def test_name_that_begins_alike_is_another_series() -> None:
    with pytest.raises(TelemetryUnusable):
        sample(b'vllm:num_requests_waiting_by_reason{reason="capacity"} 5\n')


def test_longest_text_is_read_in_a_few_milliseconds() -> None:
    line = b'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 5.0\n'
    text = line * (MAX_TEXT_BYTES // len(line)) + VLLM
    started_s = time.process_time()
    assert sample(text).running == 7
    assert time.process_time() - started_s <= 0.05
