"""S20: a name that was checked when it was entered may mean another address when it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest

from gateway.core.errors import ReplicaUnreachable, UpstreamError
from gateway.replicas.http_upstream import HttpUpstream
from tests.fakes import scripts
from tests.fakes.scripted_replica import ScriptedReplica
from tests.replicas.calls import read, target

NAME = "replica.example"


class Rebinding:
    """Says whatever ``addresses`` says now."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0

    async def __call__(self, name: str) -> Sequence[str]:
        self.asked += 1
        return self.addresses


def named(replica: ScriptedReplica) -> str:
    return f"http://{NAME}:{urlsplit(replica.url).port}"


async def refusal(upstream: HttpUpstream, url: str) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await read(upstream, target(url))
    await upstream.close()
    return caught.value


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254"])
async def test_name_that_came_to_mean_a_refused_address_is_not_connected_to(
    replica: ScriptedReplica, address: str
) -> None:
    upstream = HttpUpstream((), resolve=Rebinding(address))
    assert isinstance(await refusal(upstream, named(replica)), ReplicaUnreachable)
    assert replica.calls == []


async def test_address_that_is_no_longer_allowed_is_not_connected_to(
    replica: ScriptedReplica,
) -> None:
    assert isinstance(await refusal(HttpUpstream(()), replica.url), ReplicaUnreachable)
    assert replica.calls == []


async def test_of_several_addresses_only_the_allowed_ones_are_tried(
    replica: ScriptedReplica,
) -> None:
    resolve = Rebinding("169.254.169.254", "127.0.0.1")
    upstream = HttpUpstream(("127.0.0.0/8",), resolve=resolve)
    replica.next(scripts.tokens(3))
    async with asyncio.timeout(5):
        assert b"[DONE]" in await read(upstream, target(named(replica)))
    await upstream.close()


async def test_of_several_addresses_the_next_is_tried_where_one_refuses(
    replica: ScriptedReplica,
) -> None:
    upstream = HttpUpstream(("127.0.0.0/8",), resolve=Rebinding("127.0.0.2", "127.0.0.1"))
    assert b"[DONE]" in await read(upstream, target(named(replica)))
    await upstream.close()


async def test_name_is_asked_for_once_in_a_while(replica: ScriptedReplica) -> None:
    """A server that closes after every answer would cost a question per call."""
    replica.close_after_stream = True
    resolve = Rebinding("127.0.0.1")
    upstream = HttpUpstream(("127.0.0.0/8",), resolve=resolve)
    for _ in range(3):
        await read(upstream, target(named(replica), kind="llamacpp"))
    assert (replica.connections, resolve.asked) == (3, 1)
    await upstream.close()
