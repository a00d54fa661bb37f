"""The official ``openai`` client asks for vectors, of simulated replicas and of a real llama.cpp.

It asks for base64 when its caller says nothing, and decodes it itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from tests.e2e.installation import Installation
from tests.e2e.operator import Operator

TEXTS = ["The sea is wide.", "Das Meer ist weit.", "The sea is wide."]


@pytest.fixture(scope="module")
def client(estate: Installation, operator: Operator) -> Iterator[OpenAI]:
    key = estate.key_of("bursty-bikes")
    with OpenAI(base_url=f"{estate.url}/v1", api_key=key, max_retries=0) as it:
        yield it


def test_several_texts_give_as_many_vectors(client: OpenAI, vectors: str) -> None:
    answer = client.embeddings.create(model=vectors, input=TEXTS)
    assert [each.index for each in answer.data] == [0, 1, 2]
    first, second, third = (each.embedding for each in answer.data)
    assert first == pytest.approx(third, abs=1e-5)
    assert first != second
    assert len(first) == len(second) >= 16
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


def test_floats_and_base64_are_the_same_vector(client: OpenAI, vectors: str) -> None:
    asked = client.embeddings.create(model=vectors, input="The sea", encoding_format="float")
    default = client.embeddings.create(model=vectors, input="The sea")
    floats, decoded = asked.data[0].embedding, default.data[0].embedding
    assert decoded == pytest.approx(floats, abs=1e-6)
    raw = client.embeddings.with_raw_response.create(
        model=vectors, input="The sea", encoding_format="base64"
    )
    assert isinstance(raw.http_response.json()["data"][0]["embedding"], str)


def test_the_ledger_has_the_prompt_and_no_output(
    client: OpenAI, vectors: str, operator: Operator
) -> None:
    raw = client.embeddings.with_raw_response.create(model=vectors, input=TEXTS)
    used = raw.parse().usage.prompt_tokens
    record = operator.record_of(raw.headers["x-fairway-call-id"])
    assert (record["prompt_tokens"], record["completion_tokens"]) == (used, 0)
    assert (record["endpoint"], record["outcome"]) == ("embeddings", "completed")
    assert (record["estimated"], record["charge_microcredits"]) == (False, used)


def test_what_is_wrong_with_a_request_is_named(client: OpenAI, vectors: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model=vectors, input=[])
    assert caught.value.param == "input"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model=vectors, messages=[{"role": "user", "content": "x"}])
    assert missing.value.code == "endpoint_not_served"
