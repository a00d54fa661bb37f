"""What does a person get who starts the product for the first time?

Organizations with finite limits, a key each, an operator; written to ``var/run.json`` and printed.
Keys and passwords of an earlier run are kept as long as they work.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from deploy.errors import CannotRun
from deploy.programs import MANAGE, PoolOf
from deploy.secret_files import write_private


async def prepare(var: Path, pools: list[PoolOf], port: int) -> dict[str, Any]:
    """Migrates, collects static files, seeds. Raises CannotRun with the command's last words."""
    known = json.loads(path.read_text()) if (path := var / "run.json").exists() else {}
    wish = {
        "base_url": f"http://127.0.0.1:{port}",
        "pools": [pool.as_json() for pool in pools],
        "known": known,
    }
    process = await asyncio.create_subprocess_exec(
        *MANAGE, "prepare_demo", stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    out, words = await process.communicate(json.dumps(wish).encode())
    if process.returncode:
        raise CannotRun(words.decode(errors="replace").strip())
    facts: dict[str, Any] = json.loads(out)
    return facts


def write(var: Path, facts: dict[str, Any]) -> None:
    write_private(var / "run.json", json.dumps(facts, indent=2) + "\n")


def invitation(facts: dict[str, Any], took_s: float) -> str:
    """What is printed once everything answers."""
    operator, tenant = facts["operator"], facts["tenants"][0]
    body = {
        "model": facts["model"],
        "stream": True,
        "max_tokens": 60,
        "messages": [{"role": "user", "content": "Tell me about the sea."}],
    }
    return f"""
Ready after {took_s:.1f} s: {facts["base_url"]}

  operator   {operator["username"]} / {operator["password"]}
  tenant     {tenant["username"]} / {tenant["password"]}   ({tenant["name"]})
  API key    {tenant["api_key"]}
  models     {", ".join(facts["models"])}

curl -N {facts["base_url"]}/v1/chat/completions \\
  -H 'Authorization: Bearer {tenant["api_key"]}' -H 'Content-Type: application/json' \\
  -d '{json.dumps(body)}'

The same is in var/run.json. make traffic brings the pages to life. Ctrl-C stops everything.
"""


if __name__ == "__main__":
    sys.exit("This module is part of make run.")
