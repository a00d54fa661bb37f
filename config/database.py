"""Which database, and with which protection? One URL becomes Django's dictionary.

SQLite: WAL, every transaction IMMEDIATE, 20 s of waiting for the writer. PostgreSQL: a pool per
process, health checked, no statement above 5 s, no connect above 3 s. Units: seconds, except the
server options, which are milliseconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

KEPT_S = 60  # a thread's SQLite connection: opening one costs a hundred times a small query


def database(url: str, *, var_dir: Path, pool: int) -> dict[str, Any]:
    """An empty ``url`` is a file in ``var_dir``."""
    if not url:
        return sqlite(var_dir / "fairway.sqlite3")
    if url.startswith("sqlite:///"):
        return sqlite(Path(unquote(url.removeprefix("sqlite:///"))))
    return postgresql(url, pool)


def sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path.absolute()),
        "CONN_MAX_AGE": KEPT_S,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def postgresql(url: str, pool: int) -> dict[str, Any]:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", "") or parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            **query,
            "pool": {"min_size": 1, "max_size": pool, "timeout": 3},
            "connect_timeout": 3,
            "keepalives_idle": 10,
            "options": "-c statement_timeout=5000 -c idle_in_transaction_session_timeout=10000",
        },
    }
