"""Who wakes the poller when the configuration changed elsewhere? A message through Redis.

One thread listens and calls ``nudge``. Redis being away only means that the next look finds the
change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import redis

from tenants.announcement import CHANNEL

LISTEN_S = 0.5
RETRY_S = 1.0
CONNECT_TIMEOUT_S = 0.5


class PushListener:
    def __init__(self, url: str, nudge: Callable[[], None]) -> None:
        self._url = url
        self._nudge = nudge
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="config-push", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends within LISTEN_S."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except redis.RedisError:
                self._stopping.wait(RETRY_S)

    def _listen(self) -> None:
        """Until told to stop; raises RedisError when the connection is lost."""
        with redis.Redis.from_url(
            self._url, socket_connect_timeout=CONNECT_TIMEOUT_S, retry=None
        ) as client:
            with client.pubsub(ignore_subscribe_messages=True) as messages:
                messages.subscribe(CHANNEL)
                self._nudge()  # what was announced while nobody listened
                while not self._stopping.is_set():
                    if messages.get_message(timeout=LISTEN_S) is not None:
                        self._nudge()
