"""What live pages learn of batches."""

from __future__ import annotations

import asyncio

from gateway.core.events import BatchSecond
from tests.workers.batches import Desk
from workers import selectors
from workers.progress import BatchProgress
from workers.threads import with_database


def test_a_running_batch_is_told_with_its_counts(desk: Desk) -> None:
    batch = desk.running(3)
    assert selectors.progress(desk.now) == (
        BatchSecond(batch.batch_id, "acme", "in_progress", 3, 0, 0),
    )


def test_a_finished_batch_is_told_for_ten_seconds(desk: Desk) -> None:
    batch = desk.closed(desk.running(3), after_s=86_400)
    (shown,) = selectors.progress(desk.later(86_409))
    assert (shown.batch_id, shown.status, shown.failed) == (batch.batch_id, "expired", 3)
    assert selectors.progress(desk.later(86_411)) == ()


async def test_progress_is_read_beside_the_loop(desk: Desk) -> None:
    await with_database(desk.running, 2)
    progress = BatchProgress()
    await progress.start()
    async with asyncio.timeout(5):
        while not progress.current:
            await asyncio.sleep(0.01)
    await progress.stop()
    assert [one.total for one in progress.current] == [2]
