"""The whole gateway on a pooled PostgreSQL."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import psycopg

from tests.e2e.installation import MODEL, installed
from tests.servers import wait_until


def test_a_call_is_served_and_its_row_is_in_the_ledger(postgres_url: str, tmp_path: Path) -> None:
    with installed(tmp_path, DATABASE_URL=postgres_url) as place:
        place.serve()
        body = {"model": MODEL, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
        request = urllib.request.Request(
            f"{place.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"authorization": f"Bearer {place.api_key}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            call_id = answer.headers["x-fairway-call-id"]
        query = "select count(*) from tenants_ledgercall where call_id = %s"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            wait_until(
                lambda: connection.execute(query, [call_id]).fetchone() == (1,), "the ledger row"
            )
