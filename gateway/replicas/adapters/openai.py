"""Any other OpenAI-compatible server: nothing is assumed that the API does not promise.

Such servers often have no ``/health``; listing the models proves as much. Some end a stream without
``[DONE]`` (transformers serve), so the marker is not demanded.
"""

from __future__ import annotations

from gateway.replicas.adapters.adapter import Adapter

OPENAI = Adapter(
    kind="openai",
    title="OpenAI-compatible server",
    health_path="/v1/models",
    done_marker=False,
)
