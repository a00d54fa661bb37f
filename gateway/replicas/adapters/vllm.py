"""vLLM: headers at once, blocks shared among sequences, cache salt, priorities where lower is
first.

Its chunks may hold several tokens, so the running usage is asked for: it meters a call exactly even
when its client hangs up. The simulated replica speaks the same names, one token per chunk.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from gateway.replicas.adapters.adapter import (
    EVERY_ENDPOINT,
    Adapter,
    MetricNames,
    Priority,
    Sharing,
)

VLLM = Adapter(
    kind="vllm",
    title="vLLM",
    metrics_path="/metrics",
    template_path="/tokenize",
    metrics=MetricNames(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_ratio=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        preemptions=("vllm:num_preemptions_total",),
        prompt_tokens=("vllm:prompt_tokens_total",),
    ),
    endpoints=EVERY_ENDPOINT,
    body_extras=MappingProxyType({"stream_options": {"continuous_usage_stats": True}}),
    sharing=Sharing.BLOCKS,
    cache_salt=True,
    priority=Priority.LOWER_FIRST,
)

SIMULATED = replace(
    VLLM,
    kind="simulated",
    title="simulated replica",
    template_path=None,
    body_extras=MappingProxyType({}),
)
