"""Where do a prompt and a key turn up, after everything that could tell them, with every log at
DEBUG? Prompts in the files that a tenant uploaded, keys nowhere.

Looked for as they are and in base64, in which Celery's messages travel.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from tests.e2e.installation import MODEL
from tests.e2e.operator import Operator, operator_of
from tests.servers import RedisServer, wait_until
from tests.workers.batches import request
from tests.workers.jobs import Jobs, finished, submitted

PROMPT = "canary-of-a-prompt-4711-sea-shell"
TEXT = f"Say {PROMPT} twice."
MESSAGES = [{"role": "user", "content": TEXT}]


def hits(site: Jobs, redis_server: RedisServer) -> set[tuple[str, str]]:
    """Place and beginning of what was found there. ``site`` has a worker and the log level DEBUG.
    Raises AssertionError where something was not looked at."""
    operator = operator_of(site.place)
    new_key = operator.post("/tenants/acme/keys", label="canary", scopes=["inference", "batch"])
    version = operator.version("acme")
    wait_until(lambda: site.place.series("fairway_config_version") >= version, "the new key")
    call_ids = _calls(site, new_key["api_key"])
    batch_ids = [finished(site.client, submitted(site.client, lines).id).id for lines in _batches()]
    places = dict(_places(site, redis_server, operator, call_ids))
    print(f"{len(places)} places, {sum(map(len, places.values())):,} bytes looked through")
    _check_that_all_was_looked_at(places, batch_ids[0], call_ids)
    return {
        (place, word[:12])
        for word in (PROMPT, *_keys(site), new_key["api_key"])
        for place, content in places.items()
        if any(form in content for form in forms(word))
    }


def forms(word: str) -> list[bytes]:
    """As it is, escaped in JSON, and in base64 wherever it begins in its group of three bytes."""
    found = [word.encode(), json.dumps(word)[1:-1].encode()]
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + word.encode())
        found.append(text[4 if offset else 0 : -4])
    return found


def _batches() -> list[list[dict[str, Any]]]:
    """One that runs, one that is refused."""
    wrong = request("wrong", messages=[{"role": "user", "content": [{"type": TEXT}]}])
    return [[request(f"r{n}", messages=MESSAGES) for n in range(3)], [wrong]]


def _calls(site: Jobs, key: str) -> list[str]:
    """Of every kind: answered, streamed, refused, malformed, by a wrong key, without a replica."""
    good = {"model": MODEL, "messages": MESSAGES, "max_tokens": 4}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        (key, "chat/completions", good),
        (key, "chat/completions", {**good, "stream": True}),
        (key, "completions", {"model": MODEL, "prompt": TEXT, "max_tokens": 4}),
        (key, "messages", good),
        (key, "responses", {"model": MODEL, "input": TEXT, "max_output_tokens": 16}),
        (key, "embeddings", {"model": MODEL, "input": TEXT, "encoding_format": TEXT}),
        (key, "chat/completions", {**good, "max_tokens": 10**9}),
        (key, "chat/completions", {**good, "temperature": TEXT}),
        (key, "chat/completions", {**good, TEXT: {TEXT: 1}, "stop": [TEXT] * 99}),
        (key, "chat/completions", {**good, "model": "unknown"}),
        (key[:-1] + "x", "chat/completions", good),
        (key, "nothing", good),
    ]
    answers = [_ask(site, *one) for one in asked]
    assert [status for status, _ in answers[:2]] == [200, 200]
    return [call_id for _, call_id in answers if call_id]


def _ask(site: Jobs, key: str, path: str, body: dict[str, Any]) -> tuple[int, str]:
    """Status and call id."""
    wish = urllib.request.Request(
        f"{site.place.url}/v1/{path}",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {key}", "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(wish, timeout=30) as answer:
            answer.read()
            return answer.status, answer.headers["x-fairway-call-id"] or ""
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers["x-fairway-call-id"] or ""


def _keys(site: Jobs) -> list[str]:
    return [str(one["api_key"]) for one in site.place.facts["tenants"]]


def _places(
    site: Jobs, server: RedisServer, operator: Operator, call_ids: list[str]
) -> Iterator[tuple[str, bytes]]:
    for path in (*_files(site.place.var), *_files(server.directory)):
        yield str(path), path.read_bytes()
    with redis.Redis(port=server.port) as client:
        for key in client.scan_iter(count=1000):
            yield f"Redis {key!r}", key + (client.dump(key) or b"")
    with urllib.request.urlopen(f"{site.place.url}/metrics", timeout=10) as answer:
        yield "metrics", answer.read()
    yield "audit", json.dumps(operator.get("/tenants/acme/audit?limit=100")).encode()
    for call_id in call_ids[:4]:
        operator.record_of(call_id)
        yield f"call {call_id}", json.dumps(operator.get(f"/calls/{call_id}")).encode()


def _files(root: Path) -> Iterator[Path]:
    own = (path for path in root.rglob("*") if path.is_file())
    return (path for path in own if "files" not in path.relative_to(root).parts)


def _check_that_all_was_looked_at(
    places: dict[str, bytes], batch_id: str, call_ids: list[str]
) -> None:
    """The batch is in the messages that passed through Redis, the calls are in the log and the
    database."""
    append_only = [content for name, content in places.items() if ".aof" in name]
    assert any(form in one for one in append_only for form in forms(batch_id))
    for ending in ("serve.log", "worker.log"):
        assert [one for name, one in places.items() if name.endswith(ending) and one]
    log = next(one for name, one in places.items() if name.endswith("serve.log"))
    assert b'"level": "debug"' in log
    assert call_ids[0].encode() in log
    database = [one for name, one in places.items() if "sqlite3" in name]
    assert any(call_ids[0].encode() in one for one in database)
