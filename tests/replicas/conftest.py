from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.replicas.http_upstream import HttpUpstream
from tests.fakes.llamacpp import embedding_server, llama_model, llama_server
from tests.fakes.scripted_replica import ScriptedReplica, running
from tests.fakes.virtual_time import virtual_time

__all__ = ["embedding_server", "llama_model", "llama_server", "virtual_time"]


@pytest.fixture
async def upstream() -> AsyncIterator[HttpUpstream]:
    upstream = HttpUpstream(("127.0.0.0/8",))
    yield upstream
    await upstream.close()


@pytest.fixture
async def replica() -> AsyncIterator[ScriptedReplica]:
    async with running() as replica:
        yield replica
