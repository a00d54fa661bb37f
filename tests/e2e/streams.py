"""Clients that stream from an installation and count what they got."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import aiohttp

from tests.e2e.installation import MODEL, Installation

CONTENT = b'"content":"'


@dataclass(eq=False)
class Stream:
    """One streamed chat, read to its end or to the loss of its connection."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    broken: bool = False
    began: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    sent_s: float = 0.0
    began_s: float = 0.0
    ended_s: float = 0.0

    @property
    def call_id(self) -> str:
        return self.headers["x-fairway-call-id"]

    @property
    def replica(self) -> str:
        """Which one served it; empty where none did."""
        return self.headers.get("x-fairway-replica", "")

    @property
    def reason(self) -> str:
        """Of a refusal."""
        return self.headers.get("x-fairway-reason", "")

    @property
    def ttft_s(self) -> float:
        """The gateway sends nothing before the first content."""
        return self.began_s - self.sent_s

    @property
    def done(self) -> bool:
        return self.body.rstrip().endswith(b"data: [DONE]")

    @property
    def tokens(self) -> int:
        """Non-empty content deltas; the simulated replica puts one token into each."""
        return self.body.count(CONTENT) - self.body.count(CONTENT + b'"')

    async def run(
        self,
        session: aiohttp.ClientSession,
        place: Installation,
        *,
        tokens: int = 50,
        prompt: str = "hi",
        key: str | None = None,
        model: str = MODEL,
        whole: bool = False,
    ) -> Stream:
        """``whole``: the simulated replica writes all of ``tokens``."""
        self.sent_s = time.monotonic()
        body = {
            "model": model,
            "stream": True,
            "max_tokens": tokens,
            "messages": [{"role": "user", "content": prompt}],
        }
        if whole:
            body["ignore_eos"] = True
        headers = {"authorization": f"Bearer {key or place.api_key}"}
        url = f"{place.url}/v1/chat/completions"
        try:
            async with session.post(url, json=body, headers=headers) as answer:
                self.status = answer.status
                self.headers = {name.lower(): value for name, value in answer.headers.items()}
                async for chunk in answer.content.iter_any():
                    if not self.began.is_set():
                        self.began_s = time.monotonic()
                        self.began.set()
                    self.body += chunk
        except aiohttp.ClientError:
            self.broken = True
        self.ended_s = time.monotonic()
        self.began.set()
        self.ended.set()
        return self
