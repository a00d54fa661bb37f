import base64
import json
import time
from typing import Any

import pytest

from gateway.wire.prompt.text import BYTES_PER_TOKEN_ID, SCRIPTS, script_of
from tests.wire.chat.streams import COMPLETIONS, parsed

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}


def size_of(message: dict[str, Any], **fields: Any) -> int:
    return parsed(messages=[{"role": "user", **message}], **fields).prompt_bytes - len("user")


def test_text_counts_in_bytes_of_utf8() -> None:
    assert size_of({"content": "abc"}) == 3
    assert size_of({"content": "Grüße 世界 🌍"}) == len("Grüße 世界 🌍".encode())
    assert size_of({"content": [{"type": "text", "text": "abc"}, "de"]}) == 5
    assert size_of({"content": None}) == 0


def test_media_never_count_by_their_bytes() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "A" * 9_000, "format": "wav"}}
    document = {"type": "file", "file": {"file_data": "A" * 9_000}}
    for medium in (PICTURE, sound, document):
        content = [medium, {"type": "text", "text": "what is it?"}]
        body = parsed(messages=[{"role": "user", "content": content}])
        assert (body.prompt_bytes, body.has_media) == (len("user") + 11, True)
    assert not parsed().has_media


def test_all_that_a_template_shows_the_model_counts() -> None:
    call = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert size_of({"content": None, "tool_calls": call}) >= len(json.dumps(call)) - 20
    assert size_of({"content": "", "reasoning_content": "hm"}) == 2
    tools = [{"type": "function", "function": {"name": "f", "description": "x" * 500}}]
    assert size_of({"content": ""}, tools=tools) >= 500
    schema = {"type": "json_schema", "json_schema": {"schema": {"title": "x" * 300}}}
    assert size_of({"content": ""}, response_format=schema) >= 300


def test_completions_count_text_and_token_ids() -> None:
    assert parsed(COMPLETIONS, prompt=["abc", "é"]).prompt_bytes == 5
    assert parsed(COMPLETIONS, prompt=[5, 6, 7]).prompt_bytes == 3 * BYTES_PER_TOKEN_ID
    assert parsed(COMPLETIONS, prompt="a", suffix="bc").prompt_bytes >= 3


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", "latin"),
        ("hi", "latin"),
        ("The quick brown fox jumps over the lazy dog. " * 40, "latin"),
        ("Größere Städte führen häufig über längere Wege. " * 20, "latin"),
        ("def f(self) -> None:\n    return self.value\n" * 20, "latin"),
        ("Привет, как дела? " * 40, "two_byte"),
        ("مرحبا بالعالم " * 40, "two_byte"),
        ("你好世界，今天天气很好。" * 40, "cjk"),
        ("こんにちは、世界。" * 30, "cjk"),
        ("안녕하세요 세계 " * 40, "cjk"),
        ("नमस्ते दुनिया " * 40, "other"),
        ("😀🎉🚀" * 100, "dense"),
        (base64.b64encode(bytes(range(256)) * 4).decode(), "dense"),
        ("3141592653589793 " * 50, "dense"),
        (json.dumps([{"id": i, "v": i * 3.14159} for i in range(100)]), "dense"),
    ],
)
def test_script_is_told_from_a_sample(text: str, script: str) -> None:
    assert script in SCRIPTS
    assert script_of(text) == script


def test_script_costs_the_same_for_any_length() -> None:
    text = "word " * 2_000_000
    started = time.process_time()
    for _ in range(100):
        script_of(text)
    assert time.process_time() - started < 0.1
