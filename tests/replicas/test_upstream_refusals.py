from __future__ import annotations

import gzip
import tracemalloc

import pytest

from gateway.core.errors import ReplicaFull, UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.http_upstream import HttpUpstream
from tests.fakes import scripts
from tests.fakes.scripted_replica import ScriptedReplica, running
from tests.replicas.calls import failure, read, target, text_of


@pytest.mark.parametrize("code", [400, 404, 413, 422])
async def test_refusals_keep_status_and_body_and_blame_nobody(
    upstream: HttpUpstream, replica: ScriptedReplica, code: int
) -> None:
    error = await failure(upstream, replica, scripts.status(code))
    assert (error.reason, error.status) == (Reason.UPSTREAM_REFUSED, code)
    assert not error.retryable
    assert not error.blames_replica
    assert b"status %d" % code in (error.upstream_body or b"")


@pytest.mark.parametrize("code", [429, 503])
async def test_full_replica_is_a_hint_of_one_to_two_seconds(
    upstream: HttpUpstream, replica: ScriptedReplica, code: int
) -> None:
    """Row 48"""
    hints = []
    for retry_after in (None, "0", "2", "3600", "tomorrow"):
        error = await failure(upstream, replica, scripts.status(code, retry_after=retry_after))
        assert isinstance(error, ReplicaFull)
        assert not error.blames_replica
        hints.append(error.retry_after_s)
    assert hints == [1.0, 1.0, 2.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("script", "blamed"),
    [
        (scripts.status(500), True),
        (scripts.html_error(500), True),
        (scripts.html_error(200), True),
        (scripts.error_in_200(), True),
        (scripts.plain(b""), True),
        (scripts.status(401), False),
        (scripts.status(501), False),
    ],
)
async def test_failures_are_retryable_and_quote_nothing(
    upstream: HttpUpstream, replica: ScriptedReplica, script: scripts.Script, blamed: bool
) -> None:
    """Row 48, G13"""
    error = await failure(upstream, replica, script)
    assert error.reason is Reason.UPSTREAM_ERROR
    assert error.retryable
    assert error.blames_replica is blamed
    assert "engine dead" not in error.message
    assert "html" not in error.message


async def test_redirects_are_never_followed(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """Row 48: no call to another host, the metadata address included."""
    async with running() as elsewhere:
        for code in (301, 302, 307, 308):
            error = await failure(upstream, replica, scripts.redirect(elsewhere.url, code))
            assert error.reason is Reason.UPSTREAM_ERROR
        replica.routes["/health"] = scripts.redirect(elsewhere.url)
        answer = await upstream.get(target(replica.url), "/health", timeout_s=1.0, max_bytes=1000)
        assert answer.status == 307
        assert elsewhere.connections == 0


async def test_proxies_of_the_environment_are_not_used(
    upstream: HttpUpstream, replica: ScriptedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert text_of(await read(upstream, target(replica.url))) == "t0 t1 t2 "


async def test_compressed_bomb_is_refused_unread(
    upstream: HttpUpstream, replica: ScriptedReplica
) -> None:
    """Row 46"""
    bomb = gzip.compress(bytes(100_000_000), compresslevel=1)
    replica.next(scripts.compressed(bomb))
    tracemalloc.start()
    try:
        with pytest.raises(UpstreamError, match="encoding"):
            await read(upstream, target(replica.url))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes <= 2_000_000


async def test_huge_error_body_is_cut(upstream: HttpUpstream, replica: ScriptedReplica) -> None:
    """G21: a 100 MB error body is read to 64 KiB only."""
    error = await failure(upstream, replica, scripts.status(400, body=bytes(100_000_000)))
    assert len(error.upstream_body or b"") == 65_536
