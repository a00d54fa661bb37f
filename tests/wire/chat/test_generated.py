import json
import random

from gateway.core.errors import UpstreamError
from gateway.wire.dialect import Frame, ParsedBody, Rewrite
from tests.wire.chat.streams import CHAT, HELLO, USAGE, chunk, delta, event, frames, parsed
from tests.wire.chat.test_reader import CONTENT, HIDDEN

PIECES: list[bytes] = [
    *(event(delta(**fields)) for fields in CONTENT.values()),
    *HIDDEN.values(),
    *(event(item) for item in (delta("stop"), chunk(usage=USAGE), "[DONE]", HELLO, "null", "")),
    event({"choices": [1, None, [], "x", {}]}),
    event({"choices": [{"delta": "x"}, {"delta": {"tool_calls": "x"}}]}),
    event({"choices": 5}),
    event({"choices": [{"index": 10**30, "text": ["a"]}]}),
    event('{"choices":[{"delta":{"content":' + "[" * 2000),
    event('{"choices":[{"x":' + "[" * 900 + "]" * 900 + "}]}"),
    event('{"usage":{"completion_tokens":' + "9" * 5000 + "}}"),
    b'data: {"z":"\xff","choices":[{"delta":{"content":"a"}}]}\n\n',
    b"data: \x00\n\n",
    b"\xef\xbb\xbf",
    b"data: {\n",
    b"\r\n",
    b"event: error\n",
]


def test_twenty_thousand_generated_streams_never_raise_unhandled() -> None:
    """G9, row 44: arbitrary events, mutated and cut; only UpstreamError leaves the aggregator."""
    rng = random.Random(44)
    body = parsed(n=2)
    for _ in range(20_000):
        raw = bytearray(b"".join(rng.choices(PIECES, k=rng.randint(1, 6))))
        for _ in range(rng.randint(0, 2)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        end = rng.randint(1, len(raw))
        _read_all(frames(bytes(raw[:end])), body)


def _read_all(found: list[Frame], body: ParsedBody) -> None:
    reader, aggregator = CHAT.reader(body, Rewrite("m")), CHAT.aggregator(body)
    for frame in found:
        facts = reader.facts(frame)
        assert facts.relay == b"" or facts.error is None
        try:
            if facts.error is None:
                aggregator.feed(frame)
        except UpstreamError:
            return
    json.loads(aggregator.result())
