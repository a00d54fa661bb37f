"""What the programs of this package talk to: an installation with pools of simulated, real and
scripted replicas, vectors, and a tenant for each client that may make one call a second.

The scripted replica does what the last words of the prompt say: ``call a tool``, ``break`` (in the
middle of the stream), ``endless``, ``echo`` (its answer is the request as it came), else three
tokens.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

from tests.e2e.operator import Operator
from tests.e2e.scripted import in_force, scripted
from tests.fakes import message_scripts, scripts
from tests.fakes.scripted_replica import ScriptedReplica
from tests.fakes.scripts import Script, Step
from tests.wire.responses import streams

Facts = dict[str, Any]
CALLS_PER_MINUTE = 60
ENDLESS_TOKENS, GAP_S = 1_000, 0.05


@contextlib.asynccontextmanager
async def staged(
    operator: Operator, names: Iterable[str]
) -> AsyncIterator[tuple[ScriptedReplica, dict[str, Facts]]]:
    """The replica, and the facts for each of these clients. The models ``tiny``, ``sim-vectors``
    and ``tiny-vectors`` are the caller's to set up."""
    place = operator.place
    facts = {"url": place.url, "key": place.key_of("bursty-bikes")}
    slow = {name: _slow_key(operator, f"client-{name}") for name in names}
    await in_force(place, max((operator.version(f"client-{name}") for name in slow), default=0))
    async with scripted(operator, slots=16, capabilities=["tools", "vision"]) as replica:
        replica.default = answer
        yield replica, {name: {**facts, "slow_key": key} for name, key in slow.items()}


def _slow_key(operator: Operator, slug: str) -> str:
    operator.post("/tenants", name=slug, slug=slug, why="test")
    limit = {"meter": "rpm", "amount": CALLS_PER_MINUTE, "burst": 1, "klass": "online"}
    operator.put(f"/tenants/{slug}/limits", **limit)
    return str(operator.post(f"/tenants/{slug}/keys", label="k")["api_key"])


def answer(raw: bytes) -> Script:
    body = json.loads(raw)
    if "input" in body:
        return _response(raw.decode(), _last_words({"messages": body["input"]}))
    of_chat = "stream_options" in body
    match _last_words(body):
        case "call a tool":
            return scripts.tool_call() if of_chat else message_scripts.tool_call()
        case "break":
            whole = scripts.tokens(2) if of_chat else message_scripts.message(2)
            return Script((*whole.steps[: 3 if of_chat else 4], scripts.Cut()))
        case "endless":
            kind = scripts.tokens if of_chat else message_scripts.message
            return kind(ENDLESS_TOKENS, gap_s=GAP_S)
        case "echo":
            return _says(raw.decode()) if of_chat else _message_says(raw.decode())
    return scripts.tokens(3) if of_chat else message_scripts.message(3)


def _last_words(body: dict[str, Any]) -> str:
    content = body["messages"][-1].get("content") if body.get("messages") else ""
    if isinstance(content, str):
        return content
    return next((part["text"] for part in content or () if "text" in part), "")


def _response(raw: str, words: str) -> Script:
    said = [*streams.opening(), streams.text_delta(raw if words == "echo" else "x", 4)]
    end: list[Step] = [scripts.Cut()] if words == "break" else []
    end = end or [*map(scripts.Send, streams.closing(5))]
    return Script((*map(scripts.Send, said), *end))


def _says(text: str) -> Script:
    said = (scripts.ROLE, scripts.chunk(content=text))
    return Script((*map(scripts.Send, said), *scripts.ending(1)))


def _message_says(text: str) -> Script:
    m = message_scripts
    said = (m.begun(), m.opened(), m.said(text), m.shut(), m.ended(1), m.STOP)
    return Script(tuple(map(scripts.Send, said)))
