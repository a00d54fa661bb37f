from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from gateway.core.errors import ConnectionLost, UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.upstream import AttemptTimeouts
from tests.fakes import scripts
from tests.fakes.fault_proxy import FaultProxy, proxying
from tests.fakes.scripted_replica import ScriptedReplica
from tests.replicas.calls import CHAT, SHORT, chunks, read, target, text_of


@pytest.fixture
async def proxy(replica: ScriptedReplica) -> AsyncIterator[FaultProxy]:
    async with proxying(replica.url) as proxy:
        yield proxy


async def failure(
    upstream: HttpUpstream, proxy: FaultProxy, timeouts: AttemptTimeouts = SHORT
) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await read(upstream, target(proxy.url), timeouts=timeouts)
    return caught.value


async def test_without_faults_bytes_pass(upstream: HttpUpstream, proxy: FaultProxy) -> None:
    assert text_of(await read(upstream, target(proxy.url))) == "t0 t1 t2 "


async def test_slices_of_one_byte_change_nothing(upstream: HttpUpstream, proxy: FaultProxy) -> None:
    proxy.set(slice_bytes=1)
    assert text_of(await read(upstream, target(proxy.url))) == "t0 t1 t2 "


async def test_latency_delays_the_answer(upstream: HttpUpstream, proxy: FaultProxy) -> None:
    proxy.set(latency_s=0.05)
    started_s = time.perf_counter()
    await read(upstream, target(proxy.url))
    assert time.perf_counter() - started_s >= 0.05


async def test_narrow_band_delays_the_answer(upstream: HttpUpstream, proxy: FaultProxy) -> None:
    proxy.set(bandwidth_bps=10_000)
    started_s = time.perf_counter()
    raw = await read(upstream, target(proxy.url))
    assert time.perf_counter() - started_s >= len(raw) / 10_000


async def test_down_cuts_streams_and_refuses_calls(
    upstream: HttpUpstream, proxy: FaultProxy, replica: ScriptedReplica
) -> None:
    """Row 39"""
    replica.next(scripts.hang_after(1))
    async with upstream.stream(target(proxy.url), CHAT, b"{}", {}, SHORT) as stream:
        reads = aiter(chunks(stream))
        await anext(reads)
        proxy.set(down=True)
        with pytest.raises(ConnectionLost):
            async for _ in reads:
                pass
    assert isinstance(await failure(upstream, proxy), ConnectionLost)


async def test_reset_is_a_lost_connection(upstream: HttpUpstream, proxy: FaultProxy) -> None:
    proxy.set(reset_peer=True)
    error = await failure(upstream, proxy)
    assert isinstance(error, ConnectionLost)


async def test_swallowed_answer_times_out(upstream: HttpUpstream, proxy: FaultProxy) -> None:
    """Row 40"""
    proxy.set(timeout=True)
    error = await failure(upstream, proxy, AttemptTimeouts(1.0, 0.1, 1.0))
    assert error.reason is Reason.UPSTREAM_TIMEOUT


async def test_limited_answer_is_incomplete_at_every_length(
    upstream: HttpUpstream, proxy: FaultProxy, replica: ScriptedReplica
) -> None:
    """Row 43: wherever the cut is, it is never taken for an end."""
    whole = len(await read(upstream, target(proxy.url)))
    for limit in range(1, whole, 41):
        proxy.set(limit_bytes=limit)
        assert isinstance(await failure(upstream, proxy), ConnectionLost)


async def test_slow_close_of_an_unframed_body_delays_only_the_end(
    upstream: HttpUpstream, proxy: FaultProxy, replica: ScriptedReplica
) -> None:
    replica.next(scripts.ends_without_done())
    proxy.set(slow_close_s=0.1)
    started_s = asyncio.get_running_loop().time()
    assert text_of(await read(upstream, target(proxy.url))) == "t0 t1 "
    assert asyncio.get_running_loop().time() - started_s >= 0.1
