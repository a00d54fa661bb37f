"""How does a file go out? In pieces, as fast as the reader takes them, as an attachment.

The first piece is read when the next one is sent; a reader that leaves ends the reading.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from workers.errors import no_such
from workers.http import Receive, Send, begin
from workers.models import StoredFile
from workers.storage import Storage

PIECE_BYTES = 256 * 1024


async def send_file(row: StoredFile, storage: Storage, receive: Receive, send: Send) -> None:
    """Raises Rejected (404) when the bytes are gone."""
    try:
        file = await asyncio.to_thread(storage.path(row.file_id).open, "rb")
    except (FileNotFoundError, ValueError):
        raise no_such("File", row.file_id) from None
    gone = asyncio.create_task(_until_gone(receive), name="watch for disconnect")
    try:
        await begin(send, 200, _headers(row))
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            if gone.done():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        file.close()


def _headers(row: StoredFile) -> dict[str, str]:
    return {
        "content-type": "application/octet-stream",
        "content-length": str(row.size_bytes),
        "content-disposition": f"attachment; filename*=UTF-8''{quote(row.filename, safe='')}",
        "content-security-policy": "sandbox",
    }


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
