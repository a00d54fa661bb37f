"""A worker of one chunk, to be run as a program: dies by kill -9 when it meets the line ``poison``.

Arguments: batch id, directory of the files. The database is that of ``DATABASE_URL``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path


def main(batch_id: str, root: Path) -> None:
    import django

    django.setup()
    from django.utils import timezone

    from gateway.core.clock import SystemClock
    from workers.calls import Outcome
    from workers.models import Batch
    from workers.results import Answer
    from workers.runner import Bounds, ChunkRun, Place
    from workers.services.lines import Lease, LeasedLine
    from workers.storage import Storage
    from workers.usage import TokenUsage

    class Poisoned:
        async def call(self, line: LeasedLine, body: bytes) -> Outcome:
            await asyncio.sleep(0.05)
            if line.custom_id == "poison":
                os.kill(os.getpid(), signal.SIGKILL)
            return Answer(line.line_no, line.custom_id, 200, "", b"{}", TokenUsage())

    batch = Batch.objects.get(pk=batch_id)
    storage = Storage(root)
    place = Place(storage.path(batch.input_file_id), storage.results(batch_id))
    bounds = Bounds(at_once=8, chunk_s=20, heartbeat_s=0.1)
    lease = Lease.new(batch_id, timezone.now())
    asyncio.run(ChunkRun(lease, place, Poisoned(), bounds=bounds, clock=SystemClock()).run())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
