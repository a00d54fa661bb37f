"""How does a service write? In one transaction, repeated when two writers got in each other's way.

A deadlock or serialization failure undoes the whole transaction, so running the service once more
is safe. It is repeated at most three times, after a random pause that grows. A service called
inside another transaction joins it and leaves repetition to the outermost one.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection, transaction

P = ParamSpec("P")
R = TypeVar("R")

REPEATS = 3
FIRST_PAUSE_S = 0.02
_POSTGRESQL_CONFLICTS = frozenset({"40001", "40P01"})
_SQLITE_CONFLICTS = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT})


def transactional(service: Callable[P, R]) -> Callable[P, R]:
    """Wraps a service; what it raises undoes everything that it wrote."""

    @wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if connection.in_atomic_block:
            with transaction.atomic():
                return service(*args, **kwargs)
        return _repeated(lambda: service(*args, **kwargs))

    return run


def is_conflict(error: OperationalError) -> bool:
    """Whether another writer is the cause, so that the same transaction may succeed now."""
    cause = error.__cause__
    return (
        getattr(cause, "sqlstate", None) in _POSTGRESQL_CONFLICTS
        or getattr(cause, "sqlite_errorcode", None) in _SQLITE_CONFLICTS
    )


def _repeated(service: Callable[[], R]) -> R:
    for repeat in range(REPEATS + 1):
        try:
            with transaction.atomic():
                return service()
        except OperationalError as error:
            if repeat == REPEATS or not is_conflict(error):
                raise
        time.sleep(FIRST_PAUSE_S * 2**repeat * random.uniform(0.5, 1.5))
    raise AssertionError("unreachable")
