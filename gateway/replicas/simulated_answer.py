"""How does a simulated replica write its answer? The JSON of vLLM's chat and text completions.

The parts of a stream's chunk that do not change are built once per call: a chunk is then three
pieces of bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.replicas.simulated_call import SimulatedCall

DONE = b"data: [DONE]\n\n"
_MARK = "\x00"


class AnswerWriter:
    def __init__(self, call: SimulatedCall, created_at: int) -> None:
        self._call = call
        self._created_at = created_at
        self._before, self._after = self._split()

    def opening(self) -> bytes:
        """The chunk before the first token: the role, in a chat."""
        if not self._call.chat:
            return b""
        return self._chunk({"delta": {"role": "assistant", "content": ""}, "finish_reason": None})

    def token(self, number: int, cached_tokens: int) -> bytes:
        text = self._call.answer[number - 1]
        if not self._call.continuous_usage:
            return self._before + text + self._after
        content = text.decode()
        piece = {"delta": {"content": content}} if self._call.chat else {"text": content}
        return self._chunk(piece | {"finish_reason": None}, self.usage(number, cached_tokens))

    def closing(self, number: int, cached_tokens: int) -> bytes:
        """Finish reason, usage when it was asked for, [DONE]."""
        piece: dict[str, Any] = {"delta": {}} if self._call.chat else {"text": ""}
        closing = self._chunk(piece | {"finish_reason": self._call.finish})
        if self._call.include_usage:
            usage = self.usage(number, cached_tokens)
            closing += event(self.envelope() | {"choices": [], "usage": usage})
        return closing + DONE

    def whole(self, cached_tokens: int) -> bytes:
        """The answer of a call without a stream."""
        text = b"".join(self._call.answer).decode()
        choice: dict[str, Any] = {
            "index": self._call.choice,
            "logprobs": None,
            "finish_reason": self._call.finish,
        }
        if self._call.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        answer = self.envelope() | {
            "choices": [choice],
            "usage": self.usage(len(self._call.answer), cached_tokens),
        }
        answer["object"] = "chat.completion" if self._call.chat else "text_completion"
        return msgspec.json.encode(answer)

    def usage(self, completion_tokens: int, cached_tokens: int) -> dict[str, Any]:
        prompt_tokens = self._call.request.prompt_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        }

    def _split(self) -> tuple[bytes, bytes]:
        piece: dict[str, Any] = (
            {"delta": {"content": _MARK}} if self._call.chat else {"text": _MARK}
        )
        before, after = self._chunk(piece | {"finish_reason": None}).split(b"\\u0000")
        return before, after

    def _chunk(self, piece: dict[str, Any], usage: dict[str, Any] | None = None) -> bytes:
        choice = {"index": self._call.choice, "logprobs": None} | piece
        extra = {} if usage is None else {"usage": usage}
        return event(self.envelope() | {"choices": [choice]} | extra)

    def envelope(self) -> dict[str, Any]:
        return {
            "id": self._call.answer_id,
            "object": "chat.completion.chunk" if self._call.chat else "text_completion",
            "created": self._created_at,
            "model": self._call.model,
            "system_fingerprint": "simulated",
        }


def event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
