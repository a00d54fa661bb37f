"""Several choices of one request to a simulated replica: told in one answer, counted together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from gateway.replicas.simulated_server import SimulatedReplica, running
from gateway.simulation.engine import EngineConfig

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Of the sea."}], "max_tokens": 4}
PROMPTS = ["The sea", "A mountain of snow"]


class Asked:
    def __init__(self, replica: SimulatedReplica, url: str) -> None:
        self.replica = replica
        self._url = url

    async def __call__(self, path: str, status: int = 200, **fields: Any) -> bytes:
        body = {"model": "m", "ignore_eos": True, **fields}
        async with aiohttp.request("POST", f"{self._url}/v1/{path}", json=body) as answer:
            assert answer.status == status
            return await answer.read()


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    replica = SimulatedReplica(EngineConfig(context_tokens=4_096, queue_limit=4), "m", speed=4.0)
    async with running(replica) as listening:
        yield Asked(replica, listening.url)


def chunks(raw: bytes) -> list[Any]:
    *events, done, rest = raw.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    return [msgspec.json.decode(event.removeprefix(b"data: ")) for event in events]


async def test_whole_choices_count_their_prompt_once(asked: Asked) -> None:
    alone = msgspec.json.decode(await asked("chat/completions", **CHAT))
    told = msgspec.json.decode(await asked("chat/completions", n=3, **CHAT))
    assert [choice["index"] for choice in told["choices"]] == [0, 1, 2]
    assert told["usage"]["prompt_tokens"] == alone["usage"]["prompt_tokens"]
    assert told["usage"]["completion_tokens"] == 12
    assert asked.replica.engine.running == 0


async def test_streamed_choices_have_one_id_and_one_usage(asked: Asked) -> None:
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    told = chunks(await asked("chat/completions", n=2, **options, **CHAT))
    assert len({each["id"] for each in told}) == 1
    choices = [choice for each in told for choice in each["choices"]]
    ends = [choice["index"] for choice in choices if choice["finish_reason"]]
    assert sorted(ends) == [0, 1]
    assert [bool(each.get("usage")) for each in told] == [False] * (len(told) - 1) + [True]
    assert told[-1]["usage"]["completion_tokens"] == 8


@pytest.mark.parametrize("stream", [False, True])
async def test_each_prompt_has_its_own_choices(asked: Asked, stream: bool) -> None:
    raw = await asked("completions", prompt=PROMPTS, n=2, max_tokens=9, stream=stream)
    told = chunks(raw) if stream else [msgspec.json.decode(raw)]
    texts = ["", "", "", ""]
    for choice in (choice for each in told for choice in each["choices"]):
        texts[choice["index"]] += choice["text"]
    assert texts[0] == texts[1] != texts[2] == texts[3]


async def test_choices_that_have_no_place_are_refused_together(asked: Asked) -> None:
    await asked("chat/completions", 503, n=5, **CHAT)
    await asked("chat/completions", 400, n=0, **CHAT)
    assert (asked.replica.engine.running, asked.replica.engine.waiting) == (0, 0)
