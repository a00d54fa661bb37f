"""Which part of files and batches answers a request? Bytes are streamed here, the rest is Django's.

Upload and download never pass Django's handler: neither fits into its body limit or its threads.
Everything else goes to ``web``; where that answers with something other than JSON (no such path,
wrong method, too large), it is told again in the API's own shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any
from uuid import uuid4

import structlog
from django.conf import settings

from gateway.auth import Principal
from gateway.core.errors import CallError, Rejected
from gateway.core.reasons import Reason
from gateway.wire.headers import request_id
from workers import selectors
from workers.access import principal_of
from workers.downloads import send_file
from workers.http import (
    Application,
    ClientGone,
    Receive,
    Scope,
    Send,
    answer_json,
    headers_of,
    peer_of,
    refuse,
)
from workers.schemas import file_shown
from workers.settings import WorkersSettings
from workers.storage import Storage
from workers.threads import with_database
from workers.uploads import Upload, Uploads

log = structlog.get_logger(__name__)

FILES = "/v1/files"
MOST_OF_PATH = 200  # in the log
CONTENT = re.compile(r"/v1/files/([^/\0]{1,64})/content")
REASONS_OF_WEB: Mapping[int, Reason] = {
    400: Reason.INVALID_REQUEST,
    404: Reason.ENDPOINT_NOT_SERVED,
    405: Reason.METHOD_NOT_ALLOWED,
    408: Reason.BODY_TIMEOUT,
    413: Reason.BODY_TOO_LARGE,
}


def build_application(web: Application) -> Application:
    own: WorkersSettings = settings.FAIRWAY_WORKERS
    return FilesAndBatches(web, Storage(own.files_dir), own.file_bytes)


class FilesAndBatches:
    def __init__(self, web: Application, storage: Storage, most_bytes: int) -> None:
        self._web = web
        self._storage = storage
        self._uploads = Uploads(storage, most_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = _Named(scope, send)
        try:
            await self._answer(scope, receive, named)
        except CallError as error:
            await refuse(named, error)
        except ClientGone:
            return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = CONTENT.fullmatch(scope["path"])
        if scope["path"] == FILES and scope["method"] == "POST":
            upload = Upload(scope, receive, await _principal(scope))
            row = await self._uploads.receive(upload)
            await answer_json(send, file_shown(row).model_dump())
        elif content:
            if scope["method"] != "GET":
                raise Rejected(Reason.METHOD_NOT_ALLOWED, "Use GET.")
            tenant = (await _principal(scope)).tenant.slug
            row = await with_database(selectors.file_of, tenant, content[1])
            await send_file(row, self._storage, receive, send)
        else:
            await self._web(scope, receive, _Retold(send))


async def _principal(scope: Scope) -> Principal:
    fairway, headers, peer = scope.get("fairway"), headers_of(scope), peer_of(scope)
    if fairway is not None:
        return principal_of(headers, peer, fairway)
    return await with_database(principal_of, headers, peer, None)


class _Named:
    """``send`` that tells the id of the request, as the answers to calls do. A refusal is logged
    with it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._id = request_id(headers_of(scope), str(uuid4()))

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"x-request-id", self._id.encode())]
            message = {**message, "headers": headers}
            if message["status"] >= 400:
                method, path = self._scope["method"], self._scope["path"][:MOST_OF_PATH]
                asked = f"{method} {path}"
                log.info("refused", request_id=self._id, asked=asked, status=message["status"])
        await self._send(message)


class _Retold:
    """``send`` that replaces a refusal that is not JSON."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._replaced = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and _is_page(message):
            self._replaced = True
            reason = REASONS_OF_WEB.get(message["status"], Reason.INTERNAL)
            await refuse(self._send, Rejected(reason))
        elif not self._replaced:
            await self._send(message)


def _is_page(start: MutableMapping[str, Any]) -> bool:
    headers = {name.lower(): value for name, value in start.get("headers", ())}
    kind = headers.get(b"content-type", b"")
    return start["status"] >= 400 and not kind.startswith(b"application/json")
