"""The Lua scripts. A server that has forgotten one gets its text again in the same step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gateway.stores.resp import RespClient, ServerError, Word

LUA: Final = Path(__file__).resolve().parent.parent / "lua"
UNKNOWN: Final = "NOSCRIPT"


class Script:
    """``gateway/lua/<name>.lua``, preceded by what all scripts share."""

    def __init__(self, name: str) -> None:
        shared = (LUA / "buckets.lua").read_text(encoding="utf-8")
        self.text = f"{shared}\n{(LUA / f'{name}.lua').read_text(encoding='utf-8')}"
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, client: RespClient, keys: Sequence[str], words: Sequence[Word]) -> Any:
        until_s = client.latest_s
        arguments = (len(keys), *keys, *words)
        try:
            return await client.ask("EVALSHA", self.digest, *arguments, until_s=until_s)
        except ServerError as error:
            if not str(error).startswith(UNKNOWN):
                raise
        return await client.ask("EVAL", self.text, *arguments, until_s=until_s)


RESERVE: Final = Script("reserve")
SETTLE: Final = Script("settle")
RENEW: Final = Script("renew")
PEEK: Final = Script("peek")
