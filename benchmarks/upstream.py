"""What does reading a replica's stream cost the gateway? CPU per chunk, without anything else.

A simulated replica in a process of its own streams one token per chunk; this process only reads.

    python -m benchmarks.upstream [streams …]
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import uvloop

from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.upstream import AttemptTimeouts, ReplicaTarget

PATH = "/v1/chat/completions"
TOKENS = 200
BODY = b"""{"model":"sim","messages":[{"role":"user","content":"%d hello"}],
"max_tokens":%d,"ignore_eos":true,"stream":true}"""


async def read(upstream: HttpUpstream, target: ReplicaTarget, number: int) -> int:
    """Reads one stream to its end; returns the number of chunks."""
    body = BODY % (number, TOKENS)
    reads = 0

    def take(chunk: bytes) -> bool:
        nonlocal reads
        reads += 1
        return True

    async with upstream.stream(target, PATH, body, {}, AttemptTimeouts()) as stream:
        await stream.relay(take)
    return reads


async def measure(url: str, streams: int) -> float:
    """Microseconds of CPU per chunk."""
    upstream = HttpUpstream(("127.0.0.0/8",))
    target = ReplicaTarget("r1", "pool", "simulated", url)
    await read(upstream, target, 0)
    began_s = time.process_time()
    chunks = await asyncio.gather(
        *(read(upstream, target, number) for number in range(1, streams + 1))
    )
    used_s = time.process_time() - began_s
    await upstream.close()
    return used_s / sum(chunks) * 1e6


def main() -> None:
    command = [sys.executable, "manage.py", "simulated_replica", "--port", "0"]
    command += ["--model", "sim", "--sequences", "256"]
    environment = os.environ | {"FAIRWAY_DEBUG": "true"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[1]
        for streams in map(int, sys.argv[1:] or ("1", "32", "128")):
            plain_us = asyncio.run(measure(url, streams))
            fast_us = uvloop.run(measure(url, streams))
            print(f"{streams:4} streams: asyncio {plain_us:.0f} us, uvloop {fast_us:.0f} us")
        server.terminate()


if __name__ == "__main__":
    main()
