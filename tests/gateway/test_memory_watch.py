"""Row 19: what the gateway does while its memory fills, with figures made up and with real ones."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from gateway.core.stages import MEMORY, Stage, Stages
from gateway.memory_watch import MemoryWatch
from gateway.process_memory import ProcessMemory
from tests.source import ROOT


def test_a_change_of_stage_is_told_once() -> None:
    """Row 19"""
    told: list[str | None] = []
    readings = iter((0.5, 0.86, 0.87, 0.97, 0.5, 0.5, 0.5))
    watch = MemoryWatch(lambda: next(readings), Stages(MEMORY), told.append, lambda: None)
    for _ in range(7):
        watch.look()
    assert told == [
        "86% of the memory is used: batch calls are refused",
        "97% of the memory is used: no call is taken, no connection accepted",
        None,
    ]


async def test_memory_is_given_back_while_it_is_short() -> None:
    """What is free again must show, or the refusals would never end."""
    used, well_again = [0.96], asyncio.Event()

    def give_back() -> None:
        used[0] = 0.2

    def told(why: str | None) -> None:
        if why is None:
            well_again.set()

    watch = MemoryWatch(lambda: used[0], Stages(MEMORY), told, give_back, poll_s=0.001)
    task = asyncio.create_task(watch.run())
    async with asyncio.timeout(20):
        await well_again.wait()
    task.cancel()
    assert watch.stages.stage is Stage.ALL


def test_the_limit_is_the_least_that_is_known() -> None:
    assert ProcessMemory(1).limit_bytes == 1
    assert ProcessMemory(1).used_ratio() > 1.0
    assert 0.0 < ProcessMemory().used_ratio() < 1.0


FILLS = """
import resource
from gateway.core.stages import MEMORY, Stage, Stages
from gateway.process_memory import ProcessMemory
space = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (space + 400_000_000, space + 400_000_000))
memory, stages, held, seen = ProcessMemory(), Stages(MEMORY), [], []
while stages.stage is not Stage.NOTHING:
    held.append(bytearray(2_000_000))
    stages.read(memory.used_ratio())
    seen.append(stages.stage)
assert stages.reading < 1.0
held.clear()
for _ in range(2):
    stages.read(memory.used_ratio())
print(*(stage.name for stage in dict.fromkeys(seen)), "then", stages.stage.name)
"""


def test_a_process_that_fills_its_real_limit_stops_before_it_and_recovers() -> None:
    """Row 19: under RLIMIT_AS, no MemoryError, stages in order, free again after two readings."""
    done = subprocess.run(
        [sys.executable, "-c", FILLS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "ALL NO_BATCH INTERACTIVE_ONLY NOTHING then ALL\n"


FREED = """
import resource
from gateway.process_memory import ProcessMemory
space = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (space + 200_000_000, space + 200_000_000))
memory = ProcessMemory()
held = [b"%060000d" % number for number in range(2_500)]
full = memory.used_ratio()
del held[:-1]  # the last one keeps the heap as long as it is
print(full - memory.used_ratio() > 100_000_000 / (space + 200_000_000))
"""


def test_addresses_that_the_allocator_holds_free_are_not_used() -> None:
    """Row 19, RLIMIT_AS: or a process that was full once would refuse for ever."""
    done = subprocess.run(
        [sys.executable, "-c", FREED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
