"""What ``manage.py serve`` refuses, in one line."""

from __future__ import annotations

import socket

import pytest
from django.core.management import CommandError, call_command


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 2}, "one process schedules a cell"),
        ({"role": "web"}, "set REDIS_URL"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(CommandError, match=words) as refused:
        call_command("serve", **options)
    assert "\n" not in str(refused.value)


def test_a_port_in_use_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"127.0.0.1:{port}.*--port"):
            call_command("serve", port=port)
