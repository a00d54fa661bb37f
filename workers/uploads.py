"""How does a file of 200 MB come in with little memory? Piece by piece, to disk.

The form is parsed as it arrives; of the file at most WRITE_BYTES are held. A sender may be silent
for SILENCE_S; a tenant may send AT_ONCE files at the same time. What does not become a file is
deleted at once.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.utils import timezone

from gateway.auth import Principal
from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from workers.errors import no_room, wrong
from workers.http import ClientGone, Receive, Scope, headers_of
from workers.models import FILENAME_CHARACTERS, Purpose, StoredFile
from workers.multipart import UploadForm, too_large
from workers.schemas import LONGEST_LIFE_S, SHORTEST_LIFE_S
from workers.services import files
from workers.services.files import FileTerms
from workers.storage import Incoming, Storage
from workers.threads import with_database

WRITE_BYTES = 1024 * 1024
FORM_BYTES = 64 * 1024  # what a form may have around its file
SILENCE_S = 30.0
AT_ONCE = 4
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class Upload:
    """One request, already authenticated."""

    scope: Scope
    receive: Receive
    principal: Principal


class Uploads:
    def __init__(self, storage: Storage, most_bytes: int) -> None:
        self._storage = storage
        self._most_bytes = most_bytes
        self._sending: Counter[str] = Counter()

    async def receive(self, upload: Upload) -> StoredFile:
        """Raises Rejected, or ClientGone."""
        headers = headers_of(upload.scope)
        announced = _announced_bytes(headers)
        if announced > self._most_bytes + FORM_BYTES:
            raise too_large(self._most_bytes)
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Rejected(Reason.UNSUPPORTED_ENCODING, "Content-Encoding is not accepted.")
        form = UploadForm(headers.get("content-type", ""), self._most_bytes)
        tenant = upload.principal.tenant.slug
        with self._place(tenant):
            await with_database(files.check_room, tenant=tenant, size_bytes=announced)
            incoming = await asyncio.to_thread(self._storage.begin)
            try:
                await _read(upload.receive, form, incoming, self._most_bytes + FORM_BYTES)
                terms = _terms(form, upload.principal)
                return await with_database(
                    files.store,
                    terms=terms,
                    incoming=incoming,
                    storage=self._storage,
                    now=timezone.now(),
                )
            finally:
                incoming.close()

    @contextmanager
    def _place(self, tenant: str) -> Iterator[None]:
        if self._sending[tenant] >= AT_ONCE:
            raise no_room(f"At most {AT_ONCE} files may be uploaded at the same time.")
        self._sending[tenant] += 1
        try:
            yield
        finally:
            self._sending[tenant] -= 1
            if not self._sending[tenant]:
                del self._sending[tenant]


async def _read(receive: Receive, form: UploadForm, incoming: Incoming, most_bytes: int) -> None:
    size = 0
    more = True
    while more:
        chunk, more = await _next(receive)
        size += len(chunk)
        if size > most_bytes:
            raise too_large(most_bytes - FORM_BYTES)
        form.feed(chunk)
        if form.waiting_bytes >= WRITE_BYTES or not more:
            await asyncio.to_thread(incoming.write, form.take())
    form.finish()


async def _next(receive: Receive) -> tuple[bytes, bool]:
    try:
        async with asyncio.timeout(SILENCE_S):
            message = await receive()
    except TimeoutError:
        raise Rejected(Reason.BODY_TIMEOUT) from None
    if message["type"] != "http.request":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _terms(form: UploadForm, principal: Principal) -> FileTerms:
    if form.fields.get("purpose") != Purpose.BATCH:
        raise wrong("purpose must be batch.", "purpose")
    if not form.file_bytes:
        raise wrong("The file is empty.", "file")
    return FileTerms(
        tenant=principal.tenant.slug,
        key_id=principal.key.key_id,
        filename=_safe_name(form.filename or ""),
        lifetime_s=_lifetime_s(form.fields),
    )


def _lifetime_s(fields: dict[str, str]) -> int | None:
    seconds = fields.get("expires_after[seconds]")
    if seconds is None:
        return None
    if fields.get("expires_after[anchor]") != "created_at":
        raise wrong("expires_after.anchor must be created_at.", "expires_after.anchor")
    plain = seconds.isascii() and seconds.isdigit() and len(seconds) < 9
    if not plain or not SHORTEST_LIFE_S <= int(seconds) <= LONGEST_LIFE_S:
        text = f"expires_after.seconds must be {SHORTEST_LIFE_S} to {LONGEST_LIFE_S}."
        raise wrong(text, "expires_after.seconds")
    return int(seconds)


def _safe_name(filename: str) -> str:
    """The last part of the path, without what could mislead a reader."""
    last = re.split(r"[/\\]", filename)[-1]
    return _UNPRINTABLE.sub("", last)[:FILENAME_CHARACTERS].strip() or "batch.jsonl"


def _announced_bytes(headers: dict[str, str]) -> int:
    text = headers.get("content-length", "")
    return int(text[:20]) if text.isascii() and text.isdigit() else 0
