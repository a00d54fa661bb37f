"""Files on disk: whole or absent, and gone when nobody owns them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.workers.batches import Desk, jsonl, request
from workers.models import StoredFile
from workers.services import files
from workers.storage import ABANDONED_S, Storage

FILE_ID = "file-" + "a" * 24


@pytest.mark.parametrize("name", ["", "../etc/passwd", "file-../../x", "file-abc", FILE_ID + "/x"])
def test_only_an_id_becomes_a_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a file id"):
        Storage(tmp_path).path(name)


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    incoming = storage.begin()
    incoming.write(b"half")
    assert not storage.path(FILE_ID).exists()
    storage.keep(incoming, FILE_ID)
    assert storage.path(FILE_ID).read_bytes() == b"half"


def test_what_is_not_kept_is_deleted(tmp_path: Path) -> None:
    incoming = Storage(tmp_path).begin()
    incoming.write(b"x")
    incoming.close()
    assert not incoming.path.exists()


def test_what_nobody_owns_is_swept_when_it_is_old(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    owned = "file-" + "b" * 24
    for file_id in (FILE_ID, owned):
        storage.keep(storage.begin(), file_id)
    storage.begin()
    assert storage.sweep([owned]) == 0
    assert storage.sweep([owned], time.time() + ABANDONED_S + 60) == 2
    assert [path.name for path in tmp_path.glob("file-*")] == [owned]


def test_an_expired_file_is_deleted_unless_a_batch_reads_it(desk: Desk) -> None:
    """S37."""
    free = desk.file(b"x")
    batch = desk.batch(jsonl([request("a")]))
    StoredFile.objects.update(expires_at=desk.now)
    assert files.delete_expired(storage=desk.storage, now=desk.now) == 1
    assert not desk.storage.path(free.file_id).exists()
    assert desk.storage.path(batch.input_file_id).exists()
