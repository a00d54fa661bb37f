"""The real ledger with the real database, in a process of its own that a test can squeeze.

Run as a program: directory, records per second, seconds, largest file in bytes (0: no limit).
Prints one JSON line: offered, accepted, dropped, spooled bytes, parts that were degraded and
restored, and whether hard budgets were refused. The database is the one of ``DATABASE_URL``.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path

import django


def main(directory: Path, rate: int, file_bytes: int) -> None:
    django.setup()
    from gateway.core.clock import SystemClock
    from gateway.core.events import Degraded, Event, Restored
    from gateway.ledger import Ledger
    from tenants.services.ledger import insert_calls
    from tests.gateway.factories import call_record

    events: list[Event] = []
    ledger = Ledger(
        directory, lambda _: None, insert_calls, events.append, SystemClock(), queue_records=500
    )
    ledger.start()
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    offered = accepted = 0
    unwritable = False
    told_to_end = threading.Event()
    threading.Thread(target=_set_when_told, args=(told_to_end,), daemon=True).start()
    while not told_to_end.wait(0.01):
        for _ in range(max(1, rate // 100)):
            accepted += ledger.append(call_record(f"call-{offered}", arrived_at=time.time()))
            offered += 1
        unwritable |= not ledger.writable
        ledger.watch()
    ended_s = time.monotonic()
    while ledger.stats().spooled_bytes or ledger.stats().unwritten_records:
        time.sleep(0.05)
        ledger.watch()
    emptied_s = time.monotonic() - ended_s
    ledger.stop(20)
    stats = ledger.stats()
    told = {
        "offered": offered,
        "accepted": accepted,
        "dropped": stats.dropped,
        "spooled_bytes": stats.spooled_bytes,
        "emptied_s": emptied_s,
        "degraded": sorted({event.part for event in events if isinstance(event, Degraded)}),
        "restored": sorted({event.part for event in events if isinstance(event, Restored)}),
        "unwritable": unwritable,
    }
    print(json.dumps(told), flush=True)


def _set_when_told(event: threading.Event) -> None:
    if sys.stdin.readline():
        event.set()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
