"""Where is an answer between its call and the output file? In a part file, one per lease token.

One worker appends to a part, so no two write to one file. A record is a line: the line's number,
whether it completed, its usage, and the line of the output file as it will be. It is on disk before
the row says so; what a worker wrote and could not report is found again by ``recovered``, so that
the call is not made twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from workers.ids import new_id
from workers.services.lines import SettledLine
from workers.usage import TokenUsage


class Record(msgspec.Struct):
    line_no: int
    is_completed: bool
    usage: TokenUsage
    result: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gateway said to one line. ``body`` is JSON."""

    line_no: int
    custom_id: str
    status: int
    request_id: str
    body: bytes
    usage: TokenUsage

    @property
    def is_completed(self) -> bool:
        return self.status == 200


_decoder = msgspec.json.Decoder(Record)


class Part:
    """The part file of one token, open for its one writer."""

    def __init__(self, directory: Path, token: str) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._token = token
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(directory / token, flags, 0o600)
        self._offset = os.fstat(self._descriptor).st_size

    def append(self, answers: Iterable[Answer]) -> list[SettledLine]:
        """Returns once they are on disk."""
        settled = [self._append(answer) for answer in answers]
        os.fsync(self._descriptor)
        return settled

    def close(self) -> None:
        os.close(self._descriptor)

    def _append(self, answer: Answer) -> SettledLine:
        record = Record(
            answer.line_no,
            answer.is_completed,
            answer.usage,
            msgspec.Raw(_result_line(answer)),
        )
        line = msgspec.json.encode(record) + b"\n"
        view = memoryview(line)
        while view:
            view = view[os.write(self._descriptor, view) :]
        offset, self._offset = self._offset, self._offset + len(line)
        return _settled(record, self._token, offset, len(line))


def recovered(directory: Path, token: str) -> dict[int, SettledLine]:
    """What the part holds, by line; the last record may have been cut off and is then ignored."""
    found: dict[int, SettledLine] = {}
    try:
        file = (directory / token).open("rb")
    except FileNotFoundError:
        return found
    with file:
        offset = 0
        for line in file:
            if line.endswith(b"\n"):
                record = _decoder.decode(line)
                found[record.line_no] = _settled(record, token, offset, len(line))
            offset += len(line)
    return found


def result_at(file: int, offset: int, length: int) -> bytes:
    """The line of the output file that is kept there, without its end. ``file``: a descriptor."""
    return bytes(_decoder.decode(os.pread(file, length, offset)).result)


def error_line(custom_id: str, code: str, message: str) -> bytes:
    """The line of a request that has no answer."""
    return _line(custom_id, None, {"code": code, "message": message})


def _result_line(answer: Answer) -> bytes:
    response = {
        "status_code": answer.status,
        "request_id": answer.request_id,
        "body": msgspec.Raw(answer.body),
    }
    return _line(answer.custom_id, response, None)


def _line(custom_id: str, response: dict[str, Any] | None, error: dict[str, str] | None) -> bytes:
    line = {"id": new_id("batch_req_"), "custom_id": custom_id}
    return msgspec.json.encode({**line, "response": response, "error": error})


def _settled(record: Record, token: str, offset: int, length: int) -> SettledLine:
    return SettledLine(record.line_no, record.is_completed, token, offset, length, record.usage)
