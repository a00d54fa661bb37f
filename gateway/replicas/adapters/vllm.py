"""vLLM: headers at once, blocks shared among sequences, cache salt, priorities where lower is
first.

The simulated replica speaks the same names, so it shares everything but its kind.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.replicas.adapters.adapter import Adapter, MetricNames, Priority, Sharing, StartedAt

VLLM = Adapter(
    kind="vllm",
    title="vLLM",
    metrics_path="/metrics",
    metrics=MetricNames(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_ratio=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    ),
    endpoints=frozenset({"chat/completions", "completions", "embeddings", "responses", "messages"}),
    started_at=StartedAt.FIRST_EVENT,
    sharing=Sharing.BLOCKS,
    cache_salt=True,
    priority=Priority.LOWER_FIRST,
)

SIMULATED = replace(
    VLLM,
    kind="simulated",
    title="simulated replica",
    endpoints=frozenset({"chat/completions", "completions"}),
)
