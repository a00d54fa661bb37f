"""What does a request to a simulated replica ask for? Parses as vLLM does and refuses as vLLM
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gateway.simulation.engine import Engine, EngineRequest
from gateway.simulation.pseudo_text import TOKEN_BYTES, PseudoPrompt, block_hashes

MOST_CHOICES = 128


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    status: int
    kind: str  # vLLM's error type
    message: str

    def body(self) -> bytes:
        error = {
            "message": self.message,
            "type": self.kind,
            "param": None,
            "code": self.status,
        }
        return msgspec.json.encode({"error": error})


BUSY = Refusal(
    503,
    "Service Unavailable",
    "The engine is currently busy and cannot accept new requests. Please try again later or on a "
    "different instance.",
)


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """``answer`` are the tokens that will be emitted, one by one; ``finish`` is why it ends.
    ``choice`` is its place among the choices of one request, ``others`` are those after the first.
    """

    request: EngineRequest
    model: str
    chat: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    answer: list[bytes]
    finish: str
    choice: int = 0
    choices_per_prompt: int = 1
    others: tuple[SimulatedCall, ...] = ()

    @property
    def answer_id(self) -> str:
        """Is the same of all choices."""
        return self.request.request_id.partition("/")[0]


def parse(raw: bytes, request_id: str, *, chat: bool, model: str, engine: Engine) -> SimulatedCall:
    """Raises Refusal."""
    body = json_object(raw, model)
    n, prompts = _integer(body, "n", 1), _prompts(body, chat=chat)
    if not 1 <= n <= MOST_CHOICES:
        raise bad_request(f"n must be between 1 and {MOST_CHOICES}.")
    if n * len(prompts) == 1:
        return _call(body, request_id, chat=chat, model=model, engine=engine)
    calls = [
        _call(body | prompt, f"{request_id}/{place}", chat=chat, model=model, engine=engine)
        for place, prompt in enumerate(prompt for prompt in prompts for _ in range(n))
    ]
    first, *others = (replace(call, choice=place) for place, call in enumerate(calls))
    return replace(first, choices_per_prompt=n, others=tuple(others))


def _prompts(body: Mapping[str, Any], *, chat: bool) -> list[dict[str, Any]]:
    """What to put into the body for each of them."""
    prompt = body.get("prompt")
    if chat or not isinstance(prompt, list) or isinstance(next(iter(prompt), 0), int):
        return [{}]
    return [{"prompt": each} for each in prompt]


def _call(
    body: dict[str, Any], request_id: str, *, chat: bool, model: str, engine: Engine
) -> SimulatedCall:
    text = _chat_text(body) if chat else _completion_text(body)
    prompt = PseudoPrompt(text, str(body.get("cache_salt", "")).encode())
    wanted, limit = _lengths(body, prompt, engine)
    output_tokens = min(wanted, limit)
    answer = prompt.answer(output_tokens)
    hashes = block_hashes(prompt.salt, text + b"".join(answer), engine.config.block_tokens)
    options = body.get("stream_options") or {}
    return SimulatedCall(
        request=EngineRequest(request_id, prompt.tokens, output_tokens, hashes),
        model=model,
        chat=chat,
        stream=body.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        continuous_usage=options.get("continuous_usage_stats") is True,
        answer=answer,
        finish="stop" if wanted <= limit else "length",
    )


def _lengths(body: Mapping[str, Any], prompt: PseudoPrompt, engine: Engine) -> tuple[int, int]:
    """(tokens the model would write, tokens it may write)."""
    context = engine.config.context_tokens
    room = context - prompt.tokens
    if room < 1 or not engine.fits(prompt.tokens, 1):
        raise bad_request(
            f"This model's maximum context length is {context} tokens. However, your request has "
            f"{prompt.tokens} input tokens. Please reduce the length of the input messages."
        )
    caps = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name)]
    if any(not isinstance(cap, int) for cap in caps) or body.get("max_tokens") == 0:
        raise bad_request("max_tokens must be at least 1.")
    limit = min([*caps, room])
    if limit < 1 or not engine.fits(prompt.tokens, limit):
        raise bad_request(f"max_tokens must be between 1 and {room}.")
    if body.get("ignore_eos") is True:
        return limit + 1, limit
    return max(prompt.wanted_tokens, _integer(body, "min_tokens", 0)), limit


def json_object(raw: bytes, model: str) -> dict[str, Any]:
    """A body that asks for this model. Raises Refusal."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_request("The request body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise bad_request("The request body is not an object.")
    if body.get("model", model) != model:
        raise Refusal(404, "NotFoundError", f"The model `{body['model']}` does not exist.")
    return body


def _chat_text(body: Mapping[str, Any]) -> bytes:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages must be a list that is not empty.")
    parts = [msgspec.json.encode(body["tools"]).decode()] if body.get("tools") else []
    for message in messages:
        if not isinstance(message, dict):
            raise bad_request("a message must be an object.")
        parts.append(f"<|{message.get('role')}|>\n{_content(message.get('content'))}<|end|>\n")
    return ("".join(parts) + "<|assistant|>\n").encode()


def _content(content: object) -> str:
    if isinstance(content, list):
        texts = [part.get("text", "") for part in content if isinstance(part, dict)]
        return "".join(map(str, texts))
    return content if isinstance(content, str) else ""


def _completion_text(body: Mapping[str, Any]) -> bytes:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return token_bytes(prompt)
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str) or not prompt:
        raise bad_request("a prompt must be one text or one list of tokens.")
    return prompt.encode()


def token_bytes(tokens: Iterable[int]) -> bytes:
    return b"".join((token % 2**32).to_bytes(TOKEN_BYTES, "big") for token in tokens)


def _integer(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int):
        raise bad_request(f"{name} must be an integer.")
    return value


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequestError", message)
