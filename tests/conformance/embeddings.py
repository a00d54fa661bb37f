"""POST /v1/embeddings"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

from tests.conformance.checks import Dialect
from tests.conformance.errors import openai_error
from tests.conformance.server import Answer, Server, expect, expect_equal

PATH = "/v1/embeddings"
NEAR = 1e-3  # the largest difference of a component


def model(server: Server) -> str:
    return server.embedding_model or server.model


def body(server: Server, **fields: Any) -> dict[str, Any]:
    return {"model": model(server), "input": "The sea", **fields}


async def ask(server: Server, **fields: Any) -> Answer:
    return await server.post(PATH, body(server, **fields))


EMBEDDINGS = Dialect("embeddings", ask, [], model)


@EMBEDDINGS.check
async def one_input_has_one_vector(server: Server) -> None:
    told = (await ask(server)).fine()
    expect_equal(told["object"], "list", "`object`")
    (one,) = told["data"]
    expect_equal((one["object"], one["index"]), ("embedding", 0), "`object`, `index`")
    expect(one["embedding"] and all(isinstance(x, float | int) for x in one["embedding"]), "vector")
    usage = told["usage"]
    expect_equal(usage["total_tokens"], usage["prompt_tokens"], "`usage.total_tokens`")


@EMBEDDINGS.check
async def many_inputs_keep_their_order(server: Server) -> None:
    texts = ["The sea is wide.", "Nine mountains of snow and iron"]
    alone = [(await ask(server, input=text)).fine()["data"][0]["embedding"] for text in texts]
    told = (await ask(server, input=texts)).fine()["data"]
    expect_equal([one["index"] for one in told], [0, 1], "`index`")
    for place, one in enumerate(told):
        own, other = (_apart(one["embedding"], alone[at]) for at in (place, 1 - place))
        expect(own < other, f"vector {place} is not that of input {place}")


@EMBEDDINGS.check
async def base64_holds_the_same_numbers(server: Server) -> None:
    numbers = (await ask(server)).fine()["data"][0]["embedding"]
    told = (await ask(server, encoding_format="base64")).fine()["data"][0]["embedding"]
    raw = base64.b64decode(told, validate=True)
    expect_equal(len(raw), 4 * len(numbers), "the length of the decoded bytes")
    decoded = struct.unpack(f"<{len(numbers)}f", raw)
    apart = _apart(decoded, numbers)
    expect(apart <= NEAR, f"{apart:.3g} apart")


@EMBEDDINGS.check
async def a_missing_input_is_400(server: Server) -> None:
    asked = body(server)
    del asked["input"]
    openai_error(await server.post(PATH, asked), 400, param="input")


@EMBEDDINGS.check
async def an_unknown_model_is_404(server: Server) -> None:
    openai_error(await ask(server, model="no-such-model"), 404)


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(x - y) for x, y in zip(one, other, strict=True))
