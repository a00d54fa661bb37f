"""The Lua scripts. A server that has forgotten one gets its text again in the same step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

LUA: Final = Path(__file__).resolve().parent.parent / "lua"
Word = str | int | float


class Script:
    """``gateway/lua/<name>.lua``, preceded by what all scripts share."""

    def __init__(self, name: str) -> None:
        shared = (LUA / "buckets.lua").read_text(encoding="utf-8")
        self.text = f"{shared}\n{(LUA / f'{name}.lua').read_text(encoding='utf-8')}"
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, client: Redis, keys: Sequence[str], words: Sequence[Word]) -> Any:
        try:
            return await client.evalsha(self.digest, len(keys), *keys, *words)
        except NoScriptError:
            return await client.eval(self.text, len(keys), *keys, *words)


RESERVE: Final = Script("reserve")
SETTLE: Final = Script("settle")
RENEW: Final = Script("renew")
PEEK: Final = Script("peek")
