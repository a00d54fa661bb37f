"""Which limit passed is decided when it passes."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.clock import SystemClock
from gateway.core.errors import CallError
from gateway.core.reasons import Reason
from gateway.pipeline.patience import Patience


async def test_content_between_the_deadline_and_the_cancellation_blames_nobody() -> None:
    """R13: a caller's own deadline never counts against a replica."""
    clock, content = SystemClock(), list[str]()

    def which() -> CallError:
        return CallError(Reason.STREAM_STALLED if content else Reason.DEADLINE)

    async def block() -> None:
        until_s = clock.monotonic() + 0.01
        with Patience(clock.monotonic, lambda: until_s, which):
            try:
                await asyncio.Event().wait()
            finally:
                content.append("late")

    with pytest.raises(CallError) as ended:
        await block()
    assert ended.value.reason is Reason.DEADLINE
