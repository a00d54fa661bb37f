"""What a caller wishes beside the body, in every API: its tier, in and out, and its headers, which
reach the queue.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.dispatch.effects import Ticket
from gateway.pipeline.flows import ticket_of
from gateway.services.terms import ENDPOINTS
from gateway.wire.body import REFUSED_FIELDS
from tests.fakes import scripts
from tests.fakes.data_plane import MODEL, POOL, Answer, House, chat
from tests.fakes.message_scripts import message
from tests.fakes.scripts import Script, Send
from tests.wire.responses.streams import WHOLE

SAID = [{"role": "user", "content": "hello"}]
VECTOR = b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],'
VECTOR += b'"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}'
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": SAID},
    "completions": {"prompt": "hello"},
    "responses": {"input": "hello"},
    "embeddings": {"input": "hello"},
    "messages": {"messages": SAID, "max_tokens": 5},
}


def said(_: Any, raw: bytes) -> Script:
    body = json.loads(raw)
    if "prompt" in body:
        end = {"index": 0, "text": "x", "finish_reason": "stop"}
        whole = scripts.event({"choices": [end]}), scripts.usage_chunk(), scripts.DONE
        return Script(tuple(map(Send, whole)))
    if "messages" in body:
        return scripts.tokens() if "stream_options" in body else message()
    if body.get("stream"):
        return Script(tuple(map(Send, WHOLE)))
    return Script((Send(VECTOR),), headers=(("Content-Type", "application/json"),))


def serving_all(house: House) -> None:
    pool = replace(house.snapshot.pools[POOL], endpoints=frozenset(ENDPOINTS))
    house.change(pools={POOL: pool})
    house.scripted.default = said


async def ask(house: House, endpoint: str, **fields: Any) -> Answer:
    body = {"model": MODEL, **BODIES[endpoint], **fields}
    return await house.call(body, path=f"/v1/{endpoint}")


def param_of(refused: Answer) -> Any:
    error = refused.json()["error"]
    return error.get("param", error.get("details", {}).get("param"))


def told_tier(endpoint: str, answer: Answer) -> str | None:
    body = answer.json()
    tier = (body["usage"] if endpoint == "messages" else body).get("service_tier")
    return None if tier is None else str(tier)


@pytest.mark.parametrize(
    ("endpoint", "tier", "served", "told"),
    [
        ("chat/completions", "auto", "standard", "default"),
        ("chat/completions", "priority", "interactive", "priority"),
        ("chat/completions", "fast", "interactive", "priority"),
        ("completions", "flex", "batch", "flex"),
        ("completions", "scale", "standard", "default"),
        ("responses", "flex", "batch", "flex"),
        ("responses", "priority", "interactive", "priority"),
        ("embeddings", "flex", "batch", None),  # its answer is the replica's, byte for byte
        ("messages", "auto", "standard", "standard"),
        ("messages", "standard_only", "standard", "standard"),
    ],
)
def test_a_tier_is_served_and_told_in_every_api(
    in_house: Any, endpoint: str, tier: str, served: str, told: str | None
) -> None:
    async def scenario(house: House) -> None:
        serving_all(house)
        answer = await ask(house, endpoint, service_tier=tier)
        assert (answer.status, answer.headers["x-fairway-class"]) == (200, served)
        assert told_tier(endpoint, answer) == told
        refused = await ask(house, endpoint, service_tier="gold")
        assert (refused.status, param_of(refused)) == (400, "service_tier")

    in_house(scenario)


@pytest.mark.parametrize("endpoint", BODIES)
def test_a_field_that_would_steer_a_replica_is_taken_by_no_api(
    in_house: Any, endpoint: str
) -> None:
    """S21"""

    async def scenario(house: House) -> None:
        serving_all(house)
        values: tuple[Any, ...] = ("http://evil", None, {})
        for name in REFUSED_FIELDS:
            for value in values:
                refused = await ask(house, endpoint, **{name: value})
                assert (refused.status, param_of(refused)) == (400, name)
        for outer, name in (
            ("metadata", "other_api_key"),
            ("chat_template_kwargs", "chat_template"),  # which engines take from there too
            ("chat_template_kwargs", "tokenize"),
            ("chat_template_args", "chat_template"),
        ):
            refused = await ask(house, endpoint, **{outer: {name: "x"}})
            assert (refused.status, param_of(refused)) == (400, f"{outer}.{name}")
        assert house.scripted.attempts == []
        fine = {"vendor": "x", "chat_template_kwargs": {"enable_thinking": False}}
        assert (await ask(house, endpoint, **fine)).status == 200

    in_house(scenario)


def test_what_headers_wish_reaches_the_queue(
    in_house: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets: list[Ticket] = []

    def kept(call: Any) -> Ticket:
        tickets.append(ticket_of(call))
        return tickets[-1]

    monkeypatch.setattr("gateway.pipeline.life.ticket_of", kept)
    headers = {
        "x-fairway-deadline-ms": "1500",
        "x-slo-ttft-ms": "250",
        "x-stainless-retry-count": "2",
        "x-fairway-ordered": "true",
    }

    async def scenario(house: House) -> None:
        began_s = house.clock.monotonic()
        await house.call(chat(user="u1"), headers=headers)
        (ticket,) = tickets
        assert ticket.deadline_s == pytest.approx(began_s + 1.5)
        assert (ticket.ttft_objective_s, ticket.retry_count) == (0.25, 2)
        assert (ticket.ordered, ticket.end_user) == (True, "u1")
        await house.call(chat())
        assert tickets[1].ttft_objective_s is None

    in_house(scenario)
