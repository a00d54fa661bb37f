from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import warnings
from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from typing import Any, cast

import pytest
import uvloop

from gateway.core.errors import ConnectionLost, ReplicaUnreachable, UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.http1.connection import Connection
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.upstream import AttemptTimeouts
from tests.fakes import scripts
from tests.fakes.scripted_replica import ScriptedReplica, running
from tests.replicas.calls import CHAT, SHORT, chat_body, chunks, failure, read, target, text_of
from tests.replicas.raw_server import CHUNKED


class Steps:
    """An awaitable that counts how often its task went on."""

    def __init__(self, waited: Coroutine[Any, Any, bool]) -> None:
        self._waited = waited
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, bool]:
        inner = self._waited.__await__()
        while True:
            self.steps += 1
            try:
                waits_for = next(inner)
            except StopIteration as end:
                return bool(end.value)
            yield waits_for


class Taken(list[bytes]):
    def take(self, read: bytes) -> bool:
        self.append(read)
        return True


class FakeTransport:
    def __init__(self, own: socket.socket) -> None:
        self._own = own

    def write(self, data: bytes) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> socket.socket:
        return self._own


async def test_bytes_arrive_as_they_were_sent(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    script = scripts.tokens(5)
    sent = b"".join(step.data for step in script.steps if isinstance(step, scripts.Send))
    for size in (1, 7, 10_000):
        replica.next(scripts.slow_slices(script, size))
        assert await read(upstream, target(replica.url)) == sent


async def test_request_carries_body_credentials_and_no_ambient_headers(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    to = target(replica.url)
    await read(upstream, to, chat_body("hi"), headers={"X-Request-Id": "abc"})
    call = replica.calls[0]
    assert call.path == CHAT
    assert call.body == chat_body("hi")
    assert set(call.headers) == {
        "host",
        "x-request-id",
        "accept",
        "accept-encoding",
        "content-type",
        "content-length",
    }
    assert call.headers["accept-encoding"] == "identity"


async def test_long_body_arrives_whole(upstream: HttpUpstream, replica: ScriptedReplica) -> None:
    body = bytes(range(256)) * 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await read(upstream, target(replica.url), body)
    assert replica.calls[0].body == body


async def test_thousands_of_interim_answers_are_skipped(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """Row 44"""
    replica.next(replace(scripts.tokens(3), interim=5_000))
    assert text_of(await read(upstream, target(replica.url))) == "t0 t1 t2 "


async def test_api_key_of_the_replica_is_sent_and_never_shown(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    to = target(replica.url)
    keyed = type(to)(to.slug, to.pool, to.kind, to.base_url, to.upstream_model, "secret-1")
    await read(upstream, keyed)
    assert replica.calls[0].headers["authorization"] == "Bearer secret-1"
    assert "secret-1" not in repr(keyed)


async def test_connection_is_reused_after_a_clean_end(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    for _ in range(5):
        await read(upstream, target(replica.url))
    assert replica.connections == 1


async def test_llamacpp_streams_ask_for_close_and_survive_the_keep_alive_lie(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    replica.close_after_stream = True
    for _ in range(20):
        await read(upstream, target(replica.url, kind="llamacpp"))
    assert {call.headers["connection"] for call in replica.calls} == {"close"}


@pytest.mark.alone
async def test_leaving_mid_stream_closes_the_socket_at_once(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """G5"""
    lags_s = []
    for _ in range(20):
        replica.next(scripts.hang_after(2))
        async with upstream.stream(target(replica.url), CHAT, b"{}", {}, SHORT) as stream:
            await anext(aiter(chunks(stream)))
        left_s = asyncio.get_running_loop().time()
        call = replica.calls[-1]
        await call.gone.wait()
        assert call.gone_at_s is not None
        lags_s.append(call.gone_at_s - left_s)
    assert sorted(lags_s)[10] <= 0.010


async def test_cancelling_before_headers_closes_the_socket(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """G5"""
    replica.next(scripts.hang_before_headers())
    task = asyncio.create_task(read(upstream, target(replica.url)))
    call = await replica.arrival()
    task.cancel()
    await call.gone.wait()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("reset", [False, True])
async def test_cut_body_is_incomplete(
    upstream: HttpUpstream, replica: ScriptedReplica, reset: bool
) -> None:
    """Row 43, G12"""
    for _ in range(200):
        error = await failure(upstream, replica, scripts.cut_after(2, reset=reset))
        assert isinstance(error, ConnectionLost)
        assert error.reason is Reason.UPSTREAM_INCOMPLETE


async def test_what_came_before_a_cut_is_delivered(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """Row 43"""
    replica.next(scripts.cut_after(2))
    got = []
    async with upstream.stream(target(replica.url), CHAT, b"{}", {}, SHORT) as stream:
        with contextlib.suppress(ConnectionLost):
            async for chunk in chunks(stream):
                got.append(chunk)
    assert text_of(b"".join(got)) == "t0 t1 "


async def test_what_comes_is_taken_without_waking_the_task_that_waits(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """Steps of the task while 40 pieces come one by one: those before the first, and the end."""
    replica.next(scripts.slow_slices(scripts.tokens(10), 40, pause_s=0.001))
    taken = Taken()
    async with upstream.stream(target(replica.url), CHAT, b"{}", {}, SHORT) as stream:
        waiting = Steps(stream.relay(taken.take))
        assert not await waiting
    assert len(taken) > 20
    assert waiting.steps <= 5
    assert text_of(b"".join(taken)).endswith("t9 ")


async def test_who_says_no_gets_the_rest_when_it_asks_again(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    replica.next(scripts.slow_slices(scripts.tokens(10), 100, pause_s=0.001))
    taken: list[bytes] = []

    def every_third(read: bytes) -> bool:
        taken.append(read)
        return len(taken) % 3 != 0

    async with upstream.stream(target(replica.url), CHAT, b"{}", {}, SHORT) as stream:
        while await stream.relay(every_third):
            number = len(taken)
            await asyncio.sleep(0.005)  # what comes meanwhile is held
            assert len(taken) == number
    assert text_of(b"".join(taken)) == "".join(f"t{number} " for number in range(10))


async def test_nothing_is_given_to_who_has_been_cancelled() -> None:
    """Its slot may be another's already, and its caller have another answer."""
    connection, taken = Connection(lambda lost: None), Taken()
    one, _ = socket.socketpair()
    connection.connection_made(cast(asyncio.Transport, FakeTransport(one)))
    asking = asyncio.create_task(connection.ask(b"", b"", asyncio.get_running_loop().time() + 5))
    await asyncio.sleep(0)
    connection.data_received(CHUNKED + b"1\r\na\r\n")
    await asking
    relaying = asyncio.create_task(connection.relay(taken.take, 5.0))
    await asyncio.sleep(0)
    relaying.cancel()
    connection.data_received(b"1\r\nb\r\n")
    with pytest.raises(asyncio.CancelledError):
        await relaying
    assert taken == [b"a"]
    assert await connection.read(5.0) == b"b"


async def test_fault_of_who_takes_is_not_the_replicas(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    def faulty(read: bytes) -> bool:
        raise ValueError("a bug")

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    replica.next(scripts.tokens(3, ttft_s=0.01))
    with pytest.raises(ValueError, match="a bug"):
        async with upstream.stream(target(replica.url), CHAT, b"{}", {}, SHORT) as stream:
            await stream.relay(faulty)


async def test_end_of_connection_is_the_end_of_an_unframed_body(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """Row 43: the caller sees that [DONE] is missing."""
    replica.next(scripts.ends_without_done())
    raw = await read(upstream, target(replica.url))
    assert text_of(raw) == "t0 t1 "
    assert scripts.DONE not in raw


async def test_cut_before_headers_is_lost_not_unreachable(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    for reset in (False, True):
        error = await failure(upstream, replica, scripts.cut_before_headers(reset=reset))
        assert isinstance(error, ConnectionLost)
        assert error.reason is Reason.UPSTREAM_ERROR
        assert error.retryable


async def test_closed_port_is_unreachable(upstream: HttpUpstream) -> None:
    async with running() as replica:
        url = replica.url
    with pytest.raises(ReplicaUnreachable):
        await read(upstream, target(url))


async def test_headers_too_late_time_out(upstream: HttpUpstream, replica: ScriptedReplica) -> None:
    """Row 40"""
    replica.next(scripts.hang_before_headers())
    with pytest.raises(UpstreamError) as caught:
        await read(upstream, target(replica.url), timeouts=AttemptTimeouts(1.0, 0.3, 1.0))
    assert caught.value.reason is Reason.UPSTREAM_TIMEOUT
    await replica.calls[0].gone.wait()


async def test_silence_in_the_body_is_a_stall(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """Row 41"""
    replica.next(scripts.hang_after(1))
    with pytest.raises(UpstreamError) as caught:
        await read(upstream, target(replica.url), timeouts=AttemptTimeouts(1.0, 5.0, 0.05))
    assert caught.value.reason is Reason.STREAM_STALLED
    await replica.calls[0].gone.wait()


@pytest.mark.alone
async def test_reading_ahead_is_bounded(upstream: HttpUpstream, replica: ScriptedReplica) -> None:
    """Row 45: a consumer that stops reading stops the replica."""
    replica.next(scripts.endless_line(100_000_000))
    async with upstream.stream(target(replica.url), CHAT, b"{}", {}, SHORT) as stream:
        reads = aiter(chunks(stream))
        await anext(reads)
        call = replica.calls[0]
        last = -1
        while call.sent_bytes != last:  # until the replica is blocked by back-pressure
            last = call.sent_bytes
            await asyncio.sleep(0.05)
        assert call.sent_bytes <= 8_000_000  # mostly the kernel's socket buffers
        assert max([len(await anext(reads)) for _ in range(20)]) <= 256 * 1024


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connection_that_ends_while_it_is_held_back_gives_what_it_has(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Row 45: then it is cut."""

    async def main() -> None:
        upstream = HttpUpstream(("127.0.0.0/8",))
        async with running(scripts.endless_line(10_000_000)) as replica:
            to = target(replica.url)
            async with upstream.stream(to, CHAT, b"{}", {}, SHORT) as stream:
                reads = aiter(chunks(stream))
                await anext(reads)
                while replica.calls[0].sent_bytes < 500_000:
                    await asyncio.sleep(0.01)
                await upstream.close()
                with pytest.raises(ConnectionLost):
                    async for _ in reads:
                        pass

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


@pytest.mark.alone
async def test_hung_replica_does_not_slow_its_neighbours(upstream: HttpUpstream) -> None:
    """R15"""
    async with running() as hung, running() as healthy:
        hung.default = scripts.hang_before_headers()
        patient = AttemptTimeouts(connect_s=30.0, headers_s=60.0, idle_s=60.0)
        hanging = target(hung.url, slug="hung")
        to_hung = [read(upstream, hanging, timeouts=patient) for _ in range(200)]
        stuck = [asyncio.create_task(one) for one in to_hung]
        await hung.arrival(200)
        started_s = time.perf_counter()
        for _ in range(20):
            await read(upstream, target(healthy.url, slug="healthy"))
        assert (time.perf_counter() - started_s) / 20 <= 0.05
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


async def test_same_slug_with_another_serial_is_another_pool(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """R6"""
    await read(upstream, target(replica.url, serial=1))
    await read(upstream, target(replica.url, serial=2))
    assert replica.connections == 2
    await upstream.forget(target(replica.url, serial=1))
    await read(upstream, target(replica.url, serial=2))
    assert replica.connections == 2


async def test_attempt_on_a_forgotten_replica_ends_with_an_error(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """R6"""
    replica.next(scripts.hang_after(1))
    async with upstream.stream(target(replica.url), CHAT, b"{}", {}, SHORT) as stream:
        reads = aiter(chunks(stream))
        await anext(reads)
        await upstream.forget(target(replica.url))
        with pytest.raises(ConnectionLost):
            async for _ in reads:
                pass
    await replica.calls[0].gone.wait()


async def test_probe_answers_with_any_status_and_a_bounded_body(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """R17"""
    to = target(replica.url)
    replica.routes["/metrics"] = scripts.plain(b"x" * 1000, code=500)
    answer = await upstream.get(to, "/metrics", timeout_s=1.0, max_bytes=1000)
    assert (answer.status, len(answer.body)) == (500, 1000)
    with pytest.raises(UpstreamError, match="too long"):
        await upstream.get(to, "/metrics", timeout_s=1.0, max_bytes=999)


async def test_probe_of_a_hung_replica_ends_in_time(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """R17"""
    replica.routes["/health"] = scripts.hang_before_headers()
    with pytest.raises(UpstreamError) as caught:
        await upstream.get(target(replica.url), "/health", timeout_s=0.05, max_bytes=1000)
    assert caught.value.reason is Reason.UPSTREAM_TIMEOUT
