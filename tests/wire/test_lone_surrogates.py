from __future__ import annotations

import pytest

from gateway.core.errors import Rejected
from gateway.wire import DIALECTS
from gateway.wire.dialect import BodyBounds
from gateway.wire.lone_surrogates import field_with_lone_surrogate

TEXT = r"a\ud800"
PLACES = {
    "/v1/chat/completions": ("messages[0].content", '{"messages":[{"role":"user","content":"@"}]'),
    "/v1/messages": (
        "messages[0].content[0].text",
        '{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"@"}]}]',
    ),
    "/v1/responses": ("input", '{"input":"@"'),
    "/v1/embeddings": ("input[1]", '{"input":["x","@"]'),
    "/v1/completions": ("prompt", '{"prompt":"@"'),
}


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("text", [TEXT, r"\udc00", r"\ud800A", r"\udfff\ud800", r"😀\uD83D"])
def test_the_field_with_half_of_a_character_is_named(path: str, text: str) -> None:
    field, body = PLACES[path]
    raw = (body.replace("@", text) + ',"model":"m"}').encode()
    with pytest.raises(Rejected, match="half of a character") as caught:
        DIALECTS[path].parse(raw, BodyBounds())
    assert (caught.value.status, caught.value.param) == (400, field)
    caught.value.message.encode()


@pytest.mark.parametrize("whole", [r"\ud83d\ude00", r"\\ud800", "plain"])
def test_whole_characters_and_escaped_backslashes_are_none(whole: str) -> None:
    assert field_with_lone_surrogate(f'{{"a":"{whole}"}}'.encode()) is None


def test_a_name_that_has_one_is_not_repeated() -> None:
    assert field_with_lone_surrogate(rb'{"a":{"\ud800":"x"}}') == "a"
    assert field_with_lone_surrogate(rb'{"\ud800":"x"}') == ""


def test_what_is_no_json_either_has_no_field() -> None:
    assert field_with_lone_surrogate(rb'{"a":"\ud800"') is None
    assert field_with_lone_surrogate(b"[" * 100_000 + rb'"\ud800"') is None


def test_a_path_is_cut_where_names_are_long() -> None:
    long = "x" * 100_000
    field = field_with_lone_surrogate(f'{{"{long}":{{"{long}":["\\ud800"]}}}}'.encode())
    assert field == "x" * 200
