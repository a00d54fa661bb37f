"""What does a stream cost that waits for its next token? Thousands of them through one gateway.

    python -m benchmarks.idle_streams [streams]

A replica in a process of its own answers each call with one token and then nothing; every 15 s of
silence the gateway writes a comment. The gateway is
the product with everything on, quota in Redis where there is one, and FILES open files at most.
Printed: resident memory per stream, the time of `/livez` on a new connection while all wait, the
share of a core that waiting costs, and how long after all callers have left every slot is free.
Goals: 45 kB, p99 50 ms, 5 %, 5 s. Ends with 1 where one is missed.

CPU is that of the process, so that others on the machine do not count; times of the clock are not:
beside them stand the share of this process, which holds the callers, how late the gateway's loop
was meanwhile, and for how long it stood still while all left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.edge.contenders import PLENTY
from benchmarks.edge.processes import cpu_s, resident_mb
from benchmarks.edge.replica import event
from config import file_limit
from tests.e2e.installation import Installation, prepared
from tests.e2e.operator import operator_of
from tests.servers import redis_server, wait_until

MODEL = "idle"
STREAMS = 4_000
SLOTS = 4_096
KV_TOKENS = 8_000_000  # of the replica: room for all
FILES = 20_000
AT_ONCE = 20  # that wait for their first token at the same time
STEADY_S = 4.0
IDLE_S = 20.0  # more than one comment
SILENCE = {"FAIRWAY_GATEWAY_BETWEEN_TOKENS_TIMEOUT_S": "600"}  # that is not cut
PROBES = 200
GOALS = {"kB per stream": 45.0, "probe p99 ms": 50.0, "% of a core": 5.0, "s to release": 5.0}
HEADERS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
TOKEN = event(b'{"content":"word"}')
HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Silent(asyncio.Protocol):
    """The replica: one token for a call, and nothing more ever."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"POST"):
            self._transport.write(HEADERS + b"%x\r\n%b\r\n" % (len(TOKEN), TOKEN))
        elif data.startswith(b"GET"):
            self._transport.write(HEALTHY)


async def serve_silence() -> None:
    server = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0, backlog=4096)
    print("READY", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def silent_replica() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.idle_streams", "replica"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
        finally:
            process.terminate()


@contextlib.contextmanager
def gateway(folder: Path, replica: str) -> Iterator[Installation]:
    server = {"slug": "idle-1", "kind": "vllm", "base_url": replica, "slots": SLOTS}
    names = {"slug": MODEL, "model": MODEL, "upstream_model": MODEL}
    pool = {**names, "context_tokens": 32_768, "servers": [server]}
    with redis_server() as redis:
        settings = {"REDIS_URL": redis.url} if redis is not None else {}
        with prepared(folder, [pool], **settings, **SILENCE) as place:
            place.serve()
            olga = operator_of(place)
            tenant = place.facts["tenants"][0]["slug"]
            room = {"kv_tokens": KV_TOKENS, "why": "bench"}
            version = olga.ask("PATCH", "/replicas/idle-1", room)["config_version"]
            for meter, amount in PLENTY.items():
                limit = {"meter": meter, "amount": amount, "klass": "online", "why": "bench"}
                version = olga.put(f"/tenants/{tenant}/limits", **limit)["config_version"]
            wait_until(lambda: place.series("fairway_config_version") >= version, "the limits")
            wait_until(lambda: olga.get("/replicas/idle-1")["live"] is not None, "the replica")
            yield place


@dataclass
class Crowd:
    place: Installation
    writers: list[asyncio.StreamWriter]

    async def grow(self, streams: int) -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._enter(number, gate) for number in range(streams)))

    async def _enter(self, number: int, gate: asyncio.Semaphore) -> None:
        said = [{"role": "user", "content": f"{number} " + "hello " * 50}]
        body = json.dumps(
            {"model": MODEL, "stream": True, "max_tokens": 100, "messages": said}
        ).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self.place.api_key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.place.port)
            writer.write(head.encode() + body)
            await writer.drain()
            self.writers.append(writer)
            async with asyncio.timeout(60):
                await reader.readuntil(b"data: ")

    def leave(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()


async def in_flight(place: Installation) -> float:
    return await asyncio.to_thread(place.series, "fairway_in_flight")


async def settled(place: Installation) -> int:
    """How many are in flight once that has not changed for STEADY_S."""
    seen, since_s = -1.0, time.monotonic()
    while time.monotonic() - since_s < STEADY_S:
        await asyncio.sleep(0.2)
        now = await in_flight(place)
        if now != seen:
            seen, since_s = now, time.monotonic()
    return int(seen)


async def released(place: Installation) -> float:
    """Seconds until none is in flight; the figure is one second old at most."""
    began_s = time.monotonic()
    async with asyncio.timeout(60):
        while await in_flight(place):  # noqa: ASYNC110  a figure of another process
            await asyncio.sleep(0.1)
    return time.monotonic() - began_s


@dataclass(frozen=True, slots=True)
class Reading:
    """What gateway and callers have used so far, seconds; ``late_s``: beats of the gateway's loop
    came late, in all, of ``beats``; ``stood_s``: it stood still for longer than 0.25 s."""

    gateway_s: float
    callers_s: float
    late_s: float
    beats: float
    stood_s: float

    @classmethod
    async def now(cls, place: Installation) -> Reading:
        assert place.serving is not None
        names = ("lag_seconds_sum", "lag_seconds_count", "blocked_seconds_total")
        loop = [await asyncio.to_thread(place.series, f"fairway_loop_{name}") for name in names]
        return cls(cpu_s(place.serving.pid), time.process_time(), *loop)

    def told(self, what: str, since: Reading) -> None:
        beats = max(1.0, self.beats - since.beats)
        print(
            f"{what}: {self.gateway_s - since.gateway_s:.2f} s of CPU of the gateway, "
            f"{self.callers_s - since.callers_s:.2f} s of the callers; the loop was "
            f"{(self.late_s - since.late_s) / beats * 1000:.1f} ms late on average "
            f"and stood for {self.stood_s - since.stood_s:.2f} s",
            flush=True,
        )


async def probed_ms(place: Installation) -> float:
    began_s = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
    return (time.perf_counter() - began_s) * 1000


async def measured(place: Installation, streams: int) -> dict[str, float]:
    assert place.serving is not None
    pid = place.serving.pid
    crowd = Crowd(place, [])
    await crowd.grow(streams // 10)  # what the first ones cost once is no cost of a stream
    await settled(place)
    crowd.leave()
    await released(place)
    before_mb = resident_mb(pid)
    began_s = time.monotonic()
    await crowd.grow(streams)
    opened = await settled(place)
    print(f"{opened} of {streams} streams in {time.monotonic() - began_s:.1f} s", flush=True)
    reading, used_s, began_s = await Reading.now(place), cpu_s(pid), time.monotonic()
    await asyncio.sleep(IDLE_S)
    idle_ratio = (cpu_s(pid) - used_s) / (time.monotonic() - began_s)
    (waited := await Reading.now(place)).told("waiting", reading)
    each_kb = (resident_mb(pid) - before_mb) * 1024 / opened
    probes = []
    for _ in range(PROBES):
        probes.append(await probed_ms(place))
        await asyncio.sleep(0.02)
    assert await in_flight(place) == opened
    (probed := await Reading.now(place)).told("probes", waited)
    crowd.leave()
    release_s = await released(place)
    (await Reading.now(place)).told("release", probed)
    probes.sort()
    figures = (each_kb, probes[int(0.99 * PROBES)], idle_ratio * 100, release_s)
    return dict(zip(GOALS, figures, strict=True))


def limited() -> None:
    """For this process, its gateway and its replica."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"at most {most} open files", flush=True)


def main() -> int:
    limited()
    streams = int(sys.argv[1]) if sys.argv[1:] else STREAMS
    with tempfile.TemporaryDirectory(prefix="fairway-idle-") as folder:
        with silent_replica() as replica, gateway(Path(folder), replica) as place:
            figures = uvloop.run(measured(place, streams))
    load = os.getloadavg()[0]
    for name, figure in figures.items():
        print(f"{figure:8.1f} {name} (goal {GOALS[name]:g})")
    print(f"load average of the machine at the end: {load:.1f}")
    return int(any(figure > GOALS[name] for name, figure in figures.items()))


if __name__ == "__main__":
    if sys.argv[1:] == ["replica"]:
        file_limit.raised()
        uvloop.run(serve_silence())
    sys.exit(main())
