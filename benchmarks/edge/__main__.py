"""CPU time of a gateway per call and per chunk, beside nginx, vllm-router and litellm.

    make bench            installs what is compared, where that is possible
    python -m benchmarks.edge [--rounds N] [--flame] [CONTENDER ...]

Every round runs every proxy once, in a new order, against the same replica:

  call    a whole answer of 16 tokens to a prompt of 8 kB, eight callers
  chunk   100 streams of 64 tokens at the same time, a token every 20 ms: the CPU time of a stream,
          its beginning included, per token

CPU is that of all processes and threads of the proxy. Ratios are medians of those of single rounds,
so that what befalls a round befalls all of them. TTFT: to the first content of a stream, among 100
that begin at once; what the replica itself takes is in the row ``replica``. One worker each; a core
for the proxy, the others for replica and callers, where there is more than one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.edge.contenders import CONTENDERS, Absent, Contender, replica
from benchmarks.edge.flame import flames
from benchmarks.edge.load import STREAM_TOKENS, Took, calls, streams
from benchmarks.edge.load import Target as CallTarget
from benchmarks.edge.processes import cpu_s, family, resident_mb
from benchmarks.edge.replica import MODEL

CALLS, CALLERS, STREAMS = 400, 8, 100
SLOW_CALLS = 60  # of litellm, which takes some 40 ms for each
SETTLE_S = 0.5
OWN = "fairway"


@dataclass(slots=True)
class Figures:
    """One value per round."""

    call_us: list[float] = field(default_factory=list)
    chunk_us: list[float] = field(default_factory=list)
    ttft_p50_ms: list[float] = field(default_factory=list)
    ttft_p99_ms: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)


async def measure(name: str, contender: Contender, into: Figures) -> None:
    number = SLOW_CALLS if name == "litellm" else CALLS
    before_s = cpu_s(contender.pid)
    await calls(contender.target, number, at_once=CALLERS)
    await asyncio.sleep(SETTLE_S)  # what is written behind a call is its cost too
    between_s = cpu_s(contender.pid)
    took = await streams(contender.target, STREAMS)
    await asyncio.sleep(SETTLE_S)
    into.call_us.append((between_s - before_s) / number * 1e6)
    chunks = STREAMS * STREAM_TOKENS
    into.chunk_us.append((cpu_s(contender.pid) - between_s) / chunks * 1e6)
    _add_ttft(took, into)
    into.memory_mb.append(resident_mb(contender.pid))


def _add_ttft(took: list[Took], into: Figures) -> None:
    ordered = sorted(one.first_s for one in took)
    into.ttft_p50_ms.append(ordered[len(ordered) // 2] * 1e3)
    into.ttft_p99_ms.append(ordered[int(0.99 * (len(ordered) - 1))] * 1e3)


async def rounds(contenders: dict[str, Contender], url: str, number: int) -> dict[str, Figures]:
    figures: dict[str, Figures] = defaultdict(Figures)
    bare = CallTarget(int(url.rsplit(":", 1)[1]), {}, MODEL)
    rng = random.Random(1)
    for contender in contenders.values():
        await calls(contender.target, 3 * CALLERS, at_once=CALLERS)
        await streams(contender.target, CALLERS)
    for turn in range(number):
        _add_ttft(await streams(bare, STREAMS), figures["replica"])
        for name in rng.sample(list(contenders), len(contenders)):
            await measure(name, contenders[name], figures[name])
        print(f"round {turn + 1} of {number}", file=sys.stderr, flush=True)
    return figures


def table(figures: dict[str, Figures]) -> str:
    own = figures[OWN]
    lines = [
        "|  | CPU per call | of it fairway's | CPU per chunk | of it fairway's "
        "| TTFT p50 / p99 | memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in figures.items():
        ttft = f"{median(one.ttft_p50_ms):.1f} / {median(one.ttft_p99_ms):.1f} ms"
        if not one.call_us:
            lines.append(f"| {name} | - | - | - | - | {ttft} | - |")
            continue
        lines.append(
            f"| {name} | {median(one.call_us):,.0f} us | {_ratio(own.call_us, one.call_us)} "
            f"| {median(one.chunk_us):,.1f} us | {_ratio(own.chunk_us, one.chunk_us)} "
            f"| {ttft} | {median(one.memory_mb):,.0f} MB |"
        )
    return "\n".join(lines)


def _ratio(own: list[float], other: list[float]) -> str:
    return f"{median(mine / its for mine, its in zip(own, other, strict=True)):.3f} x"


def pin(contenders: dict[str, Contender]) -> None:
    """Proxies on the last core, everything else on the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return
    for contender in contenders.values():
        for pid in family(contender.pid):
            for thread in (Path("/proc") / str(pid) / "task").iterdir():
                os.sched_setaffinity(int(thread.name), {cores[-1]})
    for pid in family(os.getpid()):
        if not any(pid in family(each.pid) for each in contenders.values()):
            os.sched_setaffinity(pid, set(cores[:-1]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edge")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flame", action="store_true", help="only draw where the time goes")
    parser.add_argument("contender", nargs="*", help=", ".join(CONTENDERS))
    options = parser.parse_args()
    others = () if options.flame else options.contender or CONTENDERS
    wanted = {OWN: None, **dict.fromkeys(others)}
    if unknown := wanted.keys() - CONTENDERS.keys():
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(CONTENDERS)}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairway-bench-")))
        url = stack.enter_context(replica())
        contenders: dict[str, Contender] = {}
        for name in wanted:
            (folder / name).mkdir()
            try:
                contenders[name] = stack.enter_context(CONTENDERS[name](folder / name, url))
            except Absent as absent:
                print(f"{name} is left out: {absent}")
        pin(contenders)
        if options.flame:
            print(*uvloop.run(flames(contenders[OWN])), sep="\n")
            return 0
        print(table(uvloop.run(rounds(contenders, url, options.rounds))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
