"""Which comes first in a model's template, tools or system message?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.template_probe import SYSTEM_FIRST, TOOLS_FIRST, template_order
from gateway.replicas.upstream import PlainAnswer, ReplicaTarget
from tests.fakes.llamacpp import MODEL_NAME, LlamaServer


class Rendering:
    """A replica that answers with what ``render`` makes of tool and system message."""

    def __init__(self, render: Callable[[str, str], Any]) -> None:
        self._render = render

    async def post(
        self, target: ReplicaTarget, path: str, body: bytes, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        request = json.loads(body)
        tool = request["tools"][0]["function"]["name"]
        rendered = self._render(tool, request["messages"][0]["content"])
        return PlainAnswer(200, json.dumps(rendered).encode())


class Refusing(Rendering):
    def __init__(self) -> None:
        def refuse(tool: str, system: str) -> Any:
            raise UpstreamError(Reason.UPSTREAM_REFUSED)

        super().__init__(refuse)


async def order_of(upstream: Rendering, kind: str = "vllm") -> str | None:
    target = ReplicaTarget("r1", "pool", kind, "http://r1")
    return await template_order(upstream, target, "model")


def ids(text: str) -> dict[str, list[int]]:
    return {"tokens": list(text.encode())}


@pytest.mark.parametrize(
    ("render", "order"),
    [
        (lambda tool, system: ids(f"<tools>{tool}</tools>{system} hello"), TOOLS_FIRST),
        (lambda tool, system: ids(f"{system}<tools>{tool}</tools> hello"), SYSTEM_FIRST),
        (lambda tool, system: {"prompt": f"<s>{tool}\n{system} hello"}, TOOLS_FIRST),
        (lambda tool, system: {"prompt": f"<s>{system} hello"}, SYSTEM_FIRST),
        (lambda tool, system: {"prompt": "no system message at all"}, None),
        (lambda tool, system: {"count": 5}, None),
        (lambda tool, system: ["not", "an", "object"], None),
    ],
)
async def test_the_order_is_read_off_what_changes(
    render: Callable[[str, str], Any], order: str | None
) -> None:
    assert await order_of(Rendering(render)) == order


async def test_a_server_that_cannot_render_is_left_alone() -> None:
    assert await order_of(Refusing()) is None
    assert await order_of(Refusing(), kind="openai") is None


async def test_a_real_server_tells(llama_server: LlamaServer) -> None:
    """Its template has no tools: what is first is the system message."""
    upstream = HttpUpstream(("127.0.0.0/8",))
    target = ReplicaTarget("r1", "pool", "llamacpp", llama_server.url)
    try:
        assert await template_order(upstream, target, MODEL_NAME) == SYSTEM_FIRST
    finally:
        await upstream.close()
