"""Which heads of requests are taken, and what does an application read in one?

A head has at most HEADERS headers and HEAD_BYTES bytes (431). It names one host and no transfer
coding but chunked; what is no HTTP/1.1 or 1.0 is refused (400).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import httptools

from config.http_refusals import head_too_large, unparseable

HEADERS: Final = 100
HEAD_BYTES: Final = 32 * 1024


@dataclass(slots=True)
class Head:
    """Grows as the parser finds its parts. Every method raises CallError for what is refused."""

    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)  # names in lower case
    waits_for_leave: bool = False  # to send its body
    _bytes: int = 0  # of the address and the headers
    _hosts: int = 0
    _codings: tuple[bytes, ...] = ()

    def add_address(self, part: bytes) -> None:
        self._bytes += len(part)
        self.url += part

    def add(self, name: bytes, value: bytes) -> None:
        self._bytes += len(name) + len(value)
        if len(self.headers) >= HEADERS or self._bytes > HEAD_BYTES:
            raise head_too_large(HEADERS, HEAD_BYTES)
        name = name.lower()
        if name == b"host":
            self._hosts += 1
        elif name == b"transfer-encoding":
            self._codings += (value.lower(),)
        elif name == b"expect" and value.lower() == b"100-continue":
            self.waits_for_leave = True
        self.headers.append((name, value))

    def check(self, version: str) -> None:
        if version not in ("1.0", "1.1"):
            raise unparseable("its version must be 1.1 or 1.0")
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            raise unparseable("it must name one host")
        if self._codings and (version == "1.0" or self._codings != (b"chunked",)):
            raise unparseable("its body can be chunked and nothing else")

    def scope(self, connection: Mapping[str, Any], method: bytes, version: str) -> dict[str, Any]:
        """``connection``: what all requests of it have in common, ``root_path`` among it. Raises
        HttpParserInvalidURLError."""
        address = httptools.parse_url(self.url)
        path = address.path.decode("ascii")
        root: str = connection["root_path"]
        return {
            **connection,
            "http_version": version,
            "headers": self.headers,
            "method": method.decode("ascii"),
            "path": root + (unquote(path) if "%" in path else path),
            "raw_path": root.encode("ascii") + address.path,
            "query_string": address.query or b"",
        }
