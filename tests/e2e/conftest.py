"""Installations that tests share. ``durable``: one on PostgreSQL. ``estate``: pool ``sim`` of
three simulated replicas in a process each, pool ``scripted`` whose replicas each test adds, pool
``tiny`` of a real llama.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import Installation, Simulated, installed, pool, prepared, simulated
from tests.e2e.operator import Operator, unlimited
from tests.fakes.llamacpp import LlamaServer, embedding_server, llama_model, llama_server
from tests.servers import PostgresServer, wait_until

__all__ = ["embedding_server", "llama_model", "llama_server"]

SLOTS = 8
STALL_S = 3  # a caller who reads nothing is borne on the estate


@pytest.fixture(scope="session")
def estate_var(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("estate")


@pytest.fixture(scope="session")
def sims(estate_var: Path) -> Iterator[list[Simulated]]:
    """Replicas ``sim-1`` to ``sim-3`` of the estate, which waits until they answer. Tests that kill
    one start it again."""
    with simulated(estate_var, count=3, sequences=SLOTS) as replicas:
        yield replicas


@pytest.fixture(scope="session")
def estate(estate_var: Path, sims: list[Simulated]) -> Iterator[Installation]:
    pools = [pool("sim", sims, SLOTS), pool("scripted", [], SLOTS), pool("tiny", [], 4)]
    stall = {"FAIRWAY_TCP_USER_TIMEOUT_S": str(STALL_S)}
    with prepared(estate_var, pools, **stall) as place:
        for replica in sims:
            replica.wait()
        place.serve()
        yield place


@pytest.fixture(scope="session")
def operator(estate: Installation) -> Operator:
    """Three tenants get limits that no test reaches."""
    return unlimited(estate, "acme", "heavy-labs", "bursty-bikes")


@pytest.fixture(scope="session")
def durable(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> Iterator[Installation]:
    """On PostgreSQL, with two connections to it. Tests that stop or lock it undo that."""
    url = postgres_server.database("durable")
    settings = {"DATABASE_URL": url, "FAIRWAY_DATABASE_POOL": "2"}
    with installed(tmp_path_factory.mktemp("durable"), sequences=32, **settings) as place:
        place.serve()
        yield place


@pytest.fixture(scope="session")
def durable_operator(durable: Installation) -> Operator:
    """One tenant has limits that no test reaches."""
    return unlimited(durable, "acme")


@pytest.fixture(scope="session")
def tiny(operator: Operator, llama_server: LlamaServer) -> LlamaServer:
    """The llama.cpp behind the model ``tiny``, serving."""
    operator.post(
        "/replicas", slug="tiny-1", pool="tiny", kind="llamacpp", base_url=llama_server.url, slots=4
    )
    wait_until(lambda: operator.get("/replicas/tiny-1")["live"] is not None, "the replica tiny-1")
    return llama_server


@pytest.fixture(scope="session")
def sim_vectors(operator: Operator, sims: list[Simulated]) -> str:
    """A pool that serves ``embeddings`` alone, and its model."""
    return _of_vectors(operator, "sim-vectors", "sim", "simulated", sims[0].url)


@pytest.fixture(scope="session")
def tiny_vectors(operator: Operator, embedding_server: LlamaServer) -> str:
    return _of_vectors(operator, "tiny-vectors", "tiny", "llamacpp", embedding_server.url)


@pytest.fixture(params=["sim_vectors", "tiny_vectors"])
def vectors(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def _of_vectors(operator: Operator, pool: str, upstream_model: str, kind: str, url: str) -> str:
    operator.post("/pools", slug=pool, endpoints=["embeddings"], input_per_mtok=1_000_000)
    operator.put(f"/pools/{pool}/models", name=pool, upstream_model=upstream_model)
    operator.post("/replicas", slug=f"{pool}-1", pool=pool, kind=kind, base_url=url, slots=2)
    wait_until(lambda: operator.get(f"/replicas/{pool}-1")["live"] is not None, "the replica")
    return pool
