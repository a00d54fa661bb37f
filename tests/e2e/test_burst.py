"""A burst over HTTP at a limit: exactly as many calls are admitted as the limit allows."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator

import aiohttp
import pytest

from tests.e2e.installation import ROOT, Installation, installed
from tests.e2e.streams import Stream

REPETITIONS = 5
ALLOWED = 50


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("burst"), sequences=64) as it:
        it.serve()
        yield it


async def test_of_two_hundred_at_once_a_limit_for_fifty_admits_fifty(place: Installation) -> None:
    """G2, row 27"""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        for turn, key in enumerate(await asyncio.to_thread(_keys_of_new_tenants, place)):
            await _known(session, place, key)
            burst = [Stream().run(session, place, tokens=2, key=key) for _ in range(200)]
            statuses = [stream.status for stream in await asyncio.gather(*burst)]
            assert statuses.count(200) == ALLOWED, turn
            assert statuses.count(429) == 200 - ALLOWED, turn
    assert turn == REPETITIONS - 1


async def _known(session: aiohttp.ClientSession, place: Installation, key: str) -> None:
    """Listing models needs a known key and costs no quota."""
    headers = {"authorization": f"Bearer {key}"}
    async with asyncio.timeout(30):
        while True:
            async with session.get(f"{place.url}/v1/models", headers=headers) as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.05)


def _keys_of_new_tenants(place: Installation) -> list[str]:
    """One process for all of them: Django takes seconds to load. What refills is one call a minute,
    so that a slow machine admits no more."""
    script = f"""
from io import StringIO
from django.core.management import call_command
for turn in range({REPETITIONS}):
    name = f'burst-{{turn}}'
    call_command('tenant', 'create', name, '--concurrency', '1000', stdout=StringIO())
    once_a_minute = ('1', '--class', 'online', '--burst', '{ALLOWED}')
    call_command('tenant', 'limit', name, 'rpm', *once_a_minute, stdout=StringIO())
    call_command('apikey', 'create', name, '--json')
"""
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=place.env, stdout=subprocess.PIPE, check=True)
    return re.findall(r'"api_key": "(.+?)"', done.stdout.decode())
