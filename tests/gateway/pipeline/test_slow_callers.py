"""A caller that reads slowly holds a slot which others wait for; its tokens were made long ago."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.core.events import ReplicaState
from gateway.core.reasons import Outcome
from tests.fakes.data_plane import House, chat, replica, tenant
from tests.fakes.scripts import tokens

TENANTS = (tenant("attacker"), tenant("victim"))
ONE_REPLICA = (replica("r1", slots=2),)


async def reads_every(house: House, seconds: float) -> None:
    """A stream whose caller takes one piece in so many seconds."""
    said = [json.dumps(chat(stream=True)).encode()]

    async def receive() -> dict[str, Any]:
        if not said:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": said.pop(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(seconds)

    key = f"Bearer {house.secrets['attacker']}".encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [(b"authorization", key)],
        "client": ("127.0.0.1", 5000),
    }
    await house.gateway.data_plane(scope, receive, send)


@pytest.mark.parametrize("every_s", [25.0, 3600.0], ids=["trickles", "stops"])
def test_slow_reader_gives_its_slot_up(in_house: Any, every_s: float) -> None:
    """Row 04. Slots would be held for hours at the price of a few tokens, nobody else served."""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(200, ttft_s=0.1, gap_s=0.01)
        slow = [asyncio.create_task(reads_every(house, every_s)) for _ in range(2)]
        await asyncio.sleep(40.0)
        answer = await house.call(chat(stream=True), tenant="victim")
        assert answer.done
        await asyncio.gather(*slow)
        ended = [record for record in house.records if record.tenant == "attacker"]
        assert {record.outcome for record in ended} == {Outcome.ABORTED}
        assert all(record.duration_s <= 90.0 for record in ended)
        assert all(record.completion_tokens > 0 for record in ended)
        assert house.leftovers == {}

    in_house(scenario, tenants=TENANTS, replicas=ONE_REPLICA)


def test_caller_that_reads_nothing_ejects_no_replica(in_house: Any) -> None:
    """Silence that the caller causes would take half of the pool away from all others."""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(200, ttft_s=0.1, gap_s=0.01)
        await asyncio.gather(*(reads_every(house, 3600.0) for _ in range(4)))
        states = {event.state for event in house.events if isinstance(event, ReplicaState)}
        assert states == {"serving"}

    in_house(scenario, tenants=TENANTS)


def test_caller_that_reads_almost_as_fast_as_tokens_come_is_served(in_house: Any) -> None:
    """More than a minute of waiting in all, but most of the time is the replica's."""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(200, ttft_s=0.1, gap_s=1.0)
        await reads_every(house, 0.6)
        assert house.records[0].outcome is Outcome.COMPLETED

    in_house(scenario, tenants=TENANTS, replicas=ONE_REPLICA)
