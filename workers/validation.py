"""Is this a file of requests that a batch can run? Read line by line, never as a whole.

Each line is one JSON object: ``custom_id`` (unique), ``method`` POST, ``url`` the endpoint of the
batch, ``body`` valid by the wire dialect, for a model that the key may use. Blank lines are
skipped. Everything is judged before anything runs; mistakes are listed by line, at most ERRORS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import msgspec

from gateway.auth import Principal
from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from gateway.pipeline.classify import Asked, classify
from gateway.pipeline.incoming import BOUNDS
from gateway.snapshot.values import Snapshot
from gateway.wire import DIALECTS
from gateway.wire.request_hints import RequestHints
from workers.models import CUSTOM_ID_CHARACTERS

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
MOST_LINES = 50_000
ERRORS = 100
ENVELOPE_BYTES = 4096  # what a line may have around its body
SKIPPED_AT_ONCE = 64 * 1024


class Envelope(msgspec.Struct):
    """A line, its body still as it came."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


@dataclass(frozen=True, slots=True)
class FoundLine:
    """``line_no`` counts from 1, blank lines too."""

    line_no: int
    custom_id: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class LineProblem:
    code: str
    message: str
    line: int | None = None
    param: str | None = None


@dataclass(slots=True)
class Findings:
    """``lines`` counts only where there is no problem. ``models``: what the lines ask for."""

    lines: list[FoundLine] = field(default_factory=list)
    problems: list[LineProblem] = field(default_factory=list)
    models: set[str] = field(default_factory=set)


class Validator:
    """One file for one batch."""

    def __init__(self, endpoint: str, principal: Principal, snapshot: Snapshot) -> None:
        self._endpoint = endpoint
        self._dialect = DIALECTS[endpoint]
        self._principal = principal
        self._snapshot = snapshot
        self._decoder = msgspec.json.Decoder(Envelope)
        self._seen: dict[str, int] = {}
        self.findings = Findings()

    def read(self, file: BinaryIO) -> Findings:
        found = self.findings
        for line_no, offset, raw in _lines(file, self._snapshot.most_body_bytes + ENVELOPE_BYTES):
            if len(found.lines) >= MOST_LINES:
                text = f"A batch may have at most {MOST_LINES:,} lines."
                found.problems.append(LineProblem("too_many_requests", text, line_no))
                break
            try:
                custom_id = self._judge(line_no, raw)
            except Rejected as error:
                code = str(error.reason)
                found.problems.append(LineProblem(code, error.message, line_no, error.param))
                if len(found.problems) >= ERRORS:
                    break
            else:
                length = len(raw) if raw else 0
                found.lines.append(FoundLine(line_no, custom_id, offset, length))
        if not found.lines and not found.problems:
            found.problems.append(LineProblem("empty_file", "The file has no request."))
        return found

    def _judge(self, line_no: int, raw: bytes | None) -> str:
        """The custom id. Raises Rejected."""
        if raw is None:
            raise Rejected(Reason.BODY_TOO_LARGE, "The line is longer than a request may be.")
        envelope = self._envelope(raw)
        custom_id = envelope.custom_id
        if not 1 <= len(custom_id) <= CUSTOM_ID_CHARACTERS or "\0" in custom_id:
            text = f"custom_id must have 1 to {CUSTOM_ID_CHARACTERS} characters."
            raise _wrong(text, "custom_id")
        if (first := self._seen.setdefault(custom_id, line_no)) != line_no:
            raise _wrong(f"This custom_id is also that of line {first}.", "custom_id")
        if envelope.method != "POST":
            raise _wrong("method must be POST.", "method")
        if envelope.url != self._endpoint:
            raise _wrong(f"url must be the batch's endpoint, {self._endpoint}.", "url")
        self._judge_body(bytes(envelope.body))
        return custom_id

    def _judge_body(self, raw: bytes) -> None:
        if len(raw) > self._snapshot.most_body_bytes:
            raise Rejected(Reason.BODY_TOO_LARGE, "The body is larger than allowed.", param="body")
        try:
            body = self._dialect.parse(raw, BOUNDS)
            asked = Asked(self._dialect.endpoint, body, RequestHints())
            classify(self._principal, asked, self._snapshot)
        except Rejected as error:
            param = f"body.{error.param}" if error.param else "body"
            raise Rejected(error.reason, error.message, param=param) from None
        if body.stream:
            raise _wrong("A line of a batch cannot be streamed.", "body.stream")
        self.findings.models.add(body.model)

    def _envelope(self, raw: bytes) -> Envelope:
        try:
            return self._decoder.decode(raw)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            missing = isinstance(error, msgspec.ValidationError)
            text = f"The line is not a request: {error}." if missing else "The line is not JSON."
            raise _wrong(text) from None


def _lines(file: BinaryIO, most_bytes: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Number, offset and bytes of each line that is not blank, without its end; None for the bytes
    of one that is too long."""
    line_no = offset = 0
    while raw := file.readline(most_bytes + 2):
        line_no += 1
        begin = offset
        offset += len(raw)
        content = raw.removesuffix(b"\n").removesuffix(b"\r")
        if not raw.endswith(b"\n") and len(raw) == most_bytes + 2:
            offset += _skip_line(file)
            yield line_no, begin, None
        elif content.strip():
            yield line_no, begin, content


def _skip_line(file: BinaryIO) -> int:
    """How many bytes the rest of the line had."""
    skipped = 0
    while raw := file.readline(SKIPPED_AT_ONCE):
        skipped += len(raw)
        if raw.endswith(b"\n"):
            break
    return skipped


def _wrong(message: str, param: str | None = None) -> Rejected:
    return Rejected(Reason.INVALID_REQUEST, message, param=param)
