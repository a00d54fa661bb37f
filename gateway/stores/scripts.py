"""The Lua scripts: a server knows one by its digest once it has run its text."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

LUA: Final = Path(__file__).resolve().parent.parent / "lua"


class Script:
    """``gateway/lua/<name>.lua``, preceded by what all scripts share."""

    def __init__(self, name: str) -> None:
        shared = (LUA / "buckets.lua").read_text(encoding="utf-8")
        self.text = f"{shared}\n{(LUA / f'{name}.lua').read_text(encoding='utf-8')}"
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


RESERVE: Final = Script("reserve")
SETTLE: Final = Script("settle")
RENEW: Final = Script("renew")
PEEK: Final = Script("peek")
