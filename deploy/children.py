"""Which processes run, and what happens when one ends by itself?

A child that ends is started again after 0.5 s, doubling to 30 s, and that is said; 60 s of running
forgive. When everything stops, children get SIGTERM, those that use others first, and SIGKILL when
their grace is over. On Linux they also get SIGTERM when this process dies by force. Output of
each child goes to a file of its own. Units: seconds.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
FORGIVEN_AFTER_S = 60.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. ``grace_s``: how long it may take to end after SIGTERM. Programs of a higher
    ``wave`` are stopped before those of a lower one, which they use."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 10.0
    wave: int = 0


class Children:
    """Owns every process. ``say`` tells the person at the terminal."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._programs: dict[str, Program] = {}
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping = False

    async def start(self, program: Program) -> None:
        """Returns once the process exists; whether it is ready is another question."""
        self._programs[program.name] = program
        await self._spawn(program)
        watcher = asyncio.create_task(self._watch(program), name=f"watch {program.name}")
        self._watchers.append(watcher)

    def log_path(self, name: str) -> Path:
        return self._log_dir / f"{name}.log"

    def ended(self, name: str) -> bool:
        process = self._running.get(name)
        return process is None or process.returncode is not None

    async def stop(self) -> None:
        self._stopping = True
        for watcher in self._watchers:
            watcher.cancel()
        for wave in sorted({one.wave for one in self._programs.values()}, reverse=True):
            programs = [one for one in self._programs.values() if one.wave == wave]
            ends = (_end(self._running[one.name], one.grace_s) for one in programs)
            await asyncio.gather(*ends)

    async def _spawn(self, program: Program) -> None:
        with self.log_path(program.name).open("ab") as log:
            self._running[program.name] = await asyncio.create_subprocess_exec(
                *program.command,
                env={**os.environ, **program.env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches us only; we stop them in order
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )

    async def _watch(self, program: Program) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            status = await self._running[program.name].wait()
            if time.monotonic() - started > FORGIVEN_AFTER_S:
                pause_s = FIRST_PAUSE_S
            say(
                f"{program.name} ended ({_cause(status)}); starting it again in {pause_s:g} s;"
                f" its words: {self.log_path(program.name)}"
            )
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            await self._spawn(program)


def say(text: str) -> None:
    print(f"run: {text}", flush=True)


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _cause(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
