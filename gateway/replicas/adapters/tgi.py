"""Text Generation Inference: gauges of batch and queue, no gauge of memory, no cache salt.

Its token counts exist only as sums of histograms.
"""

from __future__ import annotations

from gateway.replicas.adapters.adapter import Adapter, MetricNames, Sharing

TGI = Adapter(
    kind="tgi",
    title="Text Generation Inference",
    metrics_path="/metrics",
    metrics=MetricNames(
        running=("tgi_batch_current_size",),
        waiting=("tgi_queue_size",),
        prompt_tokens=("tgi_request_input_length_sum",),
    ),
    sharing=Sharing.BLOCKS,
)
