"""``make traffic``: several tenants use a running instance, so that its pages show something.

Reads ``var/run.json``; the callers are those of ``deploy.callers``. Stops by itself after
``--seconds`` and says what came back. Load goes to the simulated pool; the real model gets a few
chats, as the CPU allows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from deploy.callers import WAYS, Ask, Way
from deploy.errors import CannotRun
from deploy.programs import SIMULATED_POOL

ROOT = Path(__file__).resolve().parent.parent
REPORT_EVERY_S = 10.0


@dataclass(slots=True)
class Tally:
    """What came back, by tenant."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    first_token_s: dict[str, list[float]] = field(default_factory=dict)

    def note(self, tenant: str, outcome: str, first_token_s: float | None) -> None:
        self.outcomes.setdefault(tenant, Counter())[outcome] += 1
        if first_token_s is not None:
            self.first_token_s.setdefault(tenant, []).append(first_token_s)

    def lines(self) -> list[str]:
        return [
            f"  {tenant:14s} {sum(counts.values()):5d} calls  {_median(self.first_token_s, tenant)}"
            f"  {', '.join(f'{count} {name}' for name, count in counts.most_common())}"
            for tenant, counts in sorted(self.outcomes.items())
        ]


class Driver:
    """Sends what the callers ask and keeps the tally."""

    def __init__(self, session: aiohttp.ClientSession, facts: dict[str, Any]) -> None:
        self._session = session
        self._url = f"{facts['base_url']}/v1/chat/completions"
        models = facts["models"]
        self._models = {"": SIMULATED_POOL if SIMULATED_POOL in models else models[0]}
        self._models["real"] = models[0]
        self.tally = Tally()

    async def follow(self, tenant: dict[str, Any], way: Way, rng: random.Random) -> None:
        async for ask in way(rng):
            await asyncio.sleep(ask.pause_s)
            outcome, first_token_s, retry_after_s = await self._send(tenant["api_key"], ask)
            self.tally.note(tenant["slug"], outcome, first_token_s)
            await asyncio.sleep(retry_after_s)

    async def _send(self, api_key: str, ask: Ask) -> tuple[str, float | None, float]:
        started = time.monotonic()
        try:
            async with self._session.post(
                self._url,
                json=self._body(ask),
                headers={"Authorization": f"Bearer {api_key}"},
            ) as answer:
                if answer.status != 200:
                    reason = answer.headers.get("x-fairway-reason", "")
                    wait_s = min(10.0, float(answer.headers.get("retry-after", 1)))
                    return f"{answer.status} {reason}".strip(), None, wait_s
                return await _read(answer.content, started)
        except aiohttp.ClientError as error:
            return type(error).__name__, None, 1.0

    def _body(self, ask: Ask) -> dict[str, Any]:
        system = [{"role": "system", "content": ask.system}] if ask.system else []
        return {
            "model": self._models[ask.model],
            "stream": True,
            "max_tokens": ask.max_tokens,
            "messages": [*system, {"role": "user", "content": ask.prompt}],
        }


async def drive(facts: dict[str, Any], seconds: float, load: int = 1) -> Tally:
    """Every caller ``load`` times at once until the time is over; calls still open then are
    closed."""
    timeout = aiohttp.ClientTimeout(total=None, connect=5)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        driver = Driver(session, facts)
        callers = [
            asyncio.create_task(driver.follow(tenant, way, random.Random(f"{slug} {number}")))
            for slug, (way, count) in WAYS.items()
            for tenant in facts["tenants"]
            if tenant["slug"] == slug
            for number in range(count * load)
        ]
        reporter = asyncio.create_task(_report(driver.tally, seconds))
        await asyncio.wait([reporter, *callers], timeout=seconds, return_when="FIRST_EXCEPTION")
        for task in (reporter, *callers):
            task.cancel()
        for result in await asyncio.gather(reporter, *callers, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        return driver.tally


async def _read(content: aiohttp.StreamReader, started: float) -> tuple[str, float | None, float]:
    """The outcome of a stream, judged by its end."""
    first_token_s: float | None = None
    async for line in content:
        if b'"content"' in line and first_token_s is None:
            first_token_s = time.monotonic() - started
        if line.startswith(b"data: [DONE]"):
            return "completed", first_token_s, 0.0
        if line.startswith(b'data: {"error"'):
            return "broken", first_token_s, 1.0
    return "cut", first_token_s, 1.0


async def _report(tally: Tally, seconds: float) -> None:
    started = time.monotonic()
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        total = sum(sum(counts.values()) for counts in tally.outcomes.values())
        print(f"traffic: {time.monotonic() - started:.0f} of {seconds:.0f} s, {total} calls")


def _median(values: dict[str, list[float]], tenant: str) -> str:
    found = sorted(values.get(tenant, ()))
    return f"first token p50 {found[len(found) // 2] * 1000:5.0f} ms" if found else "no first token"


def read_facts(path: Path) -> dict[str, Any]:
    """Raises CannotRun."""
    try:
        facts: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise CannotRun(f"There is no {path}: start the product first with make run.") from None
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(prog="make traffic", description="Drive a running instance.")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument(
        "--load", type=int, default=1, help="times the usual callers; 5 fills every slot"
    )
    parser.add_argument("--run", type=Path, help="its run.json")
    options = parser.parse_args()
    var = Path(os.environ.get("FAIRWAY_VAR_DIR") or ROOT / "var")
    try:
        facts = read_facts(options.run or var / "run.json")
        print(f"traffic: {len(WAYS)} tenants at {facts['base_url']} for {options.seconds:.0f} s")
        tally = asyncio.run(drive(facts, options.seconds, options.load))
    except CannotRun as reason:
        sys.exit(str(reason))
    except KeyboardInterrupt:
        sys.exit("traffic: stopped")
    print("\n".join(["traffic: done", *tally.lines()]))


if __name__ == "__main__":
    main()
