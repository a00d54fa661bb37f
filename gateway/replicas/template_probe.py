"""Does a model's template put tools before the system message, or after it?

The same request is rendered three times: as it is, with another system message, with another tool.
What comes first in the template is what, when changed, leaves less of the beginning unchanged. So
nothing is assumed about the template, and text (llama.cpp's ``/apply-template``) serves as well as
token ids (vLLM's ``/tokenize``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from gateway.core.errors import UpstreamError
from gateway.replicas.adapters import adapter_of
from gateway.replicas.upstream import PlainAnswer, ReplicaTarget

TOOLS_FIRST, SYSTEM_FIRST = "tools_first", "system_first"
TIMEOUT_S = 5.0
MOST_BYTES = 1024 * 1024


class Renderer(Protocol):
    """What of ``HttpUpstream`` is used here. Raises UpstreamError."""

    async def post(
        self, target: ReplicaTarget, path: str, body: bytes, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer: ...


async def template_order(upstream: Renderer, target: ReplicaTarget, model: str) -> str | None:
    """TOOLS_FIRST or SYSTEM_FIRST; None when this replica does not tell."""
    path = adapter_of(target.kind).template_path
    if path is None:
        return None
    try:
        plain = await _rendered(upstream, target, path, _request(model, "alpha", "alpha"))
        other_system = await _rendered(upstream, target, path, _request(model, "beta", "alpha"))
        other_tool = await _rendered(upstream, target, path, _request(model, "alpha", "beta"))
    except (UpstreamError, msgspec.DecodeError):
        return None
    if plain is None or other_system is None or other_tool is None or plain == other_system:
        return None
    tools_kept, system_kept = _shared(plain, other_system), _shared(plain, other_tool)
    return TOOLS_FIRST if tools_kept > system_kept else SYSTEM_FIRST


def _request(model: str, system: str, tool: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}}
    function = {"name": tool, "description": tool, "parameters": parameters}
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": "hello"},
        ],
        "tools": [{"type": "function", "function": function}],
    }


async def _rendered(
    upstream: Renderer, target: ReplicaTarget, path: str, request: dict[str, Any]
) -> Sequence[Any] | None:
    body = msgspec.json.encode(request)
    said = await upstream.post(target, path, body, timeout_s=TIMEOUT_S, max_bytes=MOST_BYTES)
    if said.status != 200:
        return None
    answer = msgspec.json.decode(said.body)
    rendered = answer.get("prompt", answer.get("tokens")) if isinstance(answer, dict) else None
    return rendered if isinstance(rendered, str | list) else None


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
