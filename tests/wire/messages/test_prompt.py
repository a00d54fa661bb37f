"""The text by which the prefix caches know a Messages request."""

from __future__ import annotations

import json
from typing import Any

from gateway.wire.prompt.canonical import CanonicalPrompt, canonical_prompt
from tests.wire.messages.streams import parsed

MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS: list[dict[str, Any]] = [
    {"name": "weather", "input_schema": {"type": "object"}},
    {"name": "time"},
]
IMAGE = {"type": "image", "source": {"type": "base64", "data": "A" * 999}}
USE: dict[str, Any] = {
    "type": "tool_use",
    "id": "t1",
    "name": "weather",
    "input": {"place": "Graz"},
}
RESULT: dict[str, Any] = {
    "type": "tool_result",
    "tool_use_id": "t1",
    "content": "It is sunny. " * 50,
}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "S" * 400}


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def canonical(tools_first: bool = True, **fields: Any) -> CanonicalPrompt:
    return canonical_prompt(parsed(**fields).body, tools_first=tools_first)


def conversation(*turns: Any) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": said} for n, said in enumerate(turns)]


def test_tools_and_system_stand_where_the_template_puts_them() -> None:
    for tools_first in (True, False):
        read = canonical(tools_first, system="sys", tools=TOOLS).text
        places = [read.index(word) for word in ("weather", "\x1dsystem\x1fsys", "\x1euser\x1fhi")]
        assert places[2] == max(places)
        assert (places[0] < places[1]) is tools_first


def test_system_and_messages_in_blocks_read_as_their_text() -> None:
    plain = canonical(system="ab", messages=conversation("hi"))
    blocks = canonical(system=[text("a"), text("b")], messages=conversation([text("hi")]))
    assert plain.text == blocks.text


def test_the_next_turn_begins_with_the_last_one_wherever_the_mark_stands() -> None:
    """Callers mark the last block of each turn, so the marks of earlier turns are gone."""
    first = conversation([text("hi", **MARK)])
    second = conversation([text("hi")], [THOUGHT, USE], [{**RESULT, **MARK}])
    third = conversation([text("hi")], [THOUGHT, USE], [RESULT], "done", [text("more", **MARK)])
    system = [text("sys", **MARK)]
    marked_tools = [*TOOLS[:1], {**TOOLS[1], **MARK}]
    read = [
        canonical(system=system, tools=tools, messages=messages)
        for tools, messages in ((marked_tools, first), (TOOLS, second), (marked_tools, third))
    ]
    assert read[1].text.startswith(read[0].text)
    assert read[2].text.startswith(read[1].text)
    assert [each.marked for each in read] == [len(each.text) for each in read]


def test_calls_of_tools_and_their_results_count_at_their_length() -> None:
    read = canonical(messages=conversation("hi", [USE], [RESULT])).text
    assert RESULT["content"] in read
    assert json.dumps(USE["input"], separators=(",", ":")) in read
    nested = {**RESULT, "content": [text("It is "), IMAGE, text("sunny.")]}
    assert len(canonical(messages=conversation("hi", [USE], [nested])).text) < 200


def test_pictures_stand_as_what_they_are_whether_marked_or_not() -> None:
    picture, marked = (
        canonical(messages=conversation([block])) for block in (IMAGE, {**IMAGE, **MARK})
    )
    other = canonical(messages=conversation([{**IMAGE, "source": {"type": "url", "url": "x"}}]))
    assert picture.text == marked.text != other.text
    assert (picture.marked, marked.marked) == (0, len(marked.text))


def test_different_prompts_read_differently() -> None:
    said = [
        canonical(messages=conversation("hi", [USE])),
        canonical(messages=conversation("hi", [{**USE, "name": "time"}])),
        canonical(messages=conversation("hi", [{**USE, "input": {}}])),
        canonical(messages=conversation("hi", [text('weather{"place":"Graz"}')])),
        canonical(messages=conversation("hi", [{**RESULT, "content": 'weather{"place":"Graz"}'}])),
        canonical(messages=conversation("hi"), system="x"),
        canonical(messages=conversation("hi"), system=[text("y")]),
    ]
    assert len({each.text for each in said}) == len(said)
