from __future__ import annotations

import errno
import inspect
import socket
import ssl

import httptools
import pytest

from gateway.core.errors import ReplicaFull, ReplicaUnreachable, UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.upstream_errors import (
    FOREIGN,
    Phase,
    error_for_exception,
    error_for_plain_answer,
    error_for_status,
)


def _exceptions() -> list[type[BaseException]]:
    return [
        kind
        for kind in vars(httptools).values()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    ]


SYSTEM: list[type[BaseException]] = [
    ConnectionRefusedError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    TimeoutError,
    OSError,
    socket.gaierror,
    ssl.SSLError,
    ssl.SSLCertVerificationError,
    ValueError,
    UnicodeDecodeError,
]


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("kind", _exceptions() + SYSTEM, ids=lambda kind: kind.__name__)
def test_every_foreign_exception_has_a_meaning(kind: type[BaseException], phase: Phase) -> None:
    assert issubclass(kind, FOREIGN)
    error = error_for_exception(kind.__new__(kind), phase)
    assert isinstance(error, UpstreamError)
    assert error.retryable


def test_own_mistakes_are_not_disguised_as_upstream_errors() -> None:
    with pytest.raises(TypeError, match="KeyError"):
        error_for_exception(KeyError("x"), Phase.BODY)


@pytest.mark.parametrize("kind", [ConnectionRefusedError, socket.gaierror, ssl.SSLError])
def test_no_connection_is_unreachable(kind: type[BaseException]) -> None:
    assert isinstance(error_for_exception(kind(), Phase.CONNECT), ReplicaUnreachable)


def test_timeouts_have_the_name_of_their_phase() -> None:
    assert error_for_exception(TimeoutError(), Phase.HEADERS).reason is Reason.UPSTREAM_TIMEOUT
    assert error_for_exception(TimeoutError(), Phase.BODY).reason is Reason.STREAM_STALLED


def test_every_status_has_a_meaning() -> None:
    for status in range(300, 600):
        error = error_for_status(status)
        assert error.blames_replica is (status not in (501, 503, 529) and not 400 <= status < 500)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"error":{"code":400}}', 400),
        (b'{"error":{"code":"x"}}', 502),
        (b'{"error":"boom"}', 502),
        (b'{"ok":1}', 502),
        (b"[1]", 502),
        (b"\xff", 502),
    ],
)
def test_error_hidden_in_a_200_is_found(body: bytes, status: int) -> None:
    """G13"""
    assert error_for_plain_answer("application/json", body).status == status


def test_full_replica_hidden_in_a_200_is_full() -> None:
    """G13"""
    error = error_for_plain_answer("application/json", b'{"error":{"code":503}}')
    assert isinstance(error, ReplicaFull)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_file_that_the_gateway_lacks_is_not_the_replicas_fault(number: int) -> None:
    """Row 09: its replicas would all be ejected, and each would be tried."""
    error = error_for_exception(OSError(number, "no file"), Phase.HEADERS)
    assert (error.reason, error.status) == (Reason.GATEWAY_FULL, 503)
    assert not error.blames_replica
    assert not error.retryable
