"""How the tests of this folder make an attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from gateway.core.errors import UpstreamError
from gateway.replicas.simulated_server import SimulatedReplica, running
from gateway.replicas.upstream import AttemptTimeouts, ReplicaTarget, Upstream, UpstreamStream
from gateway.simulation.engine import EngineConfig
from tests.fakes.llamacpp import LlamaServer
from tests.fakes.scripted_replica import ScriptedReplica
from tests.fakes.scripts import Script

CHAT = "/v1/chat/completions"
BOTH = ("simulated", "llamacpp")
SHORT = AttemptTimeouts(connect_s=1.0, headers_s=5.0, idle_s=5.0)


def target(url: str, *, kind: str = "vllm", slug: str = "r1", serial: int = 0) -> ReplicaTarget:
    return ReplicaTarget(slug, "pool", kind, url, "m", "", serial)


@asynccontextmanager
async def either(
    request: pytest.FixtureRequest, real: str = "llama_server"
) -> AsyncIterator[ReplicaTarget]:
    """A replica of the kind that the fixture's parameter names, one of BOTH. ``real`` is the
    fixture of the real one."""
    if request.param == "simulated":
        config = EngineConfig(context_tokens=4_096)
        async with running(SimulatedReplica(config, "m", speed=4.0)) as replica:
            yield target(replica.url, kind="simulated")
    else:
        server: LlamaServer = request.getfixturevalue(real)
        yield target(server.url, kind="llamacpp")


def chat_body(text: str = "hello world", max_tokens: int = 8, **fields: Any) -> bytes:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return msgspec.json.encode(body | fields)


async def read(
    upstream: Upstream,
    to: ReplicaTarget,
    body: bytes = b"{}",
    timeouts: AttemptTimeouts = SHORT,
    headers: dict[str, str] | None = None,
) -> bytes:
    async with upstream.stream(to, CHAT, body, headers or {}, timeouts) as stream:
        return b"".join([chunk async for chunk in chunks(stream)])


async def chunks(stream: UpstreamStream) -> AsyncIterator[bytes]:
    """What comes, read by read; nothing is read ahead of who iterates."""
    came: list[bytes] = []

    def take(chunk: bytes) -> bool:
        came.append(chunk)
        return False

    while await stream.relay(take):
        yield came.pop()


async def failure(upstream: Upstream, replica: ScriptedReplica, script: Script) -> UpstreamError:
    replica.next(script)
    with pytest.raises(UpstreamError) as caught:
        await read(upstream, target(replica.url))
    return caught.value


def events(raw: bytes) -> list[dict[str, Any]]:
    """The JSON events of a stream, without [DONE]."""
    lines = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: ")]
    return [msgspec.json.decode(line) for line in lines if line != b"[DONE]"]


def text_of(raw: bytes) -> str:
    deltas = [event["choices"][0]["delta"] for event in events(raw) if event["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def usage_of(raw: bytes) -> dict[str, Any]:
    return next(event["usage"] for event in reversed(events(raw)) if event.get("usage"))
