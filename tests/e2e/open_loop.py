"""A process that sends calls at fixed times, whatever becomes of the earlier ones, and says how
long each took to get a status.

    python -m tests.e2e.open_loop URL KEY MODEL TOKENS CALLS_PER_S:SECONDS ...

``offered`` starts it and reads its words: one JSON object. A process of its own, so that neither
the gateway's nor the test's loop delays the measure; its collector of garbage is off.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

import aiohttp

from tests.e2e.installation import ROOT, Installation

CLASSES = ("interactive", "standard", "batch")
MIX = (0, 1, 0, 1, 0, 2, 0, 1, 2, 2)  # 40, 30 and 30 % of the calls: the mixed load
Phase = tuple[float, float]  # (calls per second, seconds)
READ_S = 60.0  # longest for one answer


@dataclass(slots=True)
class Told:
    """What became of one call. Seconds: ``status_s`` from sending to the status, of which it stood
    in the gateway's queue for ``queue_s``; ``late_s`` by how much it was sent too late."""

    klass: str
    sent_s: float  # since the first
    late_s: float
    status_s: float = 0.0
    status: int = 0  # 0: no answer
    reason: str = ""
    queue_s: float = 0.0

    @property
    def refused(self) -> bool:
        return self.status in (429, 503)


@dataclass(slots=True)
class Offered:
    """``cpu_s`` of the client itself."""

    calls: list[Told] = field(default_factory=list)
    cpu_s: float = 0.0


async def offered(
    place: Installation,
    model: str,
    phases: Sequence[Phase],
    *,
    tokens: int,
    key: str | None = None,
) -> Offered:
    """Returns when every call has ended."""
    rates = [f"{calls_per_s}:{seconds}" for calls_per_s, seconds in phases]
    given = (place.url, key or place.api_key, model, str(tokens), *rates)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.e2e.open_loop", *given),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    words, _ = await process.communicate()
    assert process.returncode == 0
    told = json.loads(words)
    return Offered([Told(**call) for call in told["calls"]], told["cpu_s"])


async def send(
    session: aiohttp.ClientSession, url: str, key: str, body: dict[str, object], told: Told
) -> None:
    headers = {"authorization": f"Bearer {key}", "x-fairway-priority": told.klass}
    sent_s = time.perf_counter()
    try:
        async with session.post(url, json=body, headers=headers) as answer:
            told.status_s = time.perf_counter() - sent_s
            told.status = answer.status
            told.reason = answer.headers.get("x-fairway-reason", "")
            told.queue_s = int(answer.headers.get("x-fairway-queue-ms", "0")) / 1000
            async for _ in answer.content.iter_any():
                pass
    except (aiohttp.ClientError, TimeoutError):
        told.status = 0


def times_s(phases: Sequence[Phase]) -> Iterator[float]:
    """When to send, since the beginning."""
    began_s = 0.0
    for calls_per_s, seconds in phases:
        yield from (began_s + number / calls_per_s for number in range(int(calls_per_s * seconds)))
        began_s += seconds


async def open_loop(
    url: str, key: str, model: str, tokens: int, phases: Sequence[Phase]
) -> Offered:
    run = Offered()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=READ_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number, due_s in enumerate(times_s(phases)):
                await asyncio.sleep(max(0.0, began_s + due_s - time.perf_counter()))
                sent_s = time.perf_counter() - began_s
                told = Told(CLASSES[MIX[number % len(MIX)]], sent_s, sent_s - due_s)
                run.calls.append(told)
                messages = [{"role": "user", "content": f"{number} hello"}]
                body = {"model": model, "messages": messages, "max_tokens": tokens, "stream": True}
                path = f"{url}/v1/chat/completions"
                tasks.create_task(send(session, path, key, body, told), name=f"call {number}")
    run.cpu_s = time.process_time()
    return run


def main() -> None:
    gc.disable()
    url, key, model, tokens, *rates = sys.argv[1:]
    phases = [(float(a), float(b)) for a, _, b in (rate.partition(":") for rate in rates)]
    result = asyncio.run(open_loop(url, key, model, int(tokens), phases))
    json.dump(asdict(result), sys.stdout)


if __name__ == "__main__":
    main()
