"""Bodies and names that no honest client sends, against the running product: JSON bombs, and text
that deceives, breaks or does not exist. Each is the caller's mistake or taken as it is; never 500.
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.installation import Installation
from tests.e2e.operator import Operator, Refused

MIB = 1024 * 1024
MOST_GROWTH_BYTES = 10 * MIB
BEGUN = '{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"x"}],"x":'
BOMBS = {
    "open lists": BEGUN + "[" * 900_000,
    "open objects": BEGUN + '{"a":' * 180_000,
    "deep lists": BEGUN + "[" + ("[" * 60 + "]" * 60 + ",") * 7_500 + "1]}",
    "empty objects": BEGUN + "[" + "{}," * 300_000 + "1]}",
    "keys": BEGUN + json.dumps({str(number): 1 for number in range(80_000)}) + "}",
    "fewer keys": BEGUN + json.dumps({str(number): 1 for number in range(40_000)}) + "}",
    "long number": BEGUN + "9" * 5_000 + "}",
    "long exponent": BEGUN + "1e" + "9" * 5_000 + "}",
    "escapes": BEGUN + '"' + '\\"' * 450_000,
    "messages": '{"model":"sim","messages":[' + '{"role":"user"},' * 60_000 + "1]}",
}
BACKSLASH_U = "\\u"
BIDI = [chr(code) for code in (0x202A, 0x202B, 0x202D, 0x202E, 0x2066, 0x2067, 0x2069, 0x200F)]
UNSEEN = [chr(code) for code in (0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x180E, 0x061C)]
CONTROL = [chr(code) for code in (0x01, 0x07, 0x08, 0x0B, 0x1B, 0x7F, 0x85, 0x9F, 0x0A, 0x0D, 0x09)]
LINES = ["\u2028", "\u2029"]
LONE = ["\ud800", "\udfff", "x\ud83d", "\ude00x", "\udc00\ud800"]
NUL = ["\0", "a\0b", "\0\0"]
ODD = [
    *("é", "e\u0301", "ﬁ", "Å", "Å", "ｆｕｌｌ", "аcme", "асme", "αcme", "acⅿe", "ACME", "ı", "İ"),
    *("\u3164", "\u115f", "ﷺ", "㎏"),
    *("😀", "👨‍👩‍👧", "🏳️‍🌈", "\U0010ffff", "\ufffe", "\ue000", "ÿ", "़" * 50, "Z̴̧͇͗"),
]
CORPUS = [*(f"a{each}b" for each in (*BIDI, *UNSEEN, *CONTROL, *LINES)), *LONE, *NUL, *ODD]
REFUSED_AS_NAMES = {f"a{each}b" for each in (*BIDI, *UNSEEN, *CONTROL, *LINES)} | {*LONE, *NUL}


def posted(place: Installation, path: str, body: Any, key: str = "") -> tuple[int, bytes]:
    """``body``: text as it stands, anything else as JSON with every character escaped."""
    raw = body if isinstance(body, str) else json.dumps(body)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    headers = {
        "Authorization": f"Bearer {key or place.key_of('bursty-bikes')}",
        "Content-Type": "application/json",
    }
    try:
        connection.request("POST", path, raw.encode(), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def resident_bytes(place: Installation) -> int:
    return _memory_bytes(place, "VmRSS")


def peak_bytes(place: Installation) -> int:
    """Since ``forget_peak``, where the system can forget; else since the process began."""
    return _memory_bytes(place, "VmHWM")


def forget_peak(place: Installation) -> None:
    assert place.serving is not None
    Path(f"/proc/{place.serving.pid}/clear_refs").write_text("5")


def _memory_bytes(place: Installation, kind: str) -> int:
    assert place.serving is not None
    status = Path(f"/proc/{place.serving.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(kind))
    return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def warm(estate: Installation, operator: Operator) -> Installation:
    """Has refused a long text before, so that its allocator has grown to a working size."""
    for _ in range(3):
        posted(estate, "/v1/chat/completions", BEGUN + '"' + "x" * 900_000 + '"}')
    return estate


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_takes_little_memory(warm: Installation, name: str) -> None:
    """S32: what it costs the loop is measured in ``tests/wire/test_body.py``."""
    forget_peak(warm)
    before = resident_bytes(warm)
    statuses = {posted(warm, "/v1/chat/completions", BOMBS[name])[0] for _ in range(3)}
    grown, left = peak_bytes(warm) - before, resident_bytes(warm) - before
    sizes = f"RSS {grown / MIB:+.1f} MiB at its peak, {left / MIB:+.1f} after"
    print(f"{name}: {len(BOMBS[name]) / MIB:.2f} MiB thrice, {sizes}")
    assert statuses == {400}
    assert grown <= MOST_GROWTH_BYTES


def test_strange_text_is_never_an_internal_error_of_a_call(warm: Installation) -> None:
    """S35: in the prompt, in names, in unknown fields, in metadata; of every API."""
    assert len(set(CORPUS)) >= 60
    statuses = []
    for text in CORPUS:
        for path, body in _calls(text):
            status, told = posted(warm, path, body)
            statuses.append(status)
            assert status < 500, (path, ascii(text), told[:200])
            if text in LONE or "\0" in text:
                assert status == 400, (path, ascii(text), status)
    print(f"{len(CORPUS)} texts, {len(statuses)} calls, none 500 or above")


def _calls(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    said = [{"role": "user", "content": text}]
    chat = {"model": "sim", "max_tokens": 1, "messages": said}
    yield "/v1/chat/completions", chat | {"user": text, "metadata": {text: text}, "x": {text: 1}}
    yield "/v1/chat/completions", {**chat, "model": text}
    yield "/v1/messages", chat | {"system": text, "x": text}
    yield "/v1/responses", {"model": "sim", "max_output_tokens": 1, "input": f"x{text}"}
    yield "/v1/batches", {"input_file_id": text, "endpoint": text, "completion_window": "24h"}


def test_strange_text_is_never_an_internal_error_of_control(operator: Operator) -> None:
    """S35: what cannot be told apart or read is refused as a name; a slug is plain ASCII."""
    for number, text in enumerate(CORPUS):
        for method, path, body, refused in (
            ("POST", "/tenants", {"name": text, "slug": f"odd-{number}", "why": "x"}, False),
            ("POST", "/tenants", {"name": "Odd", "slug": text, "why": "x"}, True),
            ("POST", "/pools", {"slug": text}, True),
            ("POST", "/tenants/acme/keys", {"label": text}, False),
            ("GET", f"/tenants/{urllib.parse.quote(text, errors='replace')}", None, True),
        ):
            status = _asked(operator, method, path, body)
            assert status < 500, (path, ascii(text), status)
            if refused or text in REFUSED_AS_NAMES:
                assert 400 <= status < 500, (path, ascii(text), status)


def test_a_slug_that_looks_like_another_is_refused(operator: Operator) -> None:
    """S35"""
    for twin in ("acrne", "acme-", "ac-me", "аcme"):
        status = _asked(operator, "POST", "/tenants", {"name": "x", "slug": twin, "why": "x"})
        assert 400 <= status < 500, twin


def _asked(operator: Operator, method: str, path: str, body: Any) -> int:
    try:
        operator.ask(method, path, body)
    except Refused as refused:
        return refused.status
    return 200
