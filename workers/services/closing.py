"""How does a batch end? Its results become two files, each ``custom_id`` once, in order of lines.

Completed lines go to the output file, all others to the error file; a line that has no answer gets
an error that says why. The files, their rows and the final status appear together or not at all:
whoever loses the compare-and-set deletes what it had assembled.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from django.db import transaction
from django.db.models import F

from tenants.services.transactions import transactional
from workers import results
from workers.ids import new_id
from workers.models import Batch, BatchLine, LineState, Purpose, Status
from workers.services.files import FileTerms, add_row
from workers.services.lines import EXHAUSTED
from workers.storage import Incoming, Storage

CLOSING = (Status.FINALIZING, Status.CANCELLING)
OPEN_PARTS = 64
READ_AT_ONCE = 2000
WRITE_BYTES = 1024 * 1024
EXPLANATIONS = {
    EXHAUSTED: "The request could not be completed: its worker died at every attempt.",
    "batch_expired": "The completion window ended before this request was executed.",
    "batch_cancelled": "The batch was cancelled before this request was executed.",
}
CODES = {Status.EXPIRED: "batch_expired", Status.CANCELLED: "batch_cancelled"}


def close(*, batch: Batch, storage: Storage, now: datetime) -> bool:
    """``batch`` has been claimed and no line of it runs. False: somebody else was first."""
    if not Batch.objects.filter(pk=batch.batch_id, status__in=CLOSING).exists():
        return False
    _fail_open_lines(batch)
    with ExitStack() as stack:
        outputs = [stack.enter_context(_Output(storage)) for _ in range(2)]
        directory = storage.results(batch.batch_id)
        for is_completed, line in _result_lines(batch, directory):
            outputs[0 if is_completed else 1].write(line)
        kept = [output.keep() for output in outputs]
        if _finish(batch=batch, kept=kept, now=now):
            for output in outputs:
                output.is_owned = True
            transaction.on_commit(lambda: storage.forget_results(batch.batch_id))
            return True
    return False


@transactional
def _fail_open_lines(batch: Batch) -> None:
    """From here on nobody can settle them, however late."""
    is_open = (LineState.WAITING, LineState.LEASED)
    rows = BatchLine.objects.filter(batch_id=batch.batch_id, state__in=is_open)
    if batch.in_progress_at is None:
        rows.delete()  # cancelled while it was validated: they were never counted
        return
    code = CODES.get(Status(batch.closing_as), EXHAUSTED)
    failed = rows.update(state=LineState.FAILED, error_code=code, lease_until=None)
    Batch.objects.filter(pk=batch.batch_id).update(failed=F("failed") + failed)


@transactional
def _finish(*, batch: Batch, kept: list[tuple[str, int]], now: datetime) -> bool:
    final = Status(batch.closing_as)
    rows = Batch.objects.filter(pk=batch.batch_id, status__in=CLOSING)
    (output_id, _), (error_id, _) = kept
    changed = rows.update(
        status=final,
        finished_at=now,
        finalizing_at=batch.finalizing_at or now,
        busy_until=None,
        output_file_id=output_id,
        error_file_id=error_id,
    )
    if changed:
        for word, (file_id, size_bytes) in zip(("output", "error"), kept, strict=True):
            if file_id:
                terms = _terms(batch, word)
                add_row(terms=terms, file_id=file_id, size_bytes=size_bytes, now=now)
    return bool(changed)


def _terms(batch: Batch, word: str) -> FileTerms:
    return FileTerms(
        tenant=batch.tenant,
        key_id=batch.key_id,
        filename=f"{batch.batch_id}_{word}.jsonl",
        purpose=Purpose.OUTPUT,
        lifetime_s=batch.output_seconds,
    )


def _result_lines(batch: Batch, directory: Path) -> Iterator[tuple[bool, bytes]]:
    with _Parts(directory) as parts:
        rows = BatchLine.objects.filter(batch_id=batch.batch_id).order_by("line_no")
        for row in rows.iterator(chunk_size=READ_AT_ONCE):
            if row.part:
                yield row.state == LineState.COMPLETED, parts.result(row)
            else:
                text = EXPLANATIONS[row.error_code]
                yield False, results.error_line(row.custom_id, row.error_code, text)


class _Parts:
    """Part files of one batch, few of them open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: OrderedDict[str, int] = OrderedDict()

    def __enter__(self) -> _Parts:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)

    def result(self, row: BatchLine) -> bytes:
        return results.result_at(self._descriptor(row.part), row.part_offset, row.part_length)

    def _descriptor(self, part: str) -> int:
        if part not in self._open:
            if len(self._open) >= OPEN_PARTS:
                os.close(self._open.popitem(last=False)[1])
            self._open[part] = os.open(self._directory / part, os.O_RDONLY)
        self._open.move_to_end(part)
        return self._open[part]


class _Output:
    """A file of results that is deleted again unless ``is_owned``. Nothing is made for no line."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._incoming: Incoming | None = None
        self._waiting = bytearray()
        self._file_id = ""
        self.is_owned = False

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self._incoming is not None and not self._file_id:
            self._incoming.close()
        if self._file_id and not self.is_owned:
            self._storage.remove(self._file_id)

    def write(self, line: bytes) -> None:
        self._waiting += line
        self._waiting += b"\n"
        if len(self._waiting) >= WRITE_BYTES:
            self._flush()

    def keep(self) -> tuple[str, int]:
        """Its id, empty for no file, and its size."""
        if self._waiting:
            self._flush()
        if self._incoming is None:
            return "", 0
        file_id = new_id("file-")
        self._storage.keep(self._incoming, file_id)
        self._file_id = file_id
        return file_id, self._incoming.size_bytes

    def _flush(self) -> None:
        self._incoming = self._incoming or self._storage.begin()
        self._incoming.write(bytes(self._waiting))
        self._waiting.clear()
