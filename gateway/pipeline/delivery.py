"""How does what the replica sends reach the caller? As a stream, frame by frame, or at the end.

Both forms answer the same questions of the attempt: take this frame, or events that repeat the last
one; send what may be sent, at once if nobody has to be waited for; give up what was buffered
because another replica tries. The tail (the end marker, or the whole
answer of a call without a stream) is held back until slot and reservation are free again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call
from gateway.pipeline.caller import Waits, done
from gateway.pipeline.reply import Headers, Reply, Stage
from gateway.pipeline.telling import answer_headers
from gateway.wire.dialect import Dialect, Frame, FrameFacts

MAX_OPEN_BYTES = 64 * 1024
ECHOES = 4  # how often a replica may tell the request back before its first content


class Delivery(Protocol):
    def take(self, frame: Frame, facts: FrameFacts) -> None:
        """Raises UpstreamError when what must be buffered outgrows its bound."""
        ...

    def repeat(self, events: Sequence[bytes], texts: Sequence[str]) -> None:
        """Events that are the last one but for these texts (``StreamReader.repeats``). Raises as
        ``take``."""
        ...

    def relay(self, now_s: float) -> bool:
        """As ``flush``, without waiting. False: that cannot be, ``flush`` is needed."""
        ...

    def flush(self) -> Waits:
        """Sends what may be sent."""
        ...

    def restart(self) -> None:
        """Another attempt begins; nothing of the last one was relayed."""
        ...

    async def finish(self) -> None: ...


class StreamDelivery:
    """Open: frames without content are kept. Committed: all frames go out as they were read."""

    def __init__(self, call: Call, reply: Reply) -> None:
        self._call = call
        self._reply = reply
        self._most_bytes = MAX_OPEN_BYTES + ECHOES * call.placed.body.size_bytes
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._commits = False
        self._next_event = 0
        self._tail = b""

    def take(self, frame: Frame, facts: FrameFacts) -> None:
        if facts.is_done:
            self._commits = self._commits or facts.commits
            self._tail = facts.relay
            return
        self._buffer.append(facts.relay)
        self._next_event = facts.next_event
        if not self._commits and not facts.commits:
            self._buffered_bytes += len(facts.relay)
            if self._buffered_bytes > self._most_bytes:
                raise UpstreamError(
                    Reason.UPSTREAM_ERROR,
                    f"The replica sent {self._most_bytes} bytes without any content.",
                )
        else:
            self._commits = True

    def repeat(self, events: Sequence[bytes], texts: Sequence[str]) -> None:
        self._buffer += events  # they follow content, so the answer is committed

    def relay(self, now_s: float) -> bool:
        buffer = self._buffer
        if not self._commits or not buffer:
            return True
        body = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        if body and not self._reply.write_now(body, now_s):
            return False
        buffer.clear()
        self._call.next_event = self._next_event
        return True

    def flush(self) -> Waits:
        if not self._commits or not self._buffer:
            return None
        body = self._buffer[0] if len(self._buffer) == 1 else b"".join(self._buffer)
        self._buffer.clear()
        self._call.next_event = self._next_event
        if self._reply.stage is Stage.OPEN:
            return self._reply.commit(self._headers, body)
        return self._reply.write(body)

    def restart(self) -> None:
        self._buffer.clear()
        self._buffered_bytes = 0
        self._tail = b""

    async def finish(self) -> None:
        """An answer may be one event, its end: then nothing was committed before."""
        await done(self._reply.commit(self._headers))
        await done(self._reply.finish(self._tail))

    def _headers(self) -> Headers:
        return answer_headers(self._call)


class AnswerDelivery:
    """Collects the frames into one answer; nothing is sent before the end."""

    def __init__(self, call: Call, dialect: Dialect, reply: Reply) -> None:
        self._call = call
        self._dialect = dialect
        self._reply = reply
        self._aggregator = dialect.aggregator(call.placed.body)

    def take(self, frame: Frame, facts: FrameFacts) -> None:
        self._aggregator.feed(frame)

    def repeat(self, events: Sequence[bytes], texts: Sequence[str]) -> None:
        if self._aggregator.repeat(texts, sum(map(len, events))):
            return
        for frame in self._dialect.splitter().feed(b"".join(events)):
            self._aggregator.feed(frame)

    def relay(self, now_s: float) -> bool:
        return True

    def flush(self) -> Waits:
        return None

    def restart(self) -> None:
        self._aggregator = self._dialect.aggregator(self._call.placed.body)

    async def finish(self) -> None:
        result = self._aggregator.result(service_tier=self._service_tier())
        await done(self._reply.answer(200, answer_headers(self._call), result))

    def _service_tier(self) -> str | None:
        """Told to those who asked for one."""
        order = self._call.placed
        return self._call.style.tier(order.route.klass) if order.body.service_tier else None


def delivery_of(call: Call, dialect: Dialect, reply: Reply) -> Delivery:
    if call.placed.body.stream:
        return StreamDelivery(call, reply)
    return AnswerDelivery(call, dialect, reply)
