import json
from typing import Any

from gateway.wire.dialect import ParsedBody, Rewrite
from tests.wire.chat.streams import CHAT, COMPLETIONS, parsed


def sent(body: ParsedBody, **rewrite: Any) -> Any:
    return json.loads(CHAT.upstream_body(body, Rewrite("up", **rewrite)))


def test_every_call_asks_for_a_stream_with_usage() -> None:
    """G8"""
    for fields in ({}, {"stream": False}, {"stream_options": {"include_usage": False}}):
        body = sent(parsed(**fields))
        assert body["stream"] is True
        assert body["stream_options"]["include_usage"] is True


def test_model_salt_and_priority_are_the_gateways() -> None:
    """R33: a salt of the caller's own choice never arrives."""
    body = parsed(cache_salt="mine", priority=-1000)
    own = sent(body)
    assert own["model"] == "up"
    assert "cache_salt" not in own
    assert "priority" not in own
    told = sent(body, cache_salt="s", priority=3)
    assert (told["cache_salt"], told["priority"]) == ("s", 3)


def test_cap_is_added_only_where_the_replica_needs_one() -> None:
    assert "max_tokens" not in sent(parsed())
    assert sent(parsed(), max_tokens_if_absent=99)["max_tokens"] == 99
    assert sent(parsed(max_tokens=5), max_tokens_if_absent=99)["max_tokens"] == 5
    assert sent(parsed(max_completion_tokens=7), max_tokens_if_absent=99)["max_tokens"] == 7
    assert sent(parsed(max_tokens=None), max_tokens_if_absent=99)["max_tokens"] == 99


def test_extras_of_the_adapter_are_merged() -> None:
    options = {"include_obfuscation": False, "vendor": 1}
    extras = {"timings_per_token": True, "stream_options": {"continuous_usage_stats": True}}
    body = sent(parsed(stream_options=options, timings_per_token=False), extras=extras)
    assert body["timings_per_token"] is True
    assert body["stream_options"] == {
        **options,
        "continuous_usage_stats": True,
        "include_usage": True,
    }


def test_parsed_body_is_not_changed() -> None:
    body = parsed()
    before = json.dumps(body.body)
    sent(body, cache_salt="s", max_tokens_if_absent=5)
    assert json.dumps(body.body) == before


def test_completions_are_rewritten_alike() -> None:
    raw = COMPLETIONS.upstream_body(parsed(COMPLETIONS), Rewrite("up"))
    assert json.loads(raw) == {
        "model": "up",
        "prompt": "hi",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
