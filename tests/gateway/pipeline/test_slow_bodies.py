"""A body that comes a byte a second."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.core.reasons import Reason
from tests.fakes.data_plane import House, chat


async def drips(house: House) -> tuple[int, str, float]:
    """Status, code and seconds of a call whose body comes one byte a second and never ends."""
    began_s = house.clock.monotonic()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(1.0)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    key = f"Bearer {house.secrets['acme']}".encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [(b"authorization", key)],
        "client": ("127.0.0.1", 5000),
    }
    await house.gateway.data_plane(scope, receive, send)
    told = json.loads(sent[1]["body"])["error"]["code"]
    return sent[0]["status"], told, house.clock.monotonic() - began_s


def test_slow_bodies_are_cut_at_ten_seconds_and_others_are_served_meanwhile(in_house: Any) -> None:
    """Row 07: 500 of them, and a call of an honest caller every second."""

    async def scenario(house: House) -> None:
        slow = [asyncio.create_task(drips(house)) for _ in range(500)]
        for _ in range(10):
            assert (await house.call(chat())).status == 200
            await asyncio.sleep(1.0)
        ended = await asyncio.gather(*slow)
        assert {(status, code) for status, code, _ in ended} == {(408, str(Reason.BODY_TIMEOUT))}
        assert all(10.0 <= took_s <= 10.5 for _, _, took_s in ended)
        assert house.leftovers == {}

    in_house(scenario)
