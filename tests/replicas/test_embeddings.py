"""What every kind of replica must do at ``embeddings``, asked of the simulated and the real
one.
"""

from __future__ import annotations

import array
import base64
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.upstream import ReplicaTarget
from gateway.wire.dialect import BodyBounds, Rewrite
from gateway.wire.embeddings.dialect import EMBEDDINGS
from gateway.wire.headers import to_replica
from tests.fakes.scripted_replica import ScriptedReplica
from tests.fakes.scripts import html_error, tokens
from tests.replicas.calls import BOTH, SHORT, chunks, either, target

PATH = "/v1/embeddings"


@dataclass(frozen=True)
class Subject:
    target: ReplicaTarget
    upstream: HttpUpstream

    async def embed(self, given: Any, **fields: Any) -> tuple[dict[str, Any], int]:
        """The answer and its prompt tokens, read as the gateway reads it."""
        body = {"model": "m", "input": given, **fields}
        parsed = EMBEDDINGS.parse(msgspec.json.encode(body), BodyBounds())
        rewrite = Rewrite("m", extras={"timings_per_token": True}, max_tokens_if_absent=5)
        sent = EMBEDDINGS.upstream_body(parsed, rewrite)
        reader, splitter = EMBEDDINGS.reader(parsed, rewrite), EMBEDDINGS.splitter()
        headers = to_replica({}, "call", EMBEDDINGS.accept)
        async with self.upstream.stream(self.target, PATH, sent, headers, SHORT) as stream:
            async for chunk in chunks(stream):
                assert splitter.feed(chunk) == []
        (frame,) = splitter.finish()
        facts = reader.facts(frame)
        assert facts.error is None
        assert reader.is_complete()
        assert facts.usage is not None
        answer: dict[str, Any] = msgspec.json.decode(facts.relay)
        assert facts.usage.input_tokens == answer["usage"]["prompt_tokens"]
        return answer, facts.usage.input_tokens


@pytest.fixture(params=BOTH)
async def subject(request: pytest.FixtureRequest, upstream: HttpUpstream) -> AsyncIterator[Subject]:
    async with either(request, "embedding_server") as to:
        yield Subject(to, upstream)


def vectors(answer: Mapping[str, Any]) -> list[list[float]]:
    assert [each["index"] for each in answer["data"]] == list(range(len(answer["data"])))
    return [each["embedding"] for each in answer["data"]]


async def test_equal_texts_have_equal_vectors_of_length_one(subject: Subject) -> None:
    answer, tokens_of_both = await subject.embed(["the sea", "the sea"])
    first, second = vectors(answer)
    assert first == pytest.approx(second, abs=1e-5)
    assert sum(value * value for value in first) == pytest.approx(1.0, abs=1e-3)
    _, tokens_of_one = await subject.embed("the sea")
    assert tokens_of_both == 2 * tokens_of_one


async def test_base64_is_the_same_vector_as_the_list(subject: Subject) -> None:
    floats, _ = await subject.embed("the sea", encoding_format="float")
    text, _ = await subject.embed("the sea", encoding_format="base64")
    packed = array.array("f", base64.b64decode(text["data"][0]["embedding"]))
    assert list(packed) == pytest.approx(vectors(floats)[0], abs=1e-6)


async def test_token_ids_are_one_or_several_inputs(subject: Subject) -> None:
    one, _ = await subject.embed([1, 2, 3])
    several, _ = await subject.embed([[1, 2, 3], [4]])
    assert (len(vectors(one)), len(vectors(several))) == (1, 2)


async def test_an_input_that_is_too_long_is_refused_in_the_servers_words(subject: Subject) -> None:
    with pytest.raises(UpstreamError) as caught:
        await subject.embed("word " * 9_000)
    assert caught.value.reason in (Reason.UPSTREAM_REFUSED, Reason.UPSTREAM_ERROR)


async def test_a_hundred_calls_leave_nothing_open(subject: Subject) -> None:
    for number in range(100):
        _, used = await subject.embed(f"text {number}")
        assert used > 0


@pytest.mark.parametrize("script", [tokens(2), html_error()])
async def test_another_media_type_than_was_asked_for_is_no_answer(
    upstream: HttpUpstream, replica: ScriptedReplica, script: Any
) -> None:
    replica.next(script)
    with pytest.raises(UpstreamError) as caught:
        await Subject(target(replica.url), upstream).embed("x")
    assert caught.value.reason is Reason.UPSTREAM_ERROR
    assert replica.calls[0].headers["accept"] == "application/json"
