"""llama.cpp server: one prefix per slot, a keep-alive that is not kept.

``timings_per_token`` puts the running ``predicted_n`` into every chunk, which meters a call exactly
even when its client hangs up. There is no overload answer and no KV gauge.
"""

from __future__ import annotations

from types import MappingProxyType

from gateway.replicas.adapters.adapter import (
    EVERY_ENDPOINT,
    Adapter,
    MetricNames,
    Sharing,
)

LLAMACPP = Adapter(
    kind="llamacpp",
    title="llama.cpp server",
    metrics_path="/metrics",
    template_path="/apply-template",
    metrics=MetricNames(
        running=("llamacpp:requests_processing",),
        waiting=("llamacpp:requests_deferred",),
        prompt_tokens=("llamacpp:prompt_tokens_total",),
    ),
    endpoints=EVERY_ENDPOINT,
    body_extras=MappingProxyType({"timings_per_token": True}),
    needs_max_tokens=True,
    closes_after_stream=True,
    sharing=Sharing.PER_SLOT,
)
