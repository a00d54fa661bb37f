"""Two hundred calls a second at a pool that can do eight: how soon is told so who is refused?

Two kinds are refused. Most are when they arrive. Some have stood in the queue and make room for
calls of a higher class, or go when the queue turns out to stand; what they waited is in
``x-fairway-queue-ms``. The bound holds for what lies between the decision and the caller: the time
from sending to the status, less the time in the queue.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.core.reasons import REASONS, Reason
from tests.e2e.installation import MODEL, Installation, installed
from tests.e2e.load import percentile
from tests.e2e.open_loop import Offered, offered
from tests.e2e.operator import operator_of
from tests.e2e.scripted import in_force

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]

SEQUENCES = 4
CAPACITY = (8.0, 3.0)  # calls per second, seconds
OVERLOAD = (200.0, float(os.environ.get("TEST_OVERLOAD_S", "6")))
TOKENS = 40
MOST_S = 0.050
AT_ONCE_S = 0.002  # less in the queue: refused on arrival
ROUNDS = 3
PLENTY = {"tpm": 10**9, "rpm": 10**7, "concurrent": 10**5}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("overload"), sequences=SEQUENCES) as it:
        it.serve()
        yield it


async def test_who_is_refused_is_told_within_50_ms(place: Installation) -> None:
    """Row 56, and no status but those that are documented. A busy machine may slow one round of
    three."""
    await asyncio.to_thread(_without_limits, place)
    rounds = []
    for _ in range(ROUNDS):
        before_s = _cpu_s(place)
        run = await offered(place, MODEL, (CAPACITY, OVERLOAD), tokens=TOKENS)
        cpu_s = _cpu_s(place) - before_s
        delays_s = _delays_s(run)
        print(f"\n{_told(run, cpu_s)}")
        assert not _undocumented(run)
        assert len(delays_s) >= 0.8 * OVERLOAD[0] * OVERLOAD[1]
        rounds.append(percentile(delays_s, 0.99))
        if rounds[-1] <= MOST_S:
            return
    raise AssertionError(rounds)


def _delays_s(run: Offered) -> list[float]:
    return [call.status_s - call.queue_s for call in run.calls if call.refused]


def _undocumented(run: Offered) -> Counter[tuple[int, str]]:
    """Answers that are neither 200 nor a refusal for load, with the status that its reason has."""
    load = (Reason.SHED, Reason.QUEUE_FULL, Reason.QUEUE_TIMEOUT)
    fine = {(200, ""), *((REASONS[reason].status, str(reason)) for reason in load)}
    told = Counter((call.status, call.reason) for call in run.calls)
    return Counter({what: number for what, number in told.items() if what not in fine})


def _told(run: Offered, cpu_s: float) -> str:
    refused = [call for call in run.calls if call.refused]
    waited = [call.status_s for call in refused if call.queue_s >= AT_ONCE_S]
    delays_s = _delays_s(run)
    p50, p99 = percentile(delays_s, 0.5), percentile(delays_s, 0.99)
    raw_s = percentile([call.status_s for call in refused], 0.99)
    seconds = OVERLOAD[1] + CAPACITY[1]
    return (
        f"{OVERLOAD[0]:.0f} calls/s for {OVERLOAD[1]:.0f} s: {len(refused)} of {len(run.calls)} "
        f"refused; told after p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, "
        f"longest {max(delays_s) * 1e3:.0f} ms; {len(waited)} had stood in the queue, longest "
        f"{max(waited, default=0.0):.2f} s (p99 of all with it {raw_s:.2f} s); CPU of the gateway "
        f"{cpu_s / seconds:.2f} cores, of the client {run.cpu_s / seconds:.2f}; sent late p99 "
        f"{percentile([call.late_s for call in run.calls], 0.99) * 1e3:.0f} ms"
    )


def _without_limits(place: Installation) -> None:
    olga = operator_of(place)
    slug = place.facts["tenants"][0]["slug"]
    for klass in ("online", "batch"):
        for meter, amount in PLENTY.items():
            limit = {"meter": meter, "amount": amount, "klass": klass, "why": "test"}
            told = olga.put(f"/tenants/{slug}/limits", **limit)
    asyncio.run(in_force(place, told["config_version"]))


def _cpu_s(place: Installation) -> float:
    """Of the server since its start."""
    assert place.serving is not None
    fields = Path(f"/proc/{place.serving.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
