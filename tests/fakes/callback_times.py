"""How long does each callback keep the event loop? CPU of the loop's thread, seconds.

Counts every step of every task and every timer of the loops of this process while it watches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def callback_times(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    found: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        run(handle)
        found.append(time.thread_time() - began_s)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.Handle, "_run", timed)
        yield found
