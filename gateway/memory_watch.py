"""Who looks at the memory of this process, and who is told? Every ``poll_s`` on the loop.

A change of stage is logged, is the degraded part ``memory`` (``/readyz``, metrics, pages), and
decides through `Stages` who is refused. While it is short, memory that is free inside the
process is given back to the system, once a second, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.core.stages import POLL_S, Stage, Stages

log = structlog.get_logger(__name__)
GIVE_BACK_EVERY: Final = 4  # polls
WORDS: Final = {
    Stage.NO_BATCH: "batch calls are refused",
    Stage.INTERACTIVE_ONLY: "only interactive calls are taken",
    Stage.NOTHING: "no call is taken, no connection accepted",
}


@dataclass(slots=True)
class MemoryWatch:
    """``report`` gets words, or None when all is well again."""

    used_ratio: Callable[[], float]
    stages: Stages
    report: Callable[[str | None], None]
    give_back: Callable[[], None]
    poll_s: float = POLL_S

    async def run(self) -> None:
        polls = 0
        while True:
            self.look()
            polls += 1
            if self.stages.stage is not Stage.ALL and polls % GIVE_BACK_EVERY == 0:
                await asyncio.to_thread(self.give_back)
            await asyncio.sleep(self.poll_s)

    def look(self) -> None:
        before = self.stages.stage
        self.stages.read(self.used_ratio())
        stage = self.stages.stage
        if stage is before:
            return
        used = round(self.stages.reading, 3)
        log.warning("memory_stage", stage=stage.name.lower(), used_ratio=used)
        words = WORDS.get(stage)
        self.report(words and f"{used:.0%} of the memory is used: {words}")
