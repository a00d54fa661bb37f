"""How many connections does the limit on open files allow?

A call holds two files, its own connection and one to a replica; RESERVED are left for everything
else: database, Redis, journal, tables, the listener of the probes. So no call ever lacks the file
for its replica, which would look as if the replica were gone.
"""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 128
WANTED: Final = 65_536
LEAST: Final = 16


def raised() -> int:
    """Raises the process's own limit as far as the system lets it and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def connections_for(files: int) -> int:
    return max(LEAST, (files - RESERVED) // 2)
