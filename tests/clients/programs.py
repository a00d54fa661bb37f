"""Which clients are there, where is each installed, and how is its program run?"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.clients import CLIENTS, NPM, OLDEST_NODE, ROOT

HERE = Path(__file__).resolve().parent
LONGEST_S = 240.0


@dataclass(frozen=True, slots=True)
class Program:
    """``home``: the folder of its environment below ``CLIENTS``; empty = that of the project."""

    title: str
    file: str
    home: str = ""

    @property
    def of_node(self) -> bool:
        return self.file.endswith(".mjs")

    def missing(self) -> str:
        """What it lacks, empty where it can run."""
        if self.of_node and node_major() < OLDEST_NODE:
            return f"node {OLDEST_NODE} or later is not on the PATH"
        if self.home and not (CLIENTS / self.home / "installed").exists():
            return f"{self.title} is not installed"
        return ""

    def command(self) -> list[str]:
        if self.of_node:
            return ["node", str(HERE / self.file), str(CLIENTS / self.home)]
        python = CLIENTS / self.home / "bin" / "python" if self.home else sys.executable
        return [str(python), "-m", f"tests.clients.{self.file.removesuffix('.py')}"]


SUITE = {
    "openai-3": Program("openai 3 (Python)", "openai_python.py"),
    "openai-2": Program("openai 2 (Python)", "openai_python.py", "openai-2"),
    "anthropic": Program("anthropic (Python)", "anthropic_python.py"),
    "openai-node": Program("openai (npm)", "openai_node.mjs", NPM),
    "ai-sdk": Program("ai (npm) with @ai-sdk", "ai_sdk.mjs", NPM),
}
OTHERS = {
    "langchain": Program("langchain-openai", "langchain_chat.py", "langchain"),
    "llama-index": Program("llama-index-llms-openai-like", "llama_index_like.py", "llama-index"),
    "litellm": Program("litellm", "litellm_sdk.py", "litellm"),
    "instructor": Program("instructor", "instructor_models.py", "instructor"),
}


@dataclass(slots=True)
class Told:
    """What a program said: the version of its client, and each case with its problem."""

    title: str
    version: str = ""
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> dict[str, str]:
        return {case: problem for case, problem in self.problems.items() if problem}


async def told_by(program: Program, facts: dict[str, Any]) -> Told:
    """Runs it once. Raises RuntimeError where it ends before its last case."""
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "1",
    }
    process = await asyncio.create_subprocess_exec(
        *program.command(),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            out, error = await process.communicate(json.dumps(facts).encode())
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise RuntimeError(f"{program.title}: {error.decode()[-1_000:]}")
    return _told(program.title, out)


def _told(title: str, out: bytes) -> Told:
    told = Told(title)
    for line in out.splitlines():
        if line.startswith(b'{"'):
            said = json.loads(line)
            told.version = said.get("version", told.version)
            if "case" in said:
                told.problems[said["case"]] = said["problem"]
    return told


def node_major() -> int:
    """0 where there is none."""
    node = shutil.which("node")
    if node is None:
        return 0
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", said)
    return int(found[1]) if found else 0
