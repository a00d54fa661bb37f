"""How do commands reach the Redis server, and which answer belongs to which?

One connection at a time, pipelined: the commands of one turn of the loop leave in one write, and
answers come back in order. A command that nobody waits for leaves with the next one that somebody
does wait for, or after LAZY_S. Who asks gives what hears the answer: a future, or an object that
needs no turn of the loop to learn of it. Nothing is retried.

A command that has no answer ``timeout_s`` after it was asked raises TimeoutError, also while the
connection is being made; whether it was carried out is then unknown. Its connection is given no
more commands (the next one opens another) and is closed once those before it are answered or late
too.

The library's client takes a connection from a pool, a lock and a timer for each command, which was
a seventh of the cost of a call; addresses and TLS are still read as the library reads them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import hiredis
from redis.asyncio.connection import SSLConnection, parse_url

Word = str | int | float
PORT = 6379
LAZY_S = 0.02
GRACE_S = 0.002
_packed: Callable[[tuple[Word, ...]], bytes] = cast(Any, hiredis.pack_command)  # its stub errs


class ServerError(Exception):
    """The server's own answer is an error: its words."""


class Hearer(Protocol):
    """Of one answer: a result or an exception comes once, unless it is done before."""

    def done(self) -> bool: ...

    def set_result(self, answer: Any, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    path: str = ""  # of a Unix socket, instead of host and port
    tls: ssl.SSLContext | None = None
    greeting: tuple[tuple[Word, ...], ...] = ()  # what comes before the first command


def address_of(url: str) -> Address:
    """``redis://``, ``rediss://`` or ``unix://``. Raises ValueError."""
    known: dict[str, Any] = {**parse_url(url)}
    known.pop("max_connections", None)
    encrypted = known.pop("connection_class", None) is SSLConnection
    greeting: list[tuple[Word, ...]] = []
    if known.get("password"):
        user = (known["username"],) if known.get("username") else ()
        greeting.append(("AUTH", *user, known["password"]))
    if known.get("db"):
        greeting.append(("SELECT", int(known["db"])))
    return Address(
        known.get("host", "localhost"),
        known.get("port", PORT),
        known.get("path", ""),
        SSLConnection(**known).ssl_context.get() if encrypted else None,
        tuple(greeting),
    )


class RespClient:
    """Belongs to one event loop, that of the first ``ask``."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._connections: set[_Connection] = set()
        self._current: _Connection | None = None

    def ask(self, *words: Word, until_s: float | None = None) -> asyncio.Future[Any]:
        """The answer. Raises ServerError, OSError, of which TimeoutError means unknown.
        ``until_s``: on the clock of the loop, at most ``timeout_s`` from now."""
        connection = self._usable()
        answer = connection.loop.create_future()
        connection.ask(_packed(words), until_s or self.latest_s, answer, lazily=False)
        return answer

    def ask_lazily(self, words: tuple[Word, ...], hearer: Hearer) -> None:
        """For who does not wait: it leaves with the next command, or a moment later."""
        self._usable().ask(_packed(words), self.latest_s, hearer, lazily=True)

    async def drained(self) -> None:
        """Returns when whatever was asked on the present connection has its answer. Raises what
        ``ask`` raises."""
        while self._current is not None and self._current.is_asked:
            await self.ask("PING")

    def _usable(self) -> _Connection:
        current = self._current
        if current is None or current.retired:
            current = self._current = _Connection(self._address, self._timeout_s)
            current.closed = self._connections.discard
            self._connections.add(current)
            current.open()
        return current

    @property
    def latest_s(self) -> float:
        """The moment until which a command that is asked now is waited for."""
        return asyncio.get_running_loop().time() + self._timeout_s

    async def aclose(self) -> None:
        """What has no answer yet is unknown."""
        opening = [connection.abort() for connection in tuple(self._connections)]
        await asyncio.gather(*opening, return_exceptions=True)


class _Connection(asyncio.Protocol):
    def __init__(self, address: Address, timeout_s: float) -> None:
        self.retired = False
        self.closed: Any = None
        self._address = address
        self._timeout_s = timeout_s
        self.loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(replyError=ServerError)
        self._transport: asyncio.Transport | None = None
        self._greeted = False
        self._unsent: list[bytes] = []
        self._sending = False  # in this turn
        self._lazy: asyncio.TimerHandle | None = None
        self._asked: deque[tuple[float, Hearer]] = deque()  # until when
        self._look_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._opening = self.loop.create_task(self._open(), name="quota store connection")

    def ask(self, command: bytes, until_s: float, hearer: Hearer, *, lazily: bool) -> None:
        self._asked.append((until_s, hearer))
        self._unsent.append(command)
        if self._greeted and not self._sending and (not lazily or self._lazy is None):
            self._send_later(lazily=lazily)
        if self._timer is None or until_s < self._look_s:
            self._look_at(until_s)

    @property
    def is_asked(self) -> bool:
        """Something has no answer yet."""
        return bool(self._asked)

    def abort(self) -> asyncio.Task[None]:
        assert self._opening is not None
        self._opening.cancel()
        self._lose(ConnectionAbortedError("closed"))
        return self._opening

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connect()
                for words in self._address.greeting:
                    await self._greet(words)
        except (OSError, ServerError, hiredis.HiredisError) as error:
            self._lose(error)
        else:
            self._greeted = True
            self._send()

    async def _connect(self) -> None:
        address = self._address
        if address.path:
            await self.loop.create_unix_connection(lambda: self, address.path)
        else:
            await self.loop.create_connection(
                lambda: self, address.host, address.port, ssl=address.tls
            )

    async def _greet(self, words: tuple[Word, ...]) -> None:
        """Before everything that was asked meanwhile."""
        answer = self.loop.create_future()
        self._asked.appendleft((self.loop.time() + self._timeout_s, answer))
        assert self._transport is not None
        self._transport.write(_packed(words))
        await answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reader, asked = self._reader, self._asked
        try:
            reader.feed(data)
            while (answer := reader.gets()) is not False:
                _, waiting = asked.popleft()
                if waiting.done():
                    continue
                if isinstance(answer, ServerError):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)
        except (hiredis.ProtocolError, IndexError) as error:
            self._lose(ConnectionError(f"the server does not speak Redis: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(exc or ConnectionResetError("the server closed the connection"))

    def _send_later(self, *, lazily: bool) -> None:
        if lazily:
            self._lazy = self.loop.call_later(LAZY_S, self._send_lazy)
        else:
            self._sending = True
            self.loop.call_soon(self._send)

    def _send_lazy(self) -> None:
        self._lazy = None
        self._send()

    def _send(self) -> None:
        self._sending = False
        if self._unsent and self._transport is not None:
            commands = b"".join(self._unsent)
            self._unsent.clear()
            self._transport.write(commands)

    def _look_at(self, until_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look_s = until_s
        self._timer = self.loop.call_at(until_s, self._look)

    def _look(self) -> None:
        """One timer for all commands, set to the one that is late first. After a stall of the loop
        itself an answer may be here and not read yet: it is read before anybody is late."""
        self._timer = self.loop.call_later(GRACE_S, self._judge)

    def _judge(self) -> None:
        self._timer = None
        now_s = self.loop.time()
        pending = [(until_s, waiting) for until_s, waiting in self._asked if not waiting.done()]
        for until_s, waiting in pending:
            if until_s <= now_s:
                self.retired = True
                waiting.set_exception(TimeoutError("the server did not answer in time"))
        left_s = [until_s for until_s, _ in pending if until_s > now_s]
        if left_s:
            self._look_at(min(left_s))
        elif self.retired:
            self._lose(TimeoutError("the server did not answer in time"))

    def _lose(self, error: BaseException) -> None:
        self.retired = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lazy is not None:
            self._lazy.cancel()
        if self._transport is not None:
            self._transport.abort()
        while self._asked:
            _, waiting = self._asked.popleft()
            if not waiting.done():
                waiting.set_exception(error)
        if self.closed is not None:
            self.closed(self)
