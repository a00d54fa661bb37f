"""Requests as bytes, each with what the server must make of it. Literal: nothing is computed.

Cases are those in which parsers of HTTP are known to differ; who reads a request otherwise than the
proxy before it can be made to see one that nobody sent. ``SMUGGLED`` is such a request: it stands
where only a wrong reading finds it. Sources: RFC 9112, sections 2.2 to 7.1 and 11.2.
"""

from __future__ import annotations

from dataclasses import dataclass

POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
GET = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"  # 35 bytes
LAST = b"\r\n0\r\n\r\n" + SMUGGLED  # after a chunk, or after a head's last line end
EMPTY = b"\r\n" + LAST  # after a line of the head


@dataclass(frozen=True, slots=True)
class Probe:
    """``statuses``: of the answers, in order. ``whole``: how many requests reach the application
    to their last byte. ``closed``: the server ends the connection after the answers."""

    name: str
    raw: bytes
    statuses: tuple[int, ...]
    whole: int
    closed: bool


def refused(name: str, raw: bytes) -> Probe:
    return Probe(name, raw, (400,), 0, closed=True)


def served(name: str, raw: bytes) -> Probe:
    return Probe(name, raw, (200,), 1, closed=False)


LENGTHS = (
    refused("length and chunked", CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n"),
    refused("chunked after a length", POST + b"Content-Length: 40\r\nTransfer-Encoding: chunked"
            + EMPTY),
    refused("chunked before a length", CHUNKED + b"Content-Length: 40" + EMPTY),
    refused("two equal lengths", POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    refused("two lengths", POST + b"Content-Length: 0\r\nContent-Length: 35\r\n\r\n" + SMUGGLED),
    refused("a list of lengths", POST + b"Content-Length: 5, 5\r\n\r\nhello"),
    refused("a length with a sign", POST + b"Content-Length: +5\r\n\r\nhello"),
    refused("a negative length", POST + b"Content-Length: -5\r\n\r\nhello"),
    refused("a hexadecimal length", POST + b"Content-Length: 0x5\r\n\r\nhello"),
    refused("an empty length", POST + b"Content-Length:\r\n\r\n" + SMUGGLED),
    refused("a length with a separator", POST + b"Content-Length: 3_5\r\n\r\n" + SMUGGLED),
    refused("a length beyond 64 bits", POST + b"Content-Length: 18446744073709551621\r\n\r\nhello"),
    served("a length on GET", GET + b"Content-Length: 35\r\n\r\n" + SMUGGLED),
)  # fmt: skip
CODINGS = (
    refused("an unknown coding", POST + b"Transfer-Encoding: xchunked" + EMPTY),
    refused("identity", POST + b"Transfer-Encoding: identity\r\n\r\n" + SMUGGLED),
    refused("chunked, identity", POST + b"Transfer-Encoding: chunked, identity" + EMPTY),
    refused("identity, chunked", POST + b"Transfer-Encoding: identity, chunked" + EMPTY),
    refused("gzip, chunked", POST + b"Transfer-Encoding: gzip, chunked" + EMPTY),
    refused("chunked twice", CHUNKED + b"Transfer-Encoding: chunked" + EMPTY),
    refused("a space before the colon", POST + b"Transfer-Encoding : chunked" + EMPTY),
    refused("a vertical tab", POST + b"Transfer-Encoding: \x0bchunked" + EMPTY),
    refused("chunked in HTTP/1.0", b"POST /v1/chat/completions HTTP/1.0\r\nHost: a\r\n"
            b"Transfer-Encoding: chunked" + EMPTY),
    served("a tab before the value", POST + b"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n"),
    served("another case", POST + b"tRANSFER-eNCODING: ChUnKeD\r\n\r\n0\r\n\r\n"),
    served("an underscore for the hyphen",
           POST + b"Transfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello"),
)  # fmt: skip
CHUNKS = (
    refused("a negative chunk", CHUNKED + b"\r\n-5\r\nhello" + LAST),
    refused("a chunk with a sign", CHUNKED + b"\r\n+5\r\nhello" + LAST),
    refused("a chunk with 0x", CHUNKED + b"\r\n0x5\r\nhello" + LAST),
    refused("a chunk beyond 64 bits", CHUNKED + b"\r\n10000000000000005\r\nhello"
            + LAST),
    refused("a chunk without a size", CHUNKED + b"\r\n\r\nhello" + LAST),
    refused("a space after the size", CHUNKED + b"\r\n5 \r\nhello" + LAST),
    refused("a chunk longer than it says", CHUNKED + b"\r\n3\r\nhello" + LAST),
    refused("no line end after a chunk", CHUNKED + b"\r\n5\r\nhello0\r\n\r\n" + SMUGGLED),
    refused("line feeds alone around chunks", CHUNKED + b"\r\n5\nhello\n0\n\n" + SMUGGLED),
    refused("a line feed within an extension", CHUNKED + b'\r\n5;a="\n"\r\nhello'
            + LAST),
    refused("a trailer", CHUNKED + b"\r\n5\r\nhello\r\n0\r\nX-Tenant: evil\r\n\r\n"),
    served("an extension", CHUNKED + b"\r\n5;a=b\r\nhello\r\n0\r\n\r\n"),
    served("zeros before the size", CHUNKED + b"\r\n0000000000000000000005\r\nhello\r\n0\r\n\r\n"),
)  # fmt: skip
LINES = (
    refused("line feeds alone", b"GET /v1/models HTTP/1.1\nHost: a\n\n"),
    refused("a line feed alone at the end", GET[:-2] + b"\n\n"),
    refused("a carriage return alone", b"GET /v1/models HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"),
    refused("carriage returns alone", b"GET /v1/models HTTP/1.1\rHost: a\r\r"),
    refused("a folded header", GET + b"X-A: b\r\n  c\r\n\r\n"),
    refused("a fold at the beginning", b"GET /v1/models HTTP/1.1\r\n Host: a\r\n\r\n"),
    refused("a space behind a name", GET + b"X-A : b\r\n\r\n"),
    refused("a header without a name", GET + b": b\r\n\r\n"),
    refused("a header without a colon", GET + b"nonsense\r\n\r\n"),
    refused("NUL in a value", GET + b"X-A: a\0b\r\n\r\n"),
    refused("NUL in a name", GET + b"X\0A: b\r\n\r\n"),
    refused("a control character", GET + b"X-A: a\x01b\r\n\r\n"),
    refused("DEL", GET + b"X-A: a\x7fb\r\n\r\n"),
    served("a byte above 127", GET + b"X-A: a\xffb\r\n\r\n"),
    served("empty lines before it", b"\r\n\r\n" + GET + b"\r\n"),
)
REQUEST_LINES = (
    refused("two hosts", GET + b"Host: b\r\n\r\n"),
    refused("no host", b"GET /v1/models HTTP/1.1\r\n\r\n"),
    refused("HTTP/9.9", b"GET /v1/models HTTP/9.9\r\nHost: a\r\n\r\n"),
    refused("HTTP/2.0", b"GET /v1/models HTTP/2.0\r\nHost: a\r\n\r\n"),
    refused("HTTP/0.9", b"GET /v1/models\r\n\r\n"),
    refused("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    refused("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    refused("CONNECT", b"CONNECT evil:443 HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused("a method in small letters", b"get /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused("an unknown method", b"EVIL /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused("tabs between the parts", b"GET\t/v1/models\tHTTP/1.1\r\nHost: a\r\n\r\n"),
    refused("a space in the target", b"GET /v1/models evil HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused("NUL in the target", b"GET /v1/\0models HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused("a byte above 127 in the target", b"GET /v1/\xff HTTP/1.1\r\nHost: a\r\n\r\n"),
    served("two spaces", b"GET  /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"),
    served("the absolute form", b"GET http://evil/v1/models HTTP/1.1\r\nHost: a\r\n\r\n"),
    served("the asterisk form", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
    Probe("HTTP/1.0", b"GET /v1/models HTTP/1.0\r\n\r\n", (200,), 1, closed=True),
)
CONNECTIONS = (
    Probe("one behind the other", GET + b"\r\n" + GET + b"\r\n", (200, 200), 2, closed=False),
    Probe("garbage behind one", GET + b"\r\nnonsense\r\n\r\n", (200,), 1, closed=True),
    Probe("more after close", GET + b"Connection: close\r\n\r\n" + SMUGGLED,
          (200,), 1, closed=True),
    Probe("upgrade to h2c", GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
          b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + SMUGGLED, (200,), 1, closed=True),
    Probe("expecting 100", POST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
          (100, 200), 1, closed=False),
    served("expecting anything else", POST + b"Content-Length: 5\r\nExpect: 200-ok\r\n\r\nhello"),
    Probe("a body that is refused unread", POST + b"Content-Length: 5000\r\n\r\n" + SMUGGLED,
          (413,), 0, closed=True),
)  # fmt: skip
PROBES = (*LENGTHS, *CODINGS, *CHUNKS, *LINES, *REQUEST_LINES, *CONNECTIONS)
