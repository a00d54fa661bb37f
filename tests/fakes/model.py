"""A model for the scripted replica that answers what was asked for, without any timing.

Four bytes are a token, an answer has exactly ``max_tokens`` tokens, a prompt that was seen is
cached as a whole. What a test asserts of real servers in ``tests/replicas/test_contract.py``
holds here too, which keeps this fake honest.
"""

from __future__ import annotations

import json

from tests.fakes import scripts
from tests.fakes.scripts import DONE, ROLE, Script, Send, Step, chunk, plain, usage_chunk

CONTEXT_TOKENS = 4_096
MODELS = plain(
    json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}).encode(),
    "application/json",
)


class FakeModel:
    """Give it to ``running(default=FakeModel())``."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, body: bytes) -> Script:
        try:
            asked = json.loads(body)
            text = json.dumps(asked.get("messages") or asked["prompt"])
        except (ValueError, KeyError):
            return scripts.status(400)
        prompt = max(1, len(text) // 4)
        if prompt >= CONTEXT_TOKENS:
            return scripts.status(400)
        cached = prompt - 1 if text in self._seen else 0
        self._seen.add(text)
        count = asked.get("max_tokens", 16)
        steps: list[Step] = [Send(ROLE), *(Send(chunk(content="w ")) for _ in range(count))]
        steps.append(Send(chunk("length")))
        if (asked.get("stream_options") or {}).get("include_usage"):
            steps.append(Send(usage_chunk(prompt, count, cached)))
        return Script((*steps, Send(DONE)))
