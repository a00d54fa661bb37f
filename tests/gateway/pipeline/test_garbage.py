"""Whatever a replica sends, cut however, the caller gets the same answer, and no bug shows."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from gateway.core.reasons import Reason
from tests.fakes import scripts
from tests.fakes.data_plane import Answer, House, chat, replica
from tests.fakes.scripts import Script, Send

CASES = int(os.environ.get("TEST_GARBAGE_CASES", "300"))
USUAL = [step.data for step in scripts.tokens(2).steps if isinstance(step, Send)]
PIECES: list[bytes] = [
    *USUAL,
    *USUAL,
    scripts.chunk(content="é😀\u2028"),
    scripts.event({"error": {"message": "engine dead", "code": 500}}),
    scripts.event({"choices": 5}),
    scripts.event({"choices": [1, None, [], "x", {}], "usage": {"completion_tokens": -1}}),
    b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":' + b"[" * 200 + b"\n\n",
    b"data: \x00\n\n",
    b"data: {broken\n\n",
    b"data: [DONE]",
    b"\xef\xbb\xbf",
    b": ping\n\n",
    b"event: error\r\n",
    b"id: 7\rretry: 10\r",
    b"\r",
    b"\r\n",
    b"\n",
]


def generated(rng: random.Random) -> bytes:
    """Legal and illegal pieces in any order, some line ends changed, some bytes too, cut short."""
    raw = b"".join(rng.choices(PIECES, k=rng.randint(1, 6)))
    raw = raw.replace(b"\n", rng.choice((b"\n", b"\n", b"\r\n", b"\r")))
    changed = bytearray(raw)
    for _ in range(rng.choice((0, 0, 1, 3))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.choice((len(changed), rng.randint(1, len(changed))))])


def sliced(raw: bytes, size: int) -> Script:
    """Pieces of ``size`` bytes."""
    return Script(tuple(Send(raw[at : at + size]) for at in range(0, len(raw), size)))


def meaning(answer: Answer) -> tuple[int, bytes]:
    return answer.status, answer.body


@pytest.mark.timeout(2_000)  # at full size
def test_generated_streams_give_one_answer_for_every_slicing_and_no_bug(in_house: Any) -> None:
    """Row 44, G9: each stream whole and in slices of one byte, relayed and collected."""
    rng = random.Random(44)

    async def scenario(house: House) -> None:
        for case in range(CASES):
            raw, stream = generated(rng), case % 4 != 0
            answers = []
            for size in (len(raw), 1):
                house.gateway.pipeline.retries.keep(())
                house.scripted.default = sliced(raw, size)
                answers.append(await house.call(chat(stream=stream)))
            assert meaning(answers[0]) == meaning(answers[1]), raw
            told = house.records[-1]
            assert told.reason is not Reason.INTERNAL, raw
            if not stream:
                json.loads(answers[1].body)
            house.records.clear()
            house.events.clear()
            house.scripted.attempts.clear()
        assert house.leftovers == {}

    in_house(scenario, replicas=(replica("only", slots=1),))
    print(f"{CASES} generated streams, whole and in slices of one byte: the same answers, 0 bugs")
