"""SGLang: a radix tree of prefixes shared among running calls, priorities where higher is first.

It counts cached tokens only when started with ``--enable-cache-report``. Its salt joins the key of
the tree; versions that do not know it ignore it.
"""

from __future__ import annotations

from gateway.replicas.adapters.adapter import Adapter, MetricNames, Priority, Sharing

SGLANG = Adapter(
    kind="sglang",
    title="SGLang",
    metrics_path="/metrics",
    metrics=MetricNames(
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_ratio=("sglang:token_usage",),
        prompt_tokens=("sglang:prompt_tokens_total",),
    ),
    endpoints=frozenset({"chat/completions", "completions", "embeddings"}),
    sharing=Sharing.BLOCKS,
    cache_salt=True,
    priority=Priority.HIGHER_FIRST,
)
