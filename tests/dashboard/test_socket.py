"""The live socket over real sockets: who gets in, what arrives, how soon, and what never does."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from dashboard.live import consumers
from gateway.core.events import ConfigApplied
from tenants.models import Operator
from tenants.services import members
from tests import factories
from tests.dashboard.pages_server import PagesServer
from tests.fakes.live_events import LiveEvents
from tests.people import BACKEND

pytestmark = pytest.mark.django_db(transaction=True)


async def session_of(user: Any) -> str:
    client = Client()
    await sync_to_async(client.force_login)(user, BACKEND)
    return client.cookies["sessionid"].value


async def open_socket(server: PagesServer, user: Any, **options: Any) -> ClientConnection:
    cookie = f"sessionid={await session_of(user)}" if user else ""
    headers = {"Cookie": cookie} if cookie else {}
    options.setdefault("origin", server.url)
    return await connect(server.ws_url, additional_headers=headers, **options)


async def message(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(30):
        received: dict[str, Any] = json.loads(await socket.recv())
        return received


async def until(socket: ClientConnection, wanted: Any) -> dict[str, Any]:
    """The first message that ``wanted`` holds for."""
    async with asyncio.timeout(30):
        while True:
            received: dict[str, Any] = json.loads(await socket.recv())
            if wanted(received):
                return received


async def test_another_address_is_refused(
    server: PagesServer, live_cast: factories.Cast, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Cookie": f"sessionid={await session_of(live_cast.olga)}"}
    url = server.ws_url.replace("/ws/live/", "/ws/other/")
    with pytest.raises(InvalidStatus) as refused:
        await connect(url, additional_headers=headers, origin=Origin(server.url))
    assert refused.value.response.status_code == 403
    assert "Traceback" not in caplog.text


async def test_an_operator_gets_a_snapshot_at_once(
    server: PagesServer, live_cast: factories.Cast
) -> None:
    async with await open_socket(server, live_cast.olga) as socket:
        first = await message(socket)
    assert 'id="tenant-rival"' in first["panels"]["tenants"]
    assert set(first["figures"]) == {"ttft", "share"}


@pytest.mark.alone
async def test_an_update_arrives_within_a_second_and_a_half_of_the_event(
    server: PagesServer, live_cast: factories.Cast
) -> None:
    events = LiveEvents()
    async with await open_socket(server, live_cast.olga) as socket:
        await message(socket)
        delays = []
        for _ in range(5):
            second = events.second(time.time())
            sent_at = time.monotonic()
            server.send(second)
            await until(socket, lambda one, at=second.at: one["at"] == at)
            delays.append(time.monotonic() - sent_at)
    assert max(delays) < 1.5


async def test_only_changed_panels_travel(server: PagesServer, live_cast: factories.Cast) -> None:
    async with await open_socket(server, live_cast.olga) as socket:
        await message(socket)
        server.send(ConfigApplied(time.time(), 99))
        second = await until(socket, lambda one: one["version"] == 99)
    assert second["panels"] == {}
    assert second["figures"] == {}


async def test_foreign_data_never_arrives(server: PagesServer, live_cast: factories.Cast) -> None:
    """S12: a member asks for another tenant and for the fleet; gets its own."""
    events = LiveEvents()
    charlie = live_cast.charlie
    async with await open_socket(server, charlie) as socket:
        server.send(*events.history(time.time(), 20))
        received = await until(socket, lambda one: one["at"] is not None)
    told = json.dumps(received).lower()
    for foreign in ("acme", "nightly", "initech", "gpu-", "sim-llama-8b has"):
        assert foreign not in told
    assert "tenants" not in received["panels"]


async def test_a_tenant_named_by_the_client_changes_nothing(
    server: PagesServer, live_cast: factories.Cast
) -> None:
    """S12."""
    async with await open_socket(server, live_cast.charlie) as socket:
        await message(socket)
        await socket.send(json.dumps({"subscribe": "acme"}))
        with pytest.raises(ConnectionClosed) as closed:
            await until(socket, lambda _: False)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == consumers.NOT_UNDERSTOOD


async def test_without_a_session_the_socket_closes(server: PagesServer) -> None:
    async with await open_socket(server, None) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await message(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == consumers.SIGNED_OUT


ORIGINS = [
    None,
    "null",
    "http://evil.example",
    "http://sub.127.0.0.1:{port}",
    "http://127.0.0.1:1",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1.evil.example:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "HTTP://127.0.0.1:{port}",
    "http://xn--127-0-0-1.example",
]


@pytest.mark.parametrize("origin", ORIGINS)
async def test_only_the_own_origin_gets_a_socket(
    origin: str | None, server: PagesServer, live_cast: factories.Cast
) -> None:
    """S17."""
    wrong = origin.format(port=server.port) if origin else None
    with pytest.raises(InvalidStatus) as refused:
        await open_socket(server, live_cast.olga, origin=wrong)
    assert refused.value.response.status_code == 403


async def test_a_signed_out_session_loses_its_socket(
    live_cast: factories.Cast, short_recheck: None, server: PagesServer
) -> None:
    """Row 81."""
    async with await open_socket(server, live_cast.olga) as socket:
        await message(socket)
        await Operator.objects.filter(user=live_cast.olga).adelete()
        with pytest.raises(ConnectionClosed) as closed:
            await until(socket, lambda _: False)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == consumers.SIGNED_OUT


async def test_a_socket_of_a_page_of_another_organization_closes(
    server: PagesServer, live_cast: factories.Cast
) -> None:
    cookie = f"sessionid={await session_of(live_cast.alice)}"
    url, headers = f"{server.ws_url}?organization=rival", {"Cookie": cookie}
    origin = Origin(server.url)
    async with connect(url, additional_headers=headers, origin=origin) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await message(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == consumers.SWITCHED
    assert closed.value.rcvd.reason == "another organization"


async def test_a_switch_in_another_tab_closes_the_socket_with_its_reason(
    live_cast: factories.Cast, short_recheck: None, server: PagesServer
) -> None:
    add = sync_to_async(members.add)
    await add(slug="rival", username="alice", role="viewer", actor=factories.TESTER)
    client = Client()
    await sync_to_async(client.force_login)(live_cast.alice, BACKEND)
    headers = {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}
    url, origin = f"{server.ws_url}?organization=acme", Origin(server.url)
    async with connect(url, additional_headers=headers, origin=origin) as socket:
        await message(socket)
        await sync_to_async(client.post)("/organization/", {"slug": "rival"})
        with pytest.raises(ConnectionClosed) as closed:
            await until(socket, lambda _: False)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == consumers.SWITCHED


async def test_the_theme_of_the_figures_follows_the_browser(
    server: PagesServer, live_cast: factories.Cast
) -> None:
    async with await open_socket(server, live_cast.olga) as socket:
        light = await message(socket)
        await socket.send(json.dumps({"theme": "dark"}))
        dark = await until(socket, lambda one: one["figures"])
    assert light["figures"]["ttft"]["layout"]["paper_bgcolor"] == "#ffffff"
    assert dark["figures"]["ttft"]["layout"]["paper_bgcolor"] == "#151d19"


async def test_names_with_markup_arrive_as_text(
    server: PagesServer, live_cast: factories.Cast
) -> None:
    """S19."""
    payload = "<img src=x onerror=alert(1)>"
    await sync_to_async(factories.organization)("mallory", name=payload)
    events = LiveEvents(version=50)
    async with await open_socket(server, live_cast.olga) as socket:
        server.send(events.second(time.time()))
        received = await until(socket, lambda one: "mallory" in one["panels"].get("tenants", ""))
    assert payload not in received["panels"]["tenants"]
    assert "&lt;img src=x" in received["panels"]["tenants"]


@pytest.mark.alone
async def test_a_stuck_browser_delays_nobody(
    server: PagesServer, live_cast: factories.Cast
) -> None:
    """Row 79, small: one socket that never reads, forty that do."""
    events = LiveEvents()
    stuck = await open_socket(server, live_cast.olga, max_queue=1)
    stuck.transport.pause_reading()
    reading = [await open_socket(server, live_cast.olga) for _ in range(40)]
    delays = []
    for _ in range(3):
        second = events.second(time.time())
        sent_at = time.monotonic()
        server.send(second)
        await asyncio.gather(
            *(until(socket, lambda one, at=second.at: one["at"] == at) for socket in reading)
        )
        delays.append(time.monotonic() - sent_at)
    for socket in reading:
        await socket.close()
    stuck.transport.abort()
    assert sorted(delays)[1] < 2
