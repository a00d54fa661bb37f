from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.http import HttpResponse
from django.test import AsyncClient, Client

from gateway.active_calls import ActiveCalls, Phase
from gateway.core.dispatch.effects import PoolView
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from gateway.models import Replica
from gateway.sealing import unseal
from gateway.services import pools, replicas
from gateway.services.terms import PoolTerms, ReplicaTerms
from gateway.summary import ReplicaLive, SummaryBuilder
from tenants.services.ledger import insert_calls
from tests import factories
from tests.gateway.control_urls import api
from tests.gateway.factories import attempt, call_record, opening
from tests.people import BACKEND

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.gateway.control_urls")]
URL = "http://10.0.0.1:8000"
Send = Callable[..., Any]

OPERATIONS: dict[str, dict[str, Any]] = {
    "GET /pools": {},
    "POST /pools": {"slug": "p2"},
    "GET /pools/p1": {},
    "PATCH /pools/p1": {"routing": "round_robin"},
    "DELETE /pools/empty": {},
    "PUT /pools/p1/models": {"name": "m2"},
    "DELETE /models?name=m1": {},
    "GET /parameters": {},
    "PUT /parameters/wait_limit_batch_s": {"value": 9.5},
    "DELETE /parameters/queue_calls_per_tenant": {},
    "GET /replicas": {},
    "POST /replicas": {"slug": "r2", "pool": "p1", "kind": "vllm", "base_url": URL},
    "GET /replicas/r1": {},
    "PATCH /replicas/r1": {"slots": 5},
    "POST /replicas/r1/drain": {},
    "POST /replicas/r1/disable": {},
    "POST /replicas/r1/enable": {},
    "DELETE /replicas/r1": {},
}


@pytest.fixture
def cast() -> factories.Cast:
    return factories.cast()


@pytest.fixture
def send(cast: factories.Cast) -> Send:
    def request(who: str, line: str, **body: Any) -> HttpResponse:
        method, path = line.split(" ")
        client = Client()
        if who:
            client.force_login(getattr(cast, who), BACKEND)
        if method in ("GET", "DELETE"):
            return client.generic(method, f"/api{path}")  # type: ignore[return-value]
        text = factories.json_of(body)
        return client.generic(method, f"/api{path}", text, "application/json")  # type: ignore[return-value]

    return request


@pytest.fixture
def served(send: Send) -> None:
    for line, body in (
        ("POST /pools", {"slug": "p1", "input_per_mtok": 7}),
        ("POST /pools", {"slug": "empty"}),
        ("PUT /pools/p1/models", {"name": "m1", "upstream_model": "up/m1"}),
        ("POST /replicas", {"slug": "r1", "pool": "p1", "kind": "vllm", "base_url": URL}),
        ("PUT /parameters/queue_calls_per_tenant", {"value": 3}),
    ):
        answer = send("olga", line, **body)
        assert answer.status_code < 300, answer.content


def test_the_table_of_operations_is_complete() -> None:
    described = {
        (method.upper(), path.removeprefix("/api"))
        for path, methods in api.get_openapi_schema(path_prefix="/api")["paths"].items()
        for method in methods
    }
    known = set()
    for line in OPERATIONS:
        method, path = line.split("?")[0].split(" ")
        first, *rest = path.removeprefix("/").split("/")
        names = {"parameters": "{name}"}.get(first, "{slug}")
        rest = [names, *rest[1:]] if rest else []
        known.add((method, "/" + "/".join([first, *rest])))
    assert described - {("GET", "/calls/{call_id}")} == known


@pytest.mark.parametrize(
    ("who", "status"), [("", 401), ("charlie", 403), ("alice", 403), ("bob", 403)]
)
def test_nobody_but_an_operator_may_use_it(served: None, send: Send, who: str, status: int) -> None:
    answers = {line: send(who, line, **body).status_code for line, body in OPERATIONS.items()}
    assert answers == dict.fromkeys(OPERATIONS, status)


def test_an_operator_may_use_every_operation(served: None, send: Send) -> None:
    for line, body in OPERATIONS.items():
        answer = send("olga", line, **body)
        assert answer.status_code in (200, 201), (line, answer.content)


def test_a_management_key_is_no_operator(served: None, cast: factories.Cast) -> None:
    secret = factories.key("acme", scopes=("manage",)).secret
    answer = Client().get("/api/pools", headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == 403


def test_unknown_fields_and_wrong_types_are_refused(served: None, send: Send) -> None:
    for body in ({"slot": 5}, {"slots": "5"}, {"slots": True}, {"slots": 0}, {"state": "enabled"}):
        assert send("olga", "PATCH /replicas/r1", **body).status_code == 422
    assert Replica.objects.get().slots == 32


def test_a_replicas_api_key_goes_in_and_never_comes_out(served: None, send: Send) -> None:
    answers = [
        send("olga", "PATCH /replicas/r1", api_key="s3cret"),
        send("olga", "GET /replicas/r1"),
        send("olga", "GET /replicas"),
    ]
    assert unseal(Replica.objects.get().sealed_api_key) == "s3cret"
    answers.append(send("olga", "PATCH /replicas/r1", api_key="s3cret" * 500))
    assert answers[3].status_code == 422
    assert not any(b"s3cret" in answer.content for answer in answers)
    assert answers[1].json()["api_key"] == "set"


def test_an_objective_is_taken_away_with_null(served: None, send: Send) -> None:
    send("olga", "PATCH /pools/p1", ttft_objective_s=2.5)
    assert send("olga", "GET /pools/p1").json()["ttft_objective_s"] == 2.5
    send("olga", "PATCH /pools/p1", ttft_objective_s=None)
    shown = send("olga", "GET /pools/p1").json()
    assert (shown["ttft_objective_s"], shown["input_per_mtok"]) == (None, 7)


def test_a_call_that_ended_is_explained_to_its_tenant_and_hidden_from_others(send: Send) -> None:
    """charlie."""
    insert_calls(
        [
            call_record(
                "ended",
                outcome=Outcome.REJECTED,
                reason=Reason.TOKENS_PER_MINUTE,
                status=429,
                message="The limit is 100 tokens per minute: 90 used, 20 needed.",
                retry_after_s=6.0,
                attempts=(),
            )
        ]
    )
    for who in ("alice", "bob", "olga"):
        told = send(who, "GET /calls/ended").json()
        assert told["status"] == "rejected"
        assert "90 used, 20 needed" in told["explanation"]
        assert "come back after 6.0 s" in told["explanation"]
    foreign, absent = send("charlie", "GET /calls/ended"), send("charlie", "GET /calls/absent")
    assert (foreign.status_code, absent.status_code) == (404, 404)
    assert foreign.json()["detail"].replace("ended", "absent") == absent.json()["detail"]


def test_a_completed_call_tells_its_times_and_attempts(send: Send) -> None:
    attempts = (attempt(number=1, reason=Reason.UPSTREAM_ERROR), attempt(number=2, replica="r2"))
    insert_calls([call_record("done", attempts=attempts)])
    told = send("alice", "GET /calls/done").json()
    assert [one["replica"] for one in told["attempts"]] == ["r1", "r2"]
    assert "first token after 200 ms" in told["explanation"]
    assert "40 of 100 prompt tokens came from a cache" in told["explanation"]
    assert told["explanation"].endswith("It took 2 attempts.")


def test_operators_alone_read_what_a_replica_said_of_its_error(send: Send) -> None:
    """S42: the tenant got the words of the gateway."""
    insert_calls([call_record("said", attempts=(attempt(said="CUDA out of memory"),))])
    told = {who: send(who, "GET /calls/said").json()["attempts"] for who in ("olga", "alice")}
    assert [told[who][0]["said"] for who in ("olga", "alice")] == ["CUDA out of memory", ""]


@dataclass
class Gateway:
    """What the API sees of a running one."""

    active: ActiveCalls
    summary: SummaryBuilder


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(ActiveCalls(tmp_path / "active", 16), SummaryBuilder(random.Random(1)))
    call = gateway.active.open(opening("running"))
    call.dispatched("r1")
    call.enter(Phase.RELAYING)
    call.tokens(1_234)
    view = PoolView(
        queued={("acme", PriorityClass.BATCH): 2},
        in_flight={},
        replica_in_flight={"r1": 3},
        replica_slots={"r1": 32},
        oldest_arrival_s=None,
        service={},
    )
    gateway.summary.tick(0.0, 0.0, {"p1": view}, [ReplicaLive("p1", "r1", "serving")], {})
    yield gateway
    gateway.active.shut()


async def ask(gateway: Gateway, who: Any, path: str) -> Any:
    client = AsyncClient()
    await client.aforce_login(who, BACKEND)
    scope = {"method": "GET", "path": f"/api{path}", "query_string": "", "fairway": gateway}
    answer = await client.request(**scope, headers=[(b"host", b"testserver")])
    await sync_to_async(connections.close_all)()  # those of the thread in which views run
    return answer


@pytest.mark.django_db(transaction=True)
async def test_a_running_call_tells_its_live_status(running: Gateway) -> None:
    cast = await sync_to_async(factories.cast)()
    told = (await ask(running, cast.alice, "/calls/running")).json()
    assert (told["status"], told["live"]["received_tokens"]) == ("running", 1_234)
    assert "streaming on r1: 1,234 tokens so far" in told["explanation"]
    assert (await ask(running, cast.charlie, "/calls/running")).status_code == 404


@pytest.mark.django_db(transaction=True)
async def test_pools_and_replicas_show_the_last_second(running: Gateway) -> None:
    def arrange() -> Any:
        cast = factories.cast()
        pools.create(slug="p1", terms=PoolTerms(), actor=factories.TESTER)
        terms = ReplicaTerms(kind="vllm", base_url=URL)
        replicas.create(slug="r1", pool="p1", terms=terms, actor=factories.TESTER)
        return cast.olga

    olga = await sync_to_async(arrange)()
    pool = (await ask(running, olga, "/pools/p1")).json()["live"]
    assert (pool["queued"], pool["in_flight"], pool["slots"]) == ({"batch": 2}, 3, 32)
    replica = (await ask(running, olga, "/replicas/r1")).json()["live"]
    assert (replica["state"], replica["in_flight"], replica["running"]) == ("serving", 3, None)


def test_where_no_gateway_runs_live_is_absent(served: None, send: Send) -> None:
    assert send("olga", "GET /pools/p1").json()["live"] is None
    assert send("olga", "GET /replicas/r1").json()["live"] is None
