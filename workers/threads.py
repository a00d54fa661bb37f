"""How does a coroutine use the database? In a thread that gives its connection back at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connection

P = ParamSpec("P")
R = TypeVar("R")


async def with_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    def run() -> R:
        close_old_connections()
        try:
            return work(*args, **kwargs)
        finally:
            connection.close()

    return await asyncio.to_thread(run)
