"""How does one line become a call? Over HTTP to the gateway, with a token made for this line.

The gateway meters it as the key's own call, of class batch. What comes back is an answer, a refusal
for want of capacity (429, 503, nobody listening: try later, it is no failure), or a failure (5xx,
a connection that broke).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType

import aiohttp
import msgspec

from gateway.core.priority import PriorityClass
from gateway.internal_token import Claims, mint
from workers.results import Answer
from workers.services.lines import LeasedLine
from workers.usage import TokenUsage, usage_of

CONNECT_S = 3.0
NOBODY_LISTENS_S = 2.0
LONGEST_WAIT_S = 300.0
ANSWER_BYTES = 64 * 1024 * 1024
CAPACITY = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf, and to what."""

    tenant: str
    key_id: str
    batch_id: str
    endpoint: str  # a path


@dataclass(frozen=True, slots=True)
class NoCapacity:
    line: LeasedLine
    wait_s: float


@dataclass(frozen=True, slots=True)
class Broken:
    """The call failed. ``answer`` is what is told when it is not tried again."""

    line: LeasedLine
    answer: Answer


Outcome = Answer | NoCapacity | Broken


class GatewayCalls:
    """An async context: one session for all lines of a chunk."""

    def __init__(self, url: str, secret: bytes, caller: Caller, timeout_s: float) -> None:
        self._url = f"{url}{caller.endpoint}"
        self._secret = secret
        self._caller = caller
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> GatewayCalls:
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, line: LeasedLine, body: bytes) -> Outcome:
        assert self._session is not None
        try:
            async with self._session.post(
                self._url, data=body, headers=self._headers(line), allow_redirects=False
            ) as response:
                raw = await _bounded(response)
                return _outcome(line, response, raw)
        except aiohttp.ClientConnectorError:
            return NoCapacity(line, NOBODY_LISTENS_S)
        except TimeoutError:
            return Broken(line, failure(line, 504, "upstream_timeout", "No answer in time."))
        except aiohttp.ClientError:
            text = "The connection to the gateway broke."
            return Broken(line, failure(line, 502, "upstream_incomplete", text))

    def _headers(self, line: LeasedLine) -> dict[str, str]:
        caller = self._caller
        klass = PriorityClass.BATCH.label
        claims = Claims(caller.tenant, caller.key_id, klass, caller.batch_id, line.line_no)
        return {
            "authorization": f"Bearer {mint(self._secret, claims, time.time())}",
            "content-type": "application/json",
            "x-request-id": f"{caller.batch_id}-{line.line_no}",
            "user-agent": "fairway-worker",
        }


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("the answer is too long")
        parts.append(chunk)
    return b"".join(parts)


def _outcome(line: LeasedLine, response: aiohttp.ClientResponse, raw: bytes) -> Outcome:
    if response.status in CAPACITY:
        return NoCapacity(line, _wait_s(response))
    request_id = response.headers.get("x-fairway-call-id", "")
    body = raw if _is_json(raw) else msgspec.json.encode({"error": {"message": "No JSON answer."}})
    usage = usage_of(body) if response.status == 200 else TokenUsage()
    answer = Answer(line.line_no, line.custom_id, response.status, request_id, body, usage)
    return Broken(line, answer) if response.status >= 500 else answer


def failure(line: LeasedLine, status: int, code: str, message: str) -> Answer:
    error = {"message": message, "type": "server_error", "param": None, "code": code}
    body = msgspec.json.encode({"error": error})
    return Answer(line.line_no, line.custom_id, status, "", body, TokenUsage())


def _wait_s(response: aiohttp.ClientResponse) -> float:
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = response.headers.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 12:
            return min(LONGEST_WAIT_S, int(text) / per_second)
    return NOBODY_LISTENS_S


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True
