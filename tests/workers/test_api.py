"""The operations as clients meet them: shapes, refusals, and that nobody sees another's things."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from django.core.asgi import get_asgi_application
from django.test import Client

from config.asgi_types import Application
from config.web import Web
from tenants.services import keys, organizations
from tests import factories
from tests.factories import TESTER
from tests.workers.asking import Answered, Asker
from tests.workers.batches import ENDPOINT, Desk, jsonl, request
from workers.asgi import FilesAndBatches, build_application
from workers.settings import WorkersSettings
from workers.threads import with_database

LINES = jsonl([request("r1"), request("r2")])
Ask = Callable[[Asker], Awaitable[Answered]]


@pytest.fixture
def alice(desk: Desk, own: WorkersSettings) -> Asker:
    django = cast(Application, get_asgi_application())
    return Asker(build_application(Web(django)), desk.key.secret)


@pytest.fixture
def charlie(alice: Asker) -> Asker:
    """A stranger, of another tenant."""
    factories.organization("rival")
    return replace(alice, key=factories.key("rival", scopes=("batch",)).secret)


def wish(file_id: str, **changes: Any) -> dict[str, Any]:
    terms = {"input_file_id": file_id, "endpoint": ENDPOINT, "completion_window": "24h"}
    return terms | changes


async def created(asker: Asker) -> tuple[str, str]:
    """A file and a batch."""
    file_id = (await asker.upload(LINES)).json["id"]
    return file_id, (await asker.post("/v1/batches", wish(file_id))).json["id"]


async def test_a_file_comes_back_as_it_went(alice: Asker) -> None:
    shown = await alice.upload(LINES, filename="../../etc/pass\nwd.jsonl")
    file = shown.json
    assert (shown.status, file["object"], file["bytes"]) == (200, "file", len(LINES))
    assert (file["purpose"], file["status"], file["filename"]) == (
        "batch",
        "processed",
        "passwd.jsonl",
    )
    content = await alice.ask("GET", f"/v1/files/{file['id']}/content")
    assert content.body == LINES
    assert content.headers["content-disposition"].startswith("attachment;")
    assert content.headers["content-length"] == str(len(LINES))
    assert content.headers["x-content-type-options"] == "nosniff"


async def test_files_on_disk_are_readable_by_their_owner_only(alice: Asker, desk: Desk) -> None:
    """S37."""
    file_id = (await alice.upload(LINES)).json["id"]
    path = desk.storage.path(file_id)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_deleted_file_is_gone_from_disk_and_list(alice: Asker, desk: Desk) -> None:
    file_id = (await alice.upload(LINES)).json["id"]
    answer = await alice.ask("DELETE", f"/v1/files/{file_id}")
    assert answer.json == {"id": file_id, "object": "file", "deleted": True}
    assert (await alice.ask("GET", f"/v1/files/{file_id}")).status == 404
    assert not desk.storage.path(file_id).exists()


async def test_a_file_that_a_batch_reads_cannot_be_deleted(alice: Asker) -> None:
    file_id, _ = await created(alice)
    assert (await alice.ask("DELETE", f"/v1/files/{file_id}")).status == 409


async def test_lists_are_paged(alice: Asker) -> None:
    ids = [(await alice.upload(LINES)).json["id"] for _ in range(5)]
    seen, after = [], ""
    while True:
        page = (await alice.ask("GET", f"/v1/files?limit=2&order=asc&after={after}")).json
        seen += [file["id"] for file in page["data"]]
        after = page["last_id"]
        if not page["has_more"]:
            break
    assert seen == ids


async def test_a_batch_has_the_shape_that_clients_know(alice: Asker) -> None:
    file_id = (await alice.upload(LINES)).json["id"]
    wished = wish(file_id, metadata={"a": "b"}, some_new_field=1)
    answer = await alice.post("/v1/batches", wished)
    batch = answer.json
    assert (answer.status, batch["object"], batch["status"]) == (200, "batch", "validating")
    assert batch["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert (batch["input_file_id"], batch["metadata"]) == (file_id, {"a": "b"})
    assert batch["expires_at"] - batch["created_at"] == 86_400
    listed = (await alice.ask("GET", "/v1/batches")).json
    assert [one["id"] for one in listed["data"]] == [batch["id"]]


async def test_a_cancelled_batch_says_so(alice: Asker) -> None:
    _, batch_id = await created(alice)
    batch = (await alice.ask("POST", f"/v1/batches/{batch_id}/cancel")).json
    assert batch["status"] == "cancelling"
    assert batch["cancelling_at"] is not None


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"endpoint": "/v1/messages"}, "endpoint"),
        ({"endpoint": "/v1/models"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"k" * 65: "v"}}, None),
        ({"metadata": {str(n): "v" for n in range(17)}}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 5}}, None),
    ],
)
async def test_a_wish_out_of_range_is_told_with_its_field(
    alice: Asker, changes: dict[str, Any], param: str | None
) -> None:
    file_id = (await alice.upload(LINES)).json["id"]
    status, code, told = (await alice.post("/v1/batches", wish(file_id, **changes))).error
    assert (status, code) == (400, "invalid_request")
    assert param is None or told == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"purpose": "fine-tune"}, "purpose"),
        ({"anchor": "created_at", "seconds": "60"}, "expires_after.seconds"),
        ({"anchor": "now", "seconds": "3600"}, "expires_after.anchor"),
    ],
)
async def test_an_upload_out_of_range_is_told_with_its_field(
    alice: Asker, fields: dict[str, str], param: str, desk: Desk
) -> None:
    answer = await alice.upload(LINES, **fields)
    assert answer.error == (400, "invalid_request", param)
    assert _left(desk) == []


async def test_an_own_expiry_is_kept(alice: Asker) -> None:
    file = (await alice.upload(LINES, anchor="created_at", seconds="3600")).json
    assert file["expires_at"] - file["created_at"] == 3600


OPERATIONS: dict[str, Ask] = {
    "show file": lambda who: who.ask("GET", "/v1/files/{file}"),
    "delete file": lambda who: who.ask("DELETE", "/v1/files/{file}"),
    "content": lambda who: who.ask("GET", "/v1/files/{file}/content"),
    "use file": lambda who: who.post("/v1/batches", wish("{file}")),
    "show batch": lambda who: who.ask("GET", "/v1/batches/{batch}"),
    "cancel": lambda who: who.ask("POST", "/v1/batches/{batch}/cancel"),
}
EVERYTHING: dict[str, Ask] = OPERATIONS | {
    "upload": lambda who: who.upload(LINES),
    "list files": lambda who: who.ask("GET", "/v1/files"),
    "list batches": lambda who: who.ask("GET", "/v1/batches"),
}


async def asked(who: Asker, operation: Ask, file_id: str, batch_id: str) -> Answered:
    """The operation, with these ids put in."""

    class Filled(Asker):
        async def ask(self, method: str, path: str, *args: Any, **kwargs: Any) -> Answered:
            path = path.format(file=file_id, batch=batch_id)
            return await super().ask(method, path, *args, **kwargs)

        async def post(self, path: str, body: Any = None) -> Answered:
            if body:
                body = body | {"input_file_id": file_id}
            return await super().post(path, body)

    return await operation(Filled(who.application, who.key, who.fairway))


@pytest.mark.parametrize("name", OPERATIONS)
async def test_what_is_somebody_elses_does_not_exist(
    name: str, alice: Asker, charlie: Asker
) -> None:
    """S09, S37."""
    ids = await created(alice)
    foreign = await asked(charlie, OPERATIONS[name], *ids)
    unknown = await asked(charlie, OPERATIONS[name], "file-" + "0" * 24, "batch_" + "0" * 24)
    assert foreign.status == unknown.status == 404
    known = foreign.json["error"]["message"], unknown.json["error"]["message"]
    assert known[0].rsplit(" ", 1)[0] == known[1].rsplit(" ", 1)[0]


async def test_lists_show_only_ones_own(alice: Asker, charlie: Asker) -> None:
    file_id, batch_id = await created(alice)
    for path, foreign in (("/v1/files", file_id), ("/v1/batches", batch_id)):
        assert (await charlie.ask("GET", path)).json["data"] == []
        assert (await charlie.ask("GET", f"{path}?after={foreign}")).status == 400


@pytest.mark.parametrize("name", EVERYTHING)
async def test_every_operation_wants_a_key_of_scope_batch(
    name: str, alice: Asker, own: WorkersSettings
) -> None:
    """S04."""
    other = await with_database(factories.key, "acme", scopes=("inference", "usage", "manage"))
    for secret, status, code in (
        ("", 401, "invalid_api_key"),
        ("fw-nonsense", 401, "invalid_api_key"),
        (other.secret, 403, "not_permitted"),
    ):
        answer = await asked(replace(alice, key=secret), EVERYTHING[name], "file-x", "batch_x")
        assert answer.error == (status, code, None)


@pytest.mark.parametrize("name", EVERYTHING)
async def test_a_disabled_key_and_a_suspended_tenant_are_refused(
    name: str, alice: Asker, desk: Desk
) -> None:
    await with_database(organizations.suspend, slug="acme", actor=TESTER, why="test")
    answer = await asked(alice, EVERYTHING[name], "file-x", "batch_x")
    assert answer.error == (403, "suspended", None)
    await with_database(keys.disable, slug="acme", key_id=desk.key_id, actor=TESTER)
    answer = await asked(alice, EVERYTHING[name], "file-x", "batch_x")
    assert answer.error == (401, "invalid_api_key", None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/files/a/b/c", 404),
        ("PUT", "/v1/files", 405),
        ("PATCH", "/v1/batches/x", 405),
        ("POST", "/v1/files/x/content", 405),
        ("GET", "/v1/batches/../files", 404),
        ("GET", "/v1/batches?limit=0", 400),
    ],
)
async def test_other_refusals_have_the_same_shape(
    alice: Asker, method: str, path: str, status: int
) -> None:
    assert (await alice.ask(method, path)).error[0] == status


async def test_a_batch_must_be_json(alice: Asker) -> None:
    """S16, M19."""
    answer = await alice.ask("POST", "/v1/batches", [b"{}"], content_type="text/plain")
    assert answer.error[0] in (400, 415)


async def test_files_have_a_bound_in_number_and_bytes(
    alice: Asker, settings: Any, own: WorkersSettings, desk: Desk
) -> None:
    """S37: exact, and nothing of what was refused stays."""
    settings.FAIRWAY_WORKERS = replace(
        own, files_per_tenant=3, bytes_per_tenant=len(LINES) * 2 + 99
    )
    assert [(await alice.upload(LINES)).status for _ in range(2)] == [200, 200]
    bytes_full = await alice.upload(LINES)
    settings.FAIRWAY_WORKERS = replace(own, files_per_tenant=2)
    count_full = await alice.upload(LINES)
    assert [answer.error[:2] for answer in (bytes_full, count_full)] == [(429, "concurrency")] * 2
    assert int(bytes_full.headers["retry-after"]) >= 1
    assert len(_left(desk)) == 2


async def test_batches_have_a_bound_in_number(
    alice: Asker, settings: Any, own: WorkersSettings
) -> None:
    settings.FAIRWAY_WORKERS = replace(own, active_batches=1)
    file_id, _ = await created(alice)
    assert (await alice.post("/v1/batches", wish(file_id))).error[:2] == (429, "concurrency")


async def test_a_sender_that_leaves_leaves_nothing(alice: Asker, desk: Desk) -> None:
    pieces = [b'--XyZ\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc']
    kind = "multipart/form-data; boundary=XyZ"
    answer = await alice.ask("POST", "/v1/files", pieces, leaves=True, content_type=kind)
    assert answer.status == 0
    assert _left(desk) == []


async def test_a_compressed_upload_is_refused(alice: Asker) -> None:
    """S33."""
    kind = "multipart/form-data; boundary=XyZ"
    answer = await alice.ask(
        "POST", "/v1/files", [b"x"], content_type=kind, content_encoding="gzip"
    )
    assert answer.error[:2] == (415, "unsupported_encoding")


def test_the_page_of_the_api_describes_all_of_it(db: None) -> None:
    paths = Client().get("/api/v1/openapi.json").json()["paths"]
    assert set(paths["/v1/files"]) == {"get", "post"}
    assert set(paths["/v1/files/{file_id}"]) == {"get", "delete"}
    assert set(paths["/v1/files/{file_id}/content"]) == {"get"}
    assert set(paths["/v1/batches"]) == {"get", "post"}
    assert set(paths["/v1/batches/{batch_id}"]) == {"get"}
    assert set(paths["/v1/batches/{batch_id}/cancel"]) == {"post"}
    assert "/v1/chat/completions" in paths


def test_the_application_is_what_the_composition_mounts() -> None:
    from config import asgi

    assert isinstance(asgi.application._workers, FilesAndBatches)


def _left(desk: Desk) -> list[str]:
    root = desk.storage.path("file-" + "0" * 24).parent
    return [path.name for path in root.rglob("*") if path.is_file()]
