"""Can one tenant use up what all tenants share: the table of active calls, the health of the
replicas, the memory of what was promised?"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from gateway.core.reasons import Reason
from tests.fakes.data_plane import POOL, House, chat, replica, tenant
from tests.fakes.scripts import Script, Wait, hang_before_headers, tokens
from tests.fakes.virtual_time import VirtualTime, virtual_time

__all__ = ["virtual_time"]

CLASSES = ("interactive", "standard", "batch")
TENANTS = (tenant("attacker"), tenant("victim"))


def run(time: VirtualTime, folder: Path, scenario: Any, replicas: int = 2) -> None:
    async def main() -> None:
        slots = [replica(f"r{number}") for number in range(replicas)]
        house = await House(time.clock, folder, tenants=TENANTS, replicas=slots).open()
        try:
            await scenario(house)
        finally:
            await house.close()

    time.run(main())


def test_calls_of_one_tenant_leave_room_in_the_table(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    """Three classes of 500 that wait, and the slots: else the victim would be told that the gateway
    is full."""

    async def scenario(house: House) -> None:
        house.scripted.default = hang_before_headers()
        held = [
            asyncio.create_task(
                house.call(
                    chat(f"call {number}"),
                    tenant="attacker",
                    headers={"x-fairway-priority": CLASSES[number % 3]},
                )
            )
            for number in range(1_800)
        ]
        await asyncio.sleep(1.0)
        leave = asyncio.Event()
        victim = asyncio.create_task(house.call(chat(), tenant="victim", leave=leave))
        await asyncio.sleep(1.0)
        refused = Counter(record.reason for record in house.records)
        assert set(refused) == {Reason.QUEUE_FULL.value}
        waits = house.gateway.views()[POOL].queued
        assert sum(count for (slug, _), count in waits.items() if slug == "victim") == 1
        leave.set()
        for task in held:
            task.cancel()
        await asyncio.gather(victim, *held, return_exceptions=True)

    run(virtual_time, tmp_path, scenario)


def test_prompts_that_break_replicas_take_none_of_them(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    """A request that every replica answers with 500 would take the pool away from everybody."""

    async def scenario(house: House) -> None:
        bad = Script(status=500, headers_after=(Wait(0.05),))
        good = tokens(5, ttft_s=0.1)
        house.scripted.default = lambda target, body: bad if b"poison" in body else good

        async def breaks() -> None:
            while True:
                await house.call(chat("poison", stream=True), tenant="attacker")
                await asyncio.sleep(0.2)

        breaking = [asyncio.create_task(breaks()) for _ in range(8)]
        for _ in range(60):
            answer = await house.call(chat("well", stream=True), tenant="victim")
            assert answer.done
            assert {live.state for live in house.gateway.fleet.live()} == {"serving"}
            await asyncio.sleep(0.3)
        for task in breaking:
            task.cancel()
        await asyncio.gather(*breaking, return_exceptions=True)

    run(virtual_time, tmp_path, scenario, replicas=4)
