"""Two hundred megabytes pass, and the process stays small."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.core.clock import SystemClock
from tests.workers.asking import Answered, Asker
from tests.workers.batches import Desk
from tests.workers.test_api import _left, alice
from tests.workers.test_multipart import BOUNDARY, KIND
from workers.settings import MEBIBYTE, WorkersSettings
from workers.threads import with_database

__all__ = ["alice"]

PIECE = b"x" * 65_535 + b"\n"
GROWTH_BYTES = 16 * MEBIBYTE
HEAD = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
).encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Sender:
    """A form with a file of ``size_bytes``, piece by piece; notes how large the process gets."""

    size_bytes: int
    peak_bytes: int = 0

    def pieces(self) -> Iterator[bytes]:
        yield HEAD
        for sent in range(0, self.size_bytes, len(PIECE)):
            yield PIECE[: self.size_bytes - sent]
            self.peak_bytes = max(self.peak_bytes, resident_bytes())
        yield TAIL


async def upload(asker: Asker, sender: Sender) -> Answered:
    return await asker.ask("POST", "/v1/files", sender.pieces(), content_type=KIND)


@pytest.mark.alone
async def test_the_largest_file_is_received_with_flat_memory(
    alice: Asker, own: WorkersSettings, desk: Desk
) -> None:
    """Row 32: 200 MB, streamed; no part of it stops the loop for long."""
    await upload(alice, Sender(MEBIBYTE))
    before = resident_bytes()
    sender = Sender(own.file_bytes)
    lag = asyncio.create_task(_worst_lag_s())
    answer = await upload(alice, sender)
    lag.cancel()
    worst_s = await lag
    assert (answer.status, answer.json["bytes"]) == (200, own.file_bytes)
    assert sender.peak_bytes - before < GROWTH_BYTES
    assert worst_s < 0.1
    assert desk.storage.path(answer.json["id"]).stat().st_size == own.file_bytes


async def test_one_byte_more_is_refused_and_nothing_stays(
    alice: Asker, own: WorkersSettings, desk: Desk
) -> None:
    answer = await upload(alice, Sender(own.file_bytes + 1))
    assert answer.error[:2] == (413, "body_too_large")
    assert _left(desk) == []


async def test_what_is_announced_too_large_is_refused_unread(
    alice: Asker, own: WorkersSettings
) -> None:
    answer = await alice.ask(
        "POST", "/v1/files", content_type=KIND, content_length=str(own.file_bytes * 2)
    )
    assert answer.error[:2] == (413, "body_too_large")


async def _worst_lag_s() -> float:
    clock, worst_s = SystemClock(), 0.0
    try:
        while True:
            due_s = clock.monotonic() + 0.005
            await asyncio.sleep(0.005)
            worst_s = max(worst_s, clock.monotonic() - due_s)
    except asyncio.CancelledError:
        return worst_s


@pytest.mark.parametrize("size_bytes", [1, 65_536, 3 * MEBIBYTE + 7])
async def test_a_download_is_as_long_as_the_file(alice: Asker, desk: Desk, size_bytes: int) -> None:
    row = await with_database(desk.file, b"z" * size_bytes)
    answer = await alice.ask("GET", f"/v1/files/{row.file_id}/content")
    assert answer.body == b"z" * size_bytes
