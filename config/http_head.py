"""Which heads of requests are taken, and what does an application read in one?

A head has at most HEADERS headers and HEAD_BYTES bytes (431). It names one host and no transfer
coding but chunked; what is no HTTP/1.1 or 1.0 is refused (400).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

import httptools

from config.http_refusals import unparseable

HEADERS: Final = 100
HEAD_BYTES: Final = 32 * 1024
_TOLD: Final = frozenset({b"host", b"transfer-encoding", b"expect"})


def checked(headers: Iterable[tuple[bytes, bytes]], version: str) -> bool:
    """Whether the request waits for leave to send its body. Raises CallError for what is refused.
    Names are in lower case."""
    hosts, waits_for_leave = 0, False
    codings: tuple[bytes, ...] = ()
    for name, value in headers:
        if name not in _TOLD:
            continue
        if name == b"host":
            hosts += 1
        elif name == b"expect":
            waits_for_leave = waits_for_leave or value.lower() == b"100-continue"
        else:
            codings += (value.lower(),)
    if version not in ("1.0", "1.1"):
        raise unparseable("its version must be 1.1 or 1.0")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise unparseable("it must name one host")
    if codings and (version == "1.0" or codings != (b"chunked",)):
        raise unparseable("its body can be chunked and nothing else")
    return waits_for_leave


def add_address(scope: dict[str, Any], root: str, url: bytes) -> None:
    """``root``: the path that the server is mounted at. Raises HttpParserInvalidURLError."""
    address = httptools.parse_url(url)
    path = address.path.decode("ascii")
    scope["path"] = root + (unquote(path) if "%" in path else path)
    scope["raw_path"] = root.encode("ascii") + address.path
    scope["query_string"] = address.query or b""
