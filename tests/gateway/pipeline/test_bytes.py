"""What the replica sent is what the caller gets, byte for byte, however the reads were cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes import scripts
from tests.fakes.data_plane import House, chat
from tests.fakes.scripts import DONE, Script, Send

FRAMES = (
    b": ping\n\n"
    + scripts.ROLE
    + b'data: {"choices":[{"index":0,"delta":{"content":"\xc3\xa9\xe2\x82\xac [DONE] x"}}],\r\n'
    + b'data: "vendor":{"kept":1}}\r\n\r\n'
    + scripts.chunk(content="", reasoning_content="why", vendor_field={"a": [1]})
    + b": ping\r\r"
    + scripts.chunk("stop")
)
USAGE = scripts.usage_chunk(10, 2)


@pytest.mark.parametrize("size", range(1, len(FRAMES) + 1, 7))
def test_any_slicing_relays_the_same_bytes(in_house: Any, size: int) -> None:
    """G9, G11, R30: cut inside characters, line ends and comments"""

    async def scenario(house: House) -> None:
        whole = FRAMES + USAGE + DONE
        cuts = [Send(whole[at : at + size]) for at in range(0, len(whole), size)]
        house.scripted.default = Script(tuple(cuts))
        answer = await house.call(chat(stream=True))
        assert answer.body == FRAMES + DONE
        assert house.records[0].outcome == "completed"

    in_house(scenario)


def test_any_cut_relays_the_same_bytes(in_house: Any) -> None:
    """G9: every byte offset"""

    async def scenario(house: House) -> None:
        whole = FRAMES + USAGE + DONE
        for at in range(1, len(whole)):
            house.scripted.default = Script((Send(whole[:at]), Send(whole[at:])))
            answer = await house.call(chat(stream=True))
            assert answer.body == FRAMES + DONE, at

    in_house(scenario)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_caller_that_must_be_waited_for_now_and_then_gets_the_same_bytes(
    in_house: Any, every: int
) -> None:
    """All but the head, the first content and the end are written in the read in which they come,
    where the caller has room."""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(40, gap_s=0.01)
        answer = await house.call(chat(stream=True), full_every=every)
        assert answer.text == "".join(f"t{number} " for number in range(40))
        assert answer.done
        assert house.records[0].completion_tokens == 40
        assert answer.at_once == (0 if every == 1 else pytest.approx(40 * (1 - 1 / every), abs=2))

    in_house(scenario)


@pytest.mark.parametrize("stream", [True, False])
def test_answer_is_complete_though_its_body_does_not_end(in_house: Any, stream: bool) -> None:
    """The connection is given up a moment after the end marker, the answer is not."""

    async def scenario(house: House) -> None:
        house.scripted.default = Script((*scripts.tokens(3).steps, scripts.Hang()))
        answer = await house.call(chat(stream=stream))
        assert answer.status == 200
        assert answer.done or not stream
        [record] = house.records
        assert (record.outcome, record.completion_tokens) == ("completed", 3)
        assert record.duration_s < 0.5
        assert house.scripted.attempts[0].closed_early
        assert house.leftovers == {}

    in_house(scenario)


def test_unknown_request_fields_reach_the_replica(in_house: Any) -> None:
    """G11, S21: what is refused never does"""

    async def scenario(house: House) -> None:
        fields: dict[str, Any] = {"guided_json": {"type": "object"}, "vendor": [1], "top_k": 3}
        await house.call(chat("hi", **fields))
        sent = json.loads(house.scripted.attempts[0].body)
        assert {name: sent[name] for name in fields} == fields
        refused = await house.call(chat(api_base="http://evil"))
        assert (refused.status, refused.json()["error"]["param"]) == (400, "api_base")
        assert len(house.scripted.attempts) == 1

    in_house(scenario)


def test_only_allowed_headers_reach_the_replica(in_house: Any) -> None:
    """R30, S25"""

    async def scenario(house: House) -> None:
        sent = {"x-conversation-id": "c", "cookie": "s=1", "traceparent": "00-1", "x-tenant": "e"}
        await house.call(chat(), headers=sent)
        received = {name.lower() for name in house.scripted.attempts[0].headers}
        assert "traceparent" in received
        assert not received & {"x-conversation-id", "cookie", "x-tenant"}

    in_house(scenario)
