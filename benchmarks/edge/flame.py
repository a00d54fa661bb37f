"""Where does the CPU time of a call and of a chunk go? Flame graphs of the gateway under the load
of the bench.

    make bench ARGS="--flame"     var/bench/call.svg, var/bench/chunk.svg

Sampled by py-spy in whichever thread holds the interpreter; what threads do without it (files,
sockets, waiting) is not in the picture. Shares are what it tells, not times.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from benchmarks.edge.contenders import Absent, Contender
from benchmarks.edge.load import calls, streams
from deploy.bench import PEERS

FOLDER = Path("var") / "bench"
HERTZ = 250
CALLS, CALLERS, STREAMS, ROUNDS = 4_000, 8, 100, 5


async def flames(contender: Contender) -> list[Path]:
    """The pictures, drawn."""
    await calls(contender.target, 3 * CALLERS, at_once=CALLERS)
    FOLDER.mkdir(parents=True, exist_ok=True)
    call, chunk = FOLDER / "call.svg", FOLDER / "chunk.svg"
    async with asyncio.timeout(600):
        recording = await _recording(contender.pid, call)
        await calls(contender.target, CALLS, at_once=CALLERS)
        await _end(recording)
        recording = await _recording(contender.pid, chunk)
        for _ in range(ROUNDS):
            await streams(contender.target, STREAMS)
        await _end(recording)
    return [call, chunk]


async def _recording(pid: int, picture: Path) -> asyncio.subprocess.Process:
    program = PEERS / "py-spy" / "bin" / "py-spy"
    if not program.exists():
        raise Absent("py-spy is not installed; `make bench ARGS=--flame` installs it")
    command = [str(program), "record", "--pid", str(pid), "--output", str(picture)]
    return await asyncio.create_subprocess_exec(
        *command, "--rate", str(HERTZ), "--threads", "--gil", stdout=subprocess.DEVNULL
    )


async def _end(recording: asyncio.subprocess.Process) -> None:
    recording.send_signal(2)  # it draws and ends
    if await recording.wait():
        raise Absent(f"py-spy ended with status {recording.returncode}")
