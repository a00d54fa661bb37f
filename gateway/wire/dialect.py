"""What does the gateway need to know of an API's wire format?

One ``Dialect`` per endpoint turns bytes into plain values and back. It holds no state between
calls; what must be remembered while one attempt streams lives in its ``StreamReader``.

Rules that every dialect keeps:
  - a field that it does not know passes untouched, in both directions;
  - a frame goes to a streaming caller as the bytes that the replica sent, except what only the
    gateway asked for: ``FrameFacts.relay`` is what to send;
  - a failure that hides inside a 200 becomes ``FrameFacts.error``, and nothing of it is relayed.

``Frame`` and ``FrameFacts`` are msgspec structs because one of each is made per event,
``ParsedBody`` because one is made per call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import CallError, UpstreamError


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """Bounds of a request body beyond its size, which the data plane counts while reading."""

    max_depth: int = 64
    max_keys: int = 4_096  # also of objects and lists; per message, and in all the rest
    max_containers: int = 32_768  # objects and lists in all
    max_keys_in_all: int = 40_960  # or one for so many bytes, whichever is more
    bytes_per_key: int = 20


class ParsedBody(msgspec.Struct, frozen=True):
    """A validated request. ``body`` keeps every field that came, also unknown ones."""

    model: str
    stream: bool
    include_usage: bool  # the caller asked for the usage chunk
    prompt_bytes: (
        int  # UTF-8 bytes of prompt text, tools and response format; media are not counted
    )
    script: str  # class of the prompt's writing, see ``wire.prompt.text``
    max_output_tokens: int | None  # per choice: the largest cap given; None = the caller gave none
    n: int  # choices that the answer has, over all prompts; 0 = nothing is generated
    body: dict[str, Any]
    service_tier: str | None = None
    has_media: bool = False
    user: str | None = None
    size_bytes: int = 0  # as it came, media included
    longest_bytes: int | None = None  # of prompts that are read one by one; None = all is one

    def __repr__(self) -> str:
        """Nothing of the prompt."""
        return f"ParsedBody(model={self.model!r}, size_bytes={self.size_bytes})"

    @property
    def generates(self) -> bool:
        """The answer has output tokens, and the prompt a place in the replica's prefix cache."""
        return self.n > 0


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What the gateway writes into the body for one attempt. None = the field is left out."""

    upstream_model: str
    cache_salt: str | None = None
    priority: int | None = None  # in the replica's own polarity
    max_tokens_if_absent: int | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)  # the adapter's, win over the caller's


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One server-sent event, or a whole answer that is no stream. The ``raw`` of all frames,
    joined, is what the replica sent byte for byte."""

    raw: bytes
    data: bytes | None = None  # data lines joined by LF; None = no data line
    event: str | None = None
    is_comment: bool = False  # nothing but comment lines


class FrameFacts(msgspec.Struct, frozen=True, gc=False):
    """What one frame means. ``relay`` empty: nothing goes to the caller."""

    relay: bytes
    has_content: bool = False  # non-empty text, reasoning, tool call, refusal or audio
    is_reasoning_only: bool = False  # has content, none of which a person sees as the answer
    finish_reason: str | None = None
    usage: Usage | None = None  # as reported; the last one of a stream counts
    is_done: bool = False
    error: UpstreamError | None = None
    tokens: int = 0  # output tokens received on this attempt so far, this frame included
    gateway_only: bool = False  # only the gateway asked for this frame
    progress_only: bool = False  # prompt progress, before the first token
    acknowledges: bool = False  # says that the call was taken, not that the replica works at it
    next_event: int = 0  # number of the event after this one, where the API numbers them

    @property
    def commits(self) -> bool:
        """Ends the open stage: from here on the call cannot move to another replica."""
        return self.has_content or self.finish_reason is not None


class Splitter(Protocol):
    """Cuts what one replica sends into frames, the same ones for every slicing of the reads."""

    @property
    def pending(self) -> Sized:
        """Bytes that have been fed and are in no frame yet."""
        ...

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that ``chunk`` completes. Raises UpstreamError beyond a bound."""
        ...

    def finish(self) -> list[Frame]:
        """The body has ended: what is left is the last frame."""
        ...


class StreamReader(Protocol):
    """Reads the frames of one attempt, in order."""

    def repeats(self, events: Sequence[bytes], start: int = 0) -> Sequence[str]:
        """The texts of as many events, from ``start`` on, as are the last one but for their text:
        they are read with this, have content, and go to a streaming caller as they came. ``facts``
        reads the next one. What is not one whole event is none of them; so ask only where nothing
        is pending."""
        ...

    def facts(self, frame: Frame) -> FrameFacts:
        """Never raises. After ``error`` the rest of the stream has no meaning. An end marker that
        comes before every choice has finished is an ``error`` too."""
        ...

    @property
    def tokens(self) -> int:
        """Output tokens received: the replica's own running count where it sends one."""
        ...

    @property
    def usage(self) -> Usage | None: ...

    @property
    def finish_reason(self) -> str | None:
        """Of the last choice that finished."""
        ...

    def is_complete(self, *, needs_done: bool = True) -> bool:
        """Every choice has finished and the end marker came (not every replica sends one)."""
        ...


class Aggregator(Protocol):
    """Builds the answer of a caller that did not ask for a stream."""

    def repeat(self, texts: Sequence[str], size_bytes: int) -> bool:
        """Takes events that are the last one but for their text (``StreamReader.repeats``). False:
        that one had more to add, feed them. Raises as ``feed``."""
        ...

    def feed(self, frame: Frame) -> None:
        """Takes frames whose facts carried no error; others change nothing. Raises UpstreamError
        when the answer outgrows its bound."""
        ...

    def result(self, *, service_tier: str | None = None) -> bytes:
        """The JSON body; ``service_tier`` is echoed when given."""
        ...


class Dialect(Protocol):
    @property
    def endpoint(self) -> str:
        """The path below ``/v1/``: ``chat/completions``."""
        ...

    @property
    def accept(self) -> str:
        """The media type in which the replica answers: an event stream, or JSON in one piece."""
        ...

    def parse(self, raw: bytes, bounds: BodyBounds) -> ParsedBody:
        """Raises Rejected(INVALID_REQUEST) with ``param``. Costs time in proportion to ``raw``:
        bodies above 256 KiB belong into a thread."""
        ...

    def upstream_body(self, parsed: ParsedBody, rewrite: Rewrite) -> bytes:
        """Always asks for a stream with usage, whatever the caller asked for; only an endpoint
        that has no streams is asked without."""
        ...

    def splitter(self) -> Splitter: ...

    def reader(self, parsed: ParsedBody, rewrite: Rewrite) -> StreamReader: ...

    def aggregator(self, parsed: ParsedBody) -> Aggregator: ...

    def error_body(self, error: CallError, request_id: str) -> bytes:
        """``request_id`` is the one in the headers of the answer."""
        ...

    def error_event(self, error: CallError, request_id: str, *, next_event: int = 0) -> bytes:
        """The last frame of a broken stream; an end marker never follows it. ``next_event``: its
        number, where the API numbers events."""
        ...
