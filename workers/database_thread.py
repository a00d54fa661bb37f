"""How does the loop of a worker write? Through one thread, in order, with one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connection

P = ParamSpec("P")
R = TypeVar("R")


class DatabaseThread:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "database")

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(_fresh, work, args, kwargs))

    async def close(self) -> None:
        await self.run(lambda: connection.close())  # that of the thread, not of the caller
        self._thread.shutdown(wait=False)


def _fresh(work: Callable[..., R], args: tuple[object, ...], kwargs: dict[str, object]) -> R:
    close_old_connections()
    return work(*args, **kwargs)
