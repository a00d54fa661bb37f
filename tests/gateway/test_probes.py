"""Who may read the metrics, which name every tenant?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.probes import Probes

HERE, ELSEWHERE = ("127.0.0.1", 5000), ("10.0.0.7", 5000)
BEARER = "of-the-monitoring"


async def status_of(client: tuple[str, int], token: str = "", **headers: str) -> int:
    probes = Probes(lambda: True, dict, lambda: b"metrics", token)
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"path": "/metrics", "headers": raw, "client": client}
    await probes(scope, None, send)
    return int(sent[0]["status"])


async def test_this_machine_reads_them() -> None:
    assert await status_of(HERE) == 200


async def test_another_machine_does_not() -> None:
    assert await status_of(ELSEWHERE) == 403


async def test_a_proxy_on_this_machine_does_not_make_its_clients_local() -> None:
    assert await status_of(HERE, x_forwarded_for="10.0.0.7") == 403


@pytest.mark.parametrize(("sent", "status"), [(BEARER, 200), ("wrong", 403), ("", 403)])
async def test_with_a_token_only_its_bearer_does(sent: str, status: int) -> None:
    assert await status_of(ELSEWHERE, BEARER, authorization=f"Bearer {sent}") == status
    assert await status_of(HERE, BEARER) == 403


async def test_a_gateway_without_memory_is_not_ready() -> None:
    """Row 19"""
    full = [False]
    probes = Probes(lambda: True, lambda: {"memory": "96 %"}, bytes, full=lambda: full[0])
    seen = []
    for full[0] in (False, True):
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any], sent: list[dict[str, Any]] = sent) -> None:
            sent.append(message)

        await probes({"path": "/readyz", "headers": [], "client": HERE}, None, send)
        seen.append((sent[0]["status"], json.loads(sent[1]["body"])["status"]))
    assert seen == [(200, "degraded"), (503, "full")]
