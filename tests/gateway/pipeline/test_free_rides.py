"""What a replica has done for a caller is paid for, however the caller arranges it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.fakes.data_plane import POOL, House, chat
from tests.fakes.scripts import ROLE, Script, Send, chunk, ending, tokens

DENSE = random.Random(1).randbytes(20_000).hex()
BLANK = "a" + 40_000 * " "
TOKENS_OF_DENSE = 20_000


async def prefilled_and_left(house: House) -> int:
    """What a caller is charged that leaves with the first token."""
    house.scripted.default = tokens(50, ttft_s=1.0, gap_s=0.1, prompt=TOKENS_OF_DENSE)
    leave = asyncio.Event()
    asyncio.get_running_loop().call_later(1.05, leave.set)
    await house.call(chat(DENSE, stream=True), leave=leave)
    return house.records[-1].prompt_tokens


def test_blanks_do_not_make_later_prompts_cheap(in_house: Any) -> None:
    """64 blanks are one token. A call that is cut is charged by what its caller's calls have
    taught, and would cost a fortieth of its prefill."""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(1, prompt=len(BLANK) // 64)
        for _ in range(40):
            await house.call(chat(BLANK, stream=True))
        assert await prefilled_and_left(house) >= 0.5 * TOKENS_OF_DENSE

    in_house(scenario)


def test_answer_that_outgrows_the_gateway_is_paid_for(in_house: Any) -> None:
    """Eight choices with twenty alternatives for every token: 64 MB of events, made and thrown
    away. Its refund would be credit, before everybody else."""

    async def scenario(house: House) -> None:
        pieces = [Send(chunk(content="x" * 100_000))] * 700
        house.scripted.default = Script((Send(ROLE), *pieces, *ending(700)))
        answer = await house.call(chat())
        assert answer.status == 502
        assert house.records[0].completion_tokens > 600
        assert house.records[0].charge_microcredits > 1_200
        assert house.gateway.views()[POOL].service["acme"] > 1_200

    in_house(scenario)
