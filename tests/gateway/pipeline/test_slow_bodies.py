"""Bodies that come a byte a second, or never end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.core.reasons import Reason
from tests.fakes.data_plane import House, chat


async def endless(house: House, piece: bytes, every_s: float) -> tuple[int, str, float, int]:
    """Status, code, seconds and bytes read of a call whose body comes so and never ends."""
    began_s = house.clock.monotonic()
    sent: list[dict[str, Any]] = []
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        await asyncio.sleep(every_s)
        read += len(piece)
        return {"type": "http.request", "body": piece, "more_body": True}

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
    return sent[0]["status"], told, house.clock.monotonic() - began_s, read


def test_slow_bodies_are_cut_at_ten_seconds_and_others_are_served_meanwhile(in_house: Any) -> None:
    """Row 07: 500 of them, and a call of an honest caller every second."""

    async def scenario(house: House) -> None:
        slow = [asyncio.create_task(endless(house, b" ", 1.0)) for _ in range(500)]
        for _ in range(10):
            assert (await house.call(chat())).status == 200
            await asyncio.sleep(1.0)
        ended = await asyncio.gather(*slow)
        assert {(status, code) for status, code, _, _ in ended} == {(408, str(Reason.BODY_TIMEOUT))}
        assert all(10.0 <= took_s <= 10.5 for _, _, took_s, _ in ended)
        assert house.leftovers == {}

    in_house(scenario)


def test_a_body_without_a_length_or_an_end_is_read_to_the_limit_only(in_house: Any) -> None:
    """Row 11: at most 64 KiB beyond it."""

    async def scenario(house: House) -> None:
        status, code, _, read_bytes = await endless(house, b" " * 65536, 0.0)
        assert (status, code) == (413, str(Reason.BODY_TOO_LARGE))
        assert read_bytes <= house.snapshot.most_body_bytes + 65536
        assert house.leftovers == {}

    in_house(scenario)
