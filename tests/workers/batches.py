"""Batches that tests arrange through the product's own services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from tenants.services.keys import IssuedKey
from workers.models import Batch, StoredFile
from workers.runner import Place
from workers.services import batches, checking, closing, files, lines
from workers.services.batches import BatchTerms
from workers.services.files import FileTerms
from workers.services.lines import Lease, LeasedLine
from workers.storage import Storage

MODEL = "sim"
ENDPOINT = "/v1/chat/completions"


def request(custom_id: str, **body: Any) -> dict[str, Any]:
    chat = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
    return {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": chat | body}


def jsonl(requests: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in requests)


@dataclass
class Desk:
    storage: Storage
    key: IssuedKey
    sent: list[tuple[str, str]]
    now: datetime = field(default_factory=timezone.now)

    @property
    def key_id(self) -> str:
        return self.key.key.key_id

    def later(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    def file(self, content: bytes, tenant: str = "acme") -> StoredFile:
        incoming = self.storage.begin()
        incoming.write(content)
        terms = FileTerms(tenant, self.key_id, "lines.jsonl")
        return files.store(terms=terms, incoming=incoming, storage=self.storage, now=self.now)

    def batch(self, content: bytes, endpoint: str = ENDPOINT, **terms: Any) -> Batch:
        """Created, not yet validated."""
        file = self.file(content)
        wish = BatchTerms("acme", self.key_id, file.file_id, endpoint, "24h", **terms)
        return batches.create(terms=wish, now=self.now)

    def checked(self, content: bytes, endpoint: str = ENDPOINT) -> Batch:
        batch = self.batch(content, endpoint)
        checking.check(batch=batch, storage=self.storage, now=self.now)
        batch.refresh_from_db()
        return batch

    def running(self, count: int) -> Batch:
        """A batch of ``count`` lines r1, r2, … that may run."""
        return self.checked(jsonl([request(f"r{n}") for n in range(1, count + 1)]))

    def place(self, batch: Batch) -> Place:
        return Place(self.storage.path(batch.input_file_id), self.storage.results(batch.batch_id))

    def closed(self, batch: Batch, after_s: float = 0.0) -> Batch:
        batches.begin_closing(batch_id=batch.batch_id, now=self.later(after_s))
        batch.refresh_from_db()
        closing.close(batch=batch, storage=self.storage, now=self.later(after_s))
        batch.refresh_from_db()
        return batch

    def results(self, file_id: str) -> list[dict[str, Any]]:
        if not file_id:
            return []
        return [json.loads(line) for line in self.storage.path(file_id).read_bytes().splitlines()]

    def lease(
        self, batch: Batch, token: str, most: int = 100, after_s: float = 0.0
    ) -> list[LeasedLine]:
        return lines.lease(
            of=Lease(batch.batch_id, token), most=most, may_be_alone=True, now=self.later(after_s)
        )
