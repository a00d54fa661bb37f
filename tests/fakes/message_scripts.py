"""What a scripted replica says on ``/v1/messages``."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.scripts import Script, Send, Step, Wait

PATH = "/v1/messages"


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def begun(prompt: int = 10, cached: int = 0) -> bytes:
    usage = {
        "input_tokens": prompt - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": 0,
    }
    message: dict[str, Any] = {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return event("message_start", message=message)


def opened(index: int = 0, kind: str = "text", **fields: Any) -> bytes:
    block = {"type": kind, **(fields or {"text": ""})}
    return event("content_block_start", index=index, content_block=block)


def said(text: str, index: int = 0) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return event("content_block_delta", index=index, delta=delta)


def put_in(piece: str, index: int = 0) -> bytes:
    delta = {"type": "input_json_delta", "partial_json": piece}
    return event("content_block_delta", index=index, delta=delta)


def shut(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def ended(output: int, reason: str = "end_turn") -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage={"output_tokens": output})


STOP = event("message_stop")


def message(
    count: int = 3,
    *,
    ttft_s: float = 0.0,
    gap_s: float = 0.0,
    prompt: int = 10,
    cached: int = 0,
) -> Script:
    """An ordinary stream: beginning, ``count`` tokens of one text, end."""
    steps: list[Step] = [Send(begun(prompt, cached)), Send(opened())]
    for index in range(count):
        pause_s = gap_s if index else ttft_s
        steps += [Wait(pause_s)] if pause_s else []
        steps.append(Send(said(f"t{index} ")))
    return Script((*steps, Send(shut()), Send(ended(count)), Send(STOP)))


def tool_call() -> Script:
    """A text, then the call of a tool whose input comes in three pieces."""
    steps = (
        begun(),
        opened(),
        said("Let me look."),
        shut(),
        opened(1, "tool_use", id="toolu_1", name="weather", input={}),
        put_in("", 1),
        put_in('{"pla', 1),
        put_in('ce": "Graz"}', 1),
        shut(1),
        ended(9, "tool_use"),
        STOP,
    )
    return Script(tuple(map(Send, steps)))
