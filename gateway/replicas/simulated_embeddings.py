"""Vectors of a simulated replica: they depend on the text alone, have length 1, and mean nothing.

The engine reads the prompts as one prefill without a prefix cache and emits one token, at which
the answer is ready. Each input must fit the context, all together need not: what goes beyond it
costs the engine nothing.
"""

from __future__ import annotations

import base64
import hashlib
import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.replicas.simulated_call import bad_request, json_object, token_bytes
from gateway.simulation.engine import Engine, EngineRequest
from gateway.simulation.pseudo_text import PseudoPrompt

DIMENSIONS = 64
MAX_DIMENSIONS = 4_096


@dataclass(frozen=True, slots=True)
class SimulatedEmbeddings:
    request: EngineRequest
    model: str
    inputs: list[bytes]
    dimensions: int
    as_base64: bool

    def answer(self) -> bytes:
        data = [
            {"object": "embedding", "index": index, "embedding": self._vector(text)}
            for index, text in enumerate(self.inputs)
        ]
        tokens = sum(PseudoPrompt(text, b"").tokens for text in self.inputs)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return msgspec.json.encode(
            {"object": "list", "data": data, "model": self.model, "usage": usage}
        )

    def _vector(self, text: bytes) -> list[float] | str:
        values = vector(text, self.dimensions)
        return base64.b64encode(values.tobytes()).decode() if self.as_base64 else list(values)


def vector(text: bytes, dimensions: int) -> array[float]:
    """Little-endian 32-bit floats on the machines this runs on."""
    noise = hashlib.shake_128(text).digest(2 * dimensions)
    whole = [int.from_bytes(noise[at : at + 2], "big") - 32_767.5 for at in range(0, len(noise), 2)]
    length = math.sqrt(sum(value * value for value in whole))
    return array("f", (value / length for value in whole))


def parse_embeddings(
    raw: bytes, request_id: str, *, model: str, engine: Engine
) -> SimulatedEmbeddings:
    """Raises Refusal."""
    body = json_object(raw, model)
    inputs = _inputs(body)
    context = engine.config.context_tokens
    tokens = [PseudoPrompt(text, b"").tokens for text in inputs]
    if max(tokens) > context:
        raise bad_request(f"This model's maximum context length is {context} tokens.")
    dimensions = body.get("dimensions") or DIMENSIONS
    if not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise bad_request(f"dimensions must be between 1 and {MAX_DIMENSIONS}.")
    return SimulatedEmbeddings(
        request=EngineRequest(request_id, min(sum(tokens), context - 1), 1),
        model=model,
        inputs=inputs,
        dimensions=dimensions,
        as_base64=body.get("encoding_format") == "base64",
    )


def _inputs(body: Mapping[str, Any]) -> list[bytes]:
    given = body.get("input")
    if isinstance(given, list) and given and all(isinstance(token, int) for token in given):
        given = [given]
    found: list[Any] = given if isinstance(given, list) else [given]
    if not found or not all(isinstance(each, str | list) and each for each in found):
        raise bad_request("input must be texts or lists of tokens that are not empty.")
    return [each.encode() if isinstance(each, str) else token_bytes(each) for each in found]
