"""A replica behind TLS is who it says, or it gets no byte of a call."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.core.errors import ReplicaUnreachable
from gateway.replicas.http_upstream import HttpUpstream
from tests.replicas.calls import read, target
from tests.replicas.raw_server import WHOLE, raw


def certificate(folder: Path, name: str) -> Path:
    """Of a server ``name`` that vouches for itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(pem, *plain) + made.public_bytes(pem))
    return path


def served(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_trusted_replica_is_called_over_one_connection(
    upstream: HttpUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    async with raw(WHOLE, tls=served(path)) as server:
        for _ in range(3):
            assert await read(upstream, target(server.url)) == b"hello"
        assert server.connections == 1


@pytest.mark.parametrize("name", ["localhost", "other.example"])
async def test_replica_that_nobody_vouches_for_gets_no_call(
    upstream: HttpUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An unknown issuer; a known one that speaks of another name."""
    path = certificate(tmp_path, name)
    if name != "localhost":
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
    async with raw(WHOLE, tls=served(path)) as server:
        with pytest.raises(ReplicaUnreachable):
            await read(upstream, target(server.url))
        assert server.requests == 0


async def test_body_that_ends_with_the_connection_arrives_whole(
    upstream: HttpUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"x" * 300_000
    async with raw(answer, closes=True, tls=served(path)) as server:
        assert await read(upstream, target(server.url)) == b"x" * 300_000
