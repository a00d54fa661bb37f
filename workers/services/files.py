"""Writes of files: keep what was received, delete. The bytes are in place before the row says so.

The tenant's row is locked while its room is counted, so that two uploads cannot both take the
last place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from tenants.models import Organization
from tenants.services.transactions import transactional
from workers import selectors
from workers.errors import conflict, no_room
from workers.ids import new_id
from workers.models import Purpose, StoredFile
from workers.settings import WorkersSettings
from workers.storage import Incoming, Storage

EXPIRED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class FileTerms:
    """``lifetime_s`` None: as long as the installation keeps files."""

    tenant: str
    key_id: str
    filename: str
    purpose: Purpose = Purpose.BATCH
    lifetime_s: int | None = None


def check_room(*, tenant: str, size_bytes: int) -> None:
    """Before anything is received. Raises Rejected (429)."""
    own: WorkersSettings = settings.FAIRWAY_WORKERS
    room = selectors.room_of(tenant)
    if room.files >= own.files_per_tenant:
        raise no_room(f"At most {own.files_per_tenant:,} files are kept: delete some.")
    if room.size_bytes + size_bytes > own.bytes_per_tenant:
        raise no_room(f"At most {own.bytes_per_tenant:,} bytes are kept: delete some files.")


def store(*, terms: FileTerms, incoming: Incoming, storage: Storage, now: datetime) -> StoredFile:
    """Raises Rejected when there is no room; nothing is kept then."""
    file_id = new_id("file-")
    storage.keep(incoming, file_id)
    try:
        return _add(terms=terms, file_id=file_id, size_bytes=incoming.size_bytes, now=now)
    except BaseException:
        storage.remove(file_id)
        raise


@transactional
def _add(*, terms: FileTerms, file_id: str, size_bytes: int, now: datetime) -> StoredFile:
    Organization.objects.select_for_update().get(slug=terms.tenant)
    check_room(tenant=terms.tenant, size_bytes=size_bytes)
    return add_row(terms=terms, file_id=file_id, size_bytes=size_bytes, now=now)


def add_row(*, terms: FileTerms, file_id: str, size_bytes: int, now: datetime) -> StoredFile:
    """Inside the caller's transaction; results of a batch are never refused for want of room."""
    days = timedelta(days=settings.FAIRWAY_WORKERS.file_days)
    lifetime = days if terms.lifetime_s is None else timedelta(seconds=terms.lifetime_s)
    return StoredFile.objects.create(
        file_id=file_id,
        tenant=terms.tenant,
        key_id=terms.key_id,
        purpose=terms.purpose,
        filename=terms.filename,
        size_bytes=size_bytes,
        created_at=now,
        expires_at=now + lifetime,
    )


@transactional
def delete(*, tenant: str, file_id: str, storage: Storage) -> None:
    """Raises Rejected: 404, or 409 while a batch reads it."""
    row = selectors.file_of(tenant, file_id)
    if selectors.is_being_read(file_id):
        raise conflict("A batch that is not finished reads this file: cancel it first.")
    row.delete()
    transaction.on_commit(lambda: storage.remove(file_id))


def delete_expired(*, storage: Storage, now: datetime) -> int:
    """Those that no unfinished batch reads."""
    rows = StoredFile.objects.filter(expires_at__lte=now).values_list("file_id", flat=True)
    ids = [file_id for file_id in rows[:EXPIRED_AT_ONCE] if not selectors.is_being_read(file_id)]
    StoredFile.objects.filter(pk__in=ids).delete()
    for file_id in ids:
        storage.remove(file_id)
    return len(ids)
