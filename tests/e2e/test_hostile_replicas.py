"""Replicas that lie, break off, flood and point elsewhere, behind the whole product: callers are
told, the gateway neither swells nor goes where it is sent."""

from __future__ import annotations

import gzip
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.e2e.installation import Installation
from tests.e2e.load import asked_until, load
from tests.e2e.operator import Operator
from tests.e2e.scripted import POOL, scripted
from tests.e2e.streams import Stream
from tests.fakes import scripts
from tests.fakes.scripted_replica import ScriptedReplica, running
from tests.fakes.scripts import Script, Send

pytestmark = pytest.mark.asyncio(loop_scope="module")

BREAKS = int(os.environ.get("TEST_BREAKS", "20"))  # of each kind
MIB = 1024 * 1024
METADATA = "http://169.254.169.254/latest/meta-data/"
INCOMPLETE = b'"code":"upstream_incomplete"'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(operator: Operator) -> AsyncIterator[ScriptedReplica]:
    async with scripted(operator) as it:
        yield it


async def streams(place: Installation, count: int = 1) -> list[Stream]:
    """One after the other."""
    async with load(place) as running:
        for _ in range(count):
            await running.send(9, model=POOL).ended.wait()
        return running.streams


class Growth:
    """Of the resident memory of the gateway's process at its highest, in bytes."""

    def __init__(self, place: Installation) -> None:
        assert place.serving is not None
        self._process = Path(f"/proc/{place.serving.pid}")
        (self._process / "clear_refs").write_text("5")  # the highest from now on
        self._before = self._kib("VmRSS")

    @property
    def bytes(self) -> int:
        return (self._kib("VmHWM") - self._before) * 1024

    def _kib(self, name: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])


@pytest.mark.parametrize(
    "fault",
    [scripts.cut_after(2), scripts.cut_after(2, reset=True), scripts.ends_without_done(2)],
    ids=["truncated", "reset", "without DONE"],
)
async def test_a_broken_stream_is_flagged_every_time(
    estate: Installation, replica: ScriptedReplica, fault: Script
) -> None:
    """Row 43, I7: none is taken for an end, none is answered from anywhere but the replica."""
    replica.default = fault
    asked = len(replica.calls)
    labels = {"pool": POOL, "reason": "upstream_incomplete"}
    failed = estate.series("fairway_calls_total", **labels)
    told = await streams(estate, BREAKS)
    assert all(INCOMPLETE in one.body and not one.done and not one.broken for one in told)
    assert {one.tokens for one in told} == {2}
    assert len(replica.calls) - asked == BREAKS
    assert estate.series("fairway_calls_total", **labels) - failed == BREAKS
    print(f"{len(told)}/{BREAKS} flagged")


@pytest.mark.parametrize(
    "line", [b"x" * 65_536, b"data: " + b"x" * 16_377 + b"\n"], ids=["endless line", "100 MB event"]
)
async def test_an_endless_event_is_cut_at_a_mebibyte(
    estate: Installation, replica: ScriptedReplica, line: bytes
) -> None:
    """Row 45"""
    await streams(estate)  # warm
    replica.default = Script((Send(b"data: "), *[Send(line)] * (100 * MIB // len(line))))
    growth, began_s = Growth(estate), time.monotonic()
    (told,) = await streams(estate)
    took_s = time.monotonic() - began_s
    assert told.status == 502
    await replica.calls[-1].gone.wait()
    print(f"cut after {took_s:.2f} s, gateway +{growth.bytes / MIB:.1f} MiB")
    assert took_s <= 1.0
    assert growth.bytes <= 4 * MIB


async def test_a_compressed_bomb_is_refused_unread(
    estate: Installation, replica: ScriptedReplica
) -> None:
    """Row 46: 1 MB that would be 1 GiB."""
    await streams(estate)  # warm
    bomb = gzip.compress(bytes(64 * MIB), compresslevel=9) * 16
    replica.default = scripts.compressed(bomb)
    growth = Growth(estate)
    (told,) = await streams(estate)
    print(f"{len(bomb) / 1e6:.1f} MB of gzip: gateway +{growth.bytes / MIB:.1f} MiB")
    assert told.status == 502
    assert growth.bytes <= 2 * MIB


async def test_errors_are_mapped_and_no_redirect_is_followed(
    estate: Installation, replica: ScriptedReplica
) -> None:
    """Row 48: what the caller gets for each, and not one connection to where it is sent."""
    async with running() as elsewhere:
        replica.routes["/health"] = scripts.redirect(elsewhere.url)
        asked = _health_requests(replica)
        await asked_until(lambda: _health_requests(replica) > asked, 30)
        replica.routes["/health"] = scripts.HEALTHY  # before a second one is lost
        answers = {
            "html": scripts.html_error(200),
            "500": scripts.status(500),
            "429": scripts.status(429, retry_after="1"),
            "503": scripts.status(503, retry_after="3600"),
            "elsewhere": scripts.redirect(elsewhere.url, 308),
            "metadata": scripts.redirect(METADATA, 302),
        }
        told: dict[str, tuple[int, str]] = {}
        async with aiohttp.ClientSession() as session:
            for name, script in answers.items():
                replica.default = script
                told[name] = await _asked(session, estate)
        assert elsewhere.connections == 0
    assert told == {
        "html": (502, "upstream_error"),
        "500": (502, "upstream_error"),
        "429": (429, "shed"),
        "503": (429, "shed"),
        "elsewhere": (502, "upstream_error"),
        "metadata": (502, "upstream_error"),
    }
    assert _sent_to_metadata(estate) == 0


def _health_requests(replica: ScriptedReplica) -> int:
    return sum(request.path == "/health" for request in replica.received)


async def _asked(session: aiohttp.ClientSession, place: Installation) -> tuple[int, str]:
    stream = await Stream().run(session, place, model=POOL)
    return stream.status, stream.reason


def _sent_to_metadata(place: Installation) -> int:
    """Connections of the gateway, made or being made, to the address of the cloud's metadata."""
    assert place.serving is not None
    lines = Path(f"/proc/{place.serving.pid}/net/tcp").read_text().splitlines()[1:]
    ends = Counter(line.split()[2].split(":")[0] for line in lines)
    return ends["FEA9FEA9"]
