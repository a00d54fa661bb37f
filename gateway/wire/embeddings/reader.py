"""Is this the answer to a request for vectors?

The replica answers with one piece of JSON, which goes to the caller as it came: base64 stays
base64. It counts as an answer when it holds one vector per input, and its prompt tokens are all
that it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.chunks import ReportedUsage, decode_chunk
from gateway.wire.answers.events import Garbled, decode_json, fitting, says
from gateway.wire.answers.hidden_errors import error_in
from gateway.wire.dialect import Frame, FrameFacts


class _Answer(msgspec.Struct, gc=False):
    """What the gateway reads of an answer. Vectors are not decoded."""

    data: list[msgspec.Raw]
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_DECODER: Final = msgspec.json.Decoder(_Answer)


class EmbeddingsReader:
    """Implements StreamReader: the one frame is the whole answer."""

    tokens: int = 0

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._is_done = False
        self.usage: Usage | None = None
        self.finish_reason: str | None = None

    def is_complete(self, *, needs_done: bool = True) -> bool:
        return self._is_done

    def repeats(self, events: Sequence[bytes], start: int = 0) -> Sequence[str]:
        return ()

    def facts(self, frame: Frame) -> FrameFacts:
        try:
            answer = _decoded(frame.raw)
            if answer is None or says(answer.error):
                return FrameFacts(b"", error=_error(frame.raw))
            self.usage = _usage(answer)
        except Garbled:
            return FrameFacts(b"", error=_failed("The replica's answer is not a JSON object."))
        if len(answer.data) != self._inputs:
            return FrameFacts(b"", error=_miscounted())
        self._is_done, self.finish_reason = True, "stop"
        return FrameFacts(
            frame.raw,
            has_content=True,
            finish_reason=self.finish_reason,
            usage=self.usage,
            is_done=True,
        )


def _decoded(raw: bytes) -> _Answer | None:
    """None: JSON, but no list of vectors. Raises Garbled."""
    try:
        return _DECODER.decode(raw)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        raise Garbled from None


def _usage(answer: _Answer) -> Usage | None:
    """Of the prompt alone; what a server says of an output here is not believed."""
    reported = fitting(decode_json(answer.usage), ReportedUsage) if says(answer.usage) else None
    if reported is None:
        return None
    usage: Usage = reported.as_usage()
    return Usage(usage.input_tokens, usage.cached_tokens, 0)


def _error(raw: bytes) -> UpstreamError:
    """Raises Garbled."""
    return error_in(decode_chunk(raw), raw) or _failed("The replica's answer has no embeddings.")


def _miscounted() -> UpstreamError:
    """Servers differ in what a list of numbers is, so the request may be the reason."""
    message = "The replica did not give one vector for every input."
    return UpstreamError(Reason.UPSTREAM_ERROR, message, blames_replica=False)


def _failed(message: str) -> UpstreamError:
    return UpstreamError(Reason.UPSTREAM_ERROR, message)
