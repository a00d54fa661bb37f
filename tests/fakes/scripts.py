"""What a scripted replica says: answers as data, the same for the socket and the in-process form.

A script is a status, headers and steps. ``Send`` is one chunk on the wire, ``Wait`` is seconds of
the running loop (virtual or real), ``Hang`` lasts until the peer leaves, ``Cut`` ends the
connection without the end of the body.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Send:
    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    pass


@dataclass(frozen=True, slots=True)
class Cut:
    reset: bool = False  # RST instead of FIN


Step = Send | Wait | Hang | Cut


@dataclass(frozen=True, slots=True)
class Script:
    """``headers_after`` are steps before the response headers; ``refused`` is a closed port."""

    steps: tuple[Step, ...] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/event-stream"),)
    headers_after: tuple[Step, ...] = ()
    chunked: bool = True  # otherwise the end of the connection is the end of the body
    refused: bool = False
    interim: int = 0  # answers "100 Continue" before the real one, over a socket

    def later(self, seconds: float) -> Script:
        """The same, its headers this much later."""
        return replace(self, headers_after=(Wait(seconds), *self.headers_after))


DONE = b"data: [DONE]\n\n"


def event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event(_envelope() | {"choices": [choice]})


def usage_chunk(prompt: int = 10, completion: int = 1, cached: int = 0) -> bytes:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return event(_envelope() | {"choices": [], "usage": usage})


def _envelope() -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
    }


ROLE = chunk(role="assistant", content="")


def ending(completion: int, prompt: int = 10, cached: int = 0, finish: str = "stop") -> list[Step]:
    return [Send(chunk(finish)), Send(usage_chunk(prompt, completion, cached)), Send(DONE)]


def tokens(
    count: int = 3,
    *,
    ttft_s: float = 0.0,
    gap_s: float = 0.0,
    prompt: int = 10,
    cached: int = 0,
) -> Script:
    """An ordinary stream: role, ``count`` tokens, finish, usage, [DONE]."""
    steps: list[Step] = [Send(ROLE)]
    for index in range(count):
        pause_s = ttft_s if index == 0 else gap_s
        steps += [Wait(pause_s)] if pause_s else []
        steps.append(Send(chunk(content=f"t{index} ")))
    return Script((*steps, *ending(count, prompt, cached)))


def eight_tokens_in_one_chunk() -> Script:
    text = " ".join(f"t{index}" for index in range(8))
    return Script((Send(ROLE), Send(chunk(content=text)), *ending(8)))


def role_only_then(pause_s: float, count: int = 2) -> Script:
    """The role chunk comes at once, the first token only after ``pause_s``."""
    return tokens(count, ttft_s=pause_s)


def reasoning_then_text(pause_s: float = 0.0) -> Script:
    return Script(
        (
            Send(ROLE),
            Send(chunk(reasoning_content="let me think")),
            Wait(pause_s),
            Send(chunk(content="answer")),
            *ending(2),
        )
    )


def tool_call() -> Script:
    first = {"index": 0, "id": "call_1", "type": "function"}
    opened = first | {"function": {"name": "weather", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": '{"city":"Graz"}'}}
    return Script(
        (
            Send(ROLE),
            Send(chunk(tool_calls=[opened])),
            Send(chunk(tool_calls=[rest])),
            *ending(5, finish="tool_calls"),
        )
    )


def empty_answer() -> Script:
    return Script((Send(ROLE), *ending(0)))


def cut_after(count: int, *, reset: bool = False) -> Script:
    """``count`` tokens, then the connection ends inside the chunked body."""
    sent = tokens(count).steps[: count + 1]
    return Script((*sent, Cut(reset)))


def ends_without_done(count: int = 2) -> Script:
    """A clean end of the body after ``count`` tokens: no finish reason, no [DONE]."""
    return Script(tokens(count).steps[: count + 1], chunked=False)


def hang_before_headers() -> Script:
    return Script(headers_after=(Hang(),))


def hang_after(count: int) -> Script:
    return Script((*tokens(count).steps[: count + 1], Hang()))


def cut_before_headers(*, reset: bool = True) -> Script:
    return Script(headers_after=(Cut(reset),))


def error_in_200() -> Script:
    """A JSON error object under status 200."""
    body = b'{"error":{"message":"engine dead","type":"server_error","code":500}}'
    return Script((Send(body),), headers=(("Content-Type", "application/json"),))


def error_event_first() -> Script:
    return Script((Send(event({"error": {"message": "engine dead", "code": 500}})),))


def garbage() -> Script:
    return Script((Send(b"\x00\xff\xfe not an event\r\r\n\n: x\ndata: {broken\n\n"),))


def endless_line(total_bytes: int) -> Script:
    part = b"x" * 65_536
    return Script((Send(b"data: "), *(Send(part) for _ in range(total_bytes // len(part)))))


def slow_slices(script: Script, size: int = 1, pause_s: float = 0.0) -> Script:
    """The same bytes in pieces of ``size`` bytes."""
    whole = b"".join(step.data for step in script.steps if isinstance(step, Send))
    steps: list[Step] = []
    for at in range(0, len(whole), size):
        steps.append(Send(whole[at : at + size]))
        steps += [Wait(pause_s)] if pause_s else []
    return replace(script, steps=tuple(steps))


def status(code: int, *, retry_after: str | None = None, body: bytes | None = None) -> Script:
    said = (
        json.dumps({"error": {"message": f"status {code}", "code": code}}).encode()
        if body is None
        else body
    )
    headers = [("Content-Type", "application/json")]
    headers += [("Retry-After", retry_after)] if retry_after is not None else []
    return Script((Send(said),), status=code, headers=tuple(headers))


def html_error(code: int = 200) -> Script:
    page = b"<html><body><h1>It works!</h1></body></html>"
    return Script((Send(page),), status=code, headers=(("Content-Type", "text/html"),))


def redirect(location: str, code: int = 307) -> Script:
    return Script(status=code, headers=(("Location", location),))


def compressed(body: bytes, encoding: str = "gzip") -> Script:
    headers = (("Content-Type", "text/event-stream"), ("Content-Encoding", encoding))
    return Script((Send(body),), headers=headers)


def plain(body: bytes, content_type: str = "text/plain", code: int = 200) -> Script:
    return Script((Send(body),), status=code, headers=(("Content-Type", content_type),))


def refused() -> Script:
    return Script(refused=True)


def metrics(running: int = 0, waiting: int = 0, kv_ratio: float = 0.0) -> Script:
    """A scrape under vLLM's names."""
    return plain(
        b"vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n"
        b"vllm:kv_cache_usage_perc %f\n" % (running, waiting, kv_ratio)
    )


HEALTHY = plain(b"")
