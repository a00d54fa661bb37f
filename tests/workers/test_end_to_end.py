"""Real processes: gateway, replica, Celery worker and beat, the official client, both brokers."""

from __future__ import annotations

import json
import sqlite3
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import psycopg
import pytest

from tests.e2e.operator import operator_of
from tests.servers import RedisServer, wait_until
from tests.workers import canary
from tests.workers.batches import request
from tests.workers.jobs import Jobs, counted, finished, jobs, kill_group, results, submitted, until

LINES = 200


def requests(count: int, **body: Any) -> list[dict[str, Any]]:
    return [request(f"r{n}", **body) for n in range(1, count + 1)]


ONE, LOUD, ALL = (
    pytest.mark.parametrize("site", sites, indirect=True)
    for sites in (["files"], ["redis"], ["files", "redis", "postgres"])
)


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    """An installation whose messages travel in files, or through Redis, or whose rows are in
    PostgreSQL."""
    settings: dict[str, Any] = {}
    if request.param == "postgres":
        settings["DATABASE_URL"] = own_database(request.getfixturevalue("postgres_url"))
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        server.flush()
        settings |= {"REDIS_URL": server.url, "LOG_LEVEL": "DEBUG"}
    with jobs(tmp_path_factory.mktemp("jobs"), **settings) as running:
        running.start_beat()
        yield running


def own_database(url: str) -> str:
    """A new one on that server."""
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS jobs")
        server.execute("CREATE DATABASE jobs")
    return url.rpartition("/")[0] + "/jobs"


@pytest.fixture
def worker(site: Jobs) -> Iterator[Jobs]:
    process = site.start_worker()
    yield site
    kill_group(process)


def ledger(site: Jobs, batch_id: str) -> Counter[int]:
    """How many completed calls each line has in the ledger."""
    with sqlite3.connect(site.place.var / "fairway.sqlite3") as database:
        rows = database.execute(
            "SELECT line_no FROM tenants_ledgercall WHERE batch_id = ? AND outcome = 'completed'",
            (batch_id,),
        ).fetchall()
    return Counter(row[0] for row in rows)


@ONE
def test_a_batch_completes_with_every_custom_id_once(worker: Jobs) -> None:
    client = worker.client
    batch = finished(client, submitted(client, requests(LINES)).id)
    assert (batch.status, batch.error_file_id) == ("completed", None)
    lines = results(client, batch.output_file_id)
    assert counted(lines) == dict.fromkeys((f"r{n}" for n in range(1, LINES + 1)), 1)
    usage = [line["response"]["body"]["usage"] for line in lines]
    assert batch.usage.output_tokens == sum(one["completion_tokens"] for one in usage) > 0
    assert batch.usage.input_tokens == sum(one["prompt_tokens"] for one in usage) > 0
    wait_until(lambda: len(ledger(worker, batch.id)) == LINES, "the ledger")
    assert set(ledger(worker, batch.id).values()) == {1}


@ONE
def test_vectors_and_responses_come_in_batches_too(worker: Jobs) -> None:
    client, olga = worker.client, operator_of(worker.place)
    url = olga.get("/replicas/sim-1")["base_url"]
    olga.post("/pools", slug="vectors", endpoints=["embeddings"])
    olga.put("/pools/vectors/models", name="vectors", upstream_model="sim")
    olga.post("/replicas", slug="vectors-1", pool="vectors", kind="simulated", base_url=url)
    wait_until(lambda: olga.get("/replicas/vectors-1")["live"] is not None, "the replica")
    wished = {
        "/v1/embeddings": {"model": "vectors", "input": ["The sea", "The wind"]},
        "/v1/responses": {"model": "sim", "input": "The sea", "max_output_tokens": 4},
    }
    asked = [
        submitted(client, [{**one, "url": url, "body": body} for one in requests(3)])
        for url, body in wished.items()
    ]
    vectors, responses = (finished(client, each.id) for each in asked)
    assert [each.status for each in (vectors, responses)] == ["completed"] * 2
    assert (vectors.usage.output_tokens, responses.usage.output_tokens) == (0, 12)
    assert min(vectors.usage.input_tokens, responses.usage.input_tokens) > 0
    told = [line["response"]["body"] for line in results(client, vectors.output_file_id)]
    assert [len(each["data"]) for each in told] == [2] * 3
    told = [line["response"]["body"] for line in results(client, responses.output_file_id)]
    assert [each["object"] for each in told] == ["response"] * 3


@ONE
def test_mistakes_are_told_by_line_and_nothing_runs(worker: Jobs) -> None:
    client = worker.client
    wished = [*requests(2), request("bad", max_tokens=-1), request("r1")]
    batch = finished(client, submitted(client, wished).id)
    assert batch.status == "failed"
    assert [(error.line, error.param) for error in batch.errors.data] == [
        (3, "body.max_tokens"),
        (4, "custom_id"),
    ]
    assert not ledger(worker, batch.id)


@ONE
def test_a_stranger_finds_nothing(worker: Jobs) -> None:
    batch = submitted(worker.client, requests(1))
    stranger = worker.stranger
    for look in (
        lambda: stranger.batches.retrieve(batch.id),
        lambda: stranger.batches.cancel(batch.id),
        lambda: stranger.files.retrieve(batch.input_file_id),
        lambda: stranger.files.content(batch.input_file_id),
        lambda: stranger.files.delete(batch.input_file_id),
    ):
        with pytest.raises(openai.NotFoundError):
            look()
    assert [one.id for one in stranger.files.list().data] == []


@ONE
def test_cancelling_stops_it_and_delivers_what_there_is(worker: Jobs) -> None:
    """Row 72."""
    client = worker.client
    batch = submitted(client, requests(400, max_tokens=40))
    until(client, batch.id, lambda one: one.request_counts.completed >= 10)
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    batch = finished(client, batch.id)
    assert batch.status == "cancelled"
    output = results(client, batch.output_file_id)
    errors = results(client, batch.error_file_id)
    assert 10 <= len(output) < 400
    assert set(counted(output + errors).values()) == {1}
    assert len(output) + len(errors) == 400
    assert {line["error"]["code"] for line in errors} == {"batch_cancelled"}


@ALL
def test_a_batch_survives_its_worker_and_its_messages(
    site: Jobs, request: pytest.FixtureRequest
) -> None:
    """Rows 65, 66, 69, 70: kill -9 of the whole worker in the middle, every message lost; no line
    is lost or told twice."""
    client = site.client
    first = site.start_worker()
    batch = submitted(client, requests(LINES, max_tokens=20))
    until(client, batch.id, lambda one: one.request_counts.completed >= 20)
    kill_group(first)
    _lose_messages(site, request)
    second = site.start_worker()
    batch = finished(client, batch.id)
    kill_group(second)
    assert batch.status == "completed"
    lines = results(client, batch.output_file_id)
    assert counted(lines) == dict.fromkeys((f"r{n}" for n in range(1, LINES + 1)), 1)


def _lose_messages(site: Jobs, request: pytest.FixtureRequest) -> None:
    if "REDIS_URL" in site.place.env:
        request.getfixturevalue("redis_server").flush()
    for message in Path(site.place.var / "broker" / "messages").glob("*.msg"):
        message.unlink(missing_ok=True)


@ONE
def test_a_limit_slows_a_batch_and_fails_no_line(worker: Jobs) -> None:
    """429 is capacity: tried again after the time that the gateway named."""
    client = worker.client
    _limit_batch_calls(worker, 2)
    batch = finished(client, submitted(client, requests(16)).id)
    assert (batch.status, batch.request_counts.completed) == ("completed", 16)
    _limit_batch_calls(worker, 100)


def _limit_batch_calls(site: Jobs, at_once: int) -> None:
    key = site.place.api_key
    body = {"meter": "concurrent", "klass": "batch", "amount": float(at_once)}
    wish = urllib.request.Request(
        f"{site.place.url}/api/v1/tenants/acme/keys/{key.split('-')[1]}/limits",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(wish, timeout=10) as answer:
        assert answer.status == 200
    time.sleep(1)  # the promise: in force within a second


@LOUD
def test_prompts_and_keys_are_nowhere_but_in_the_files_of_batches(
    worker: Jobs, redis_server: RedisServer
) -> None:
    """S26, S02: logs at DEBUG, messages, the append-only file and a dump of Redis, the database,
    the journal, metrics, audit, the explanation of calls."""
    assert canary.hits(worker, redis_server) == set()
