"""``make clients``: installs clients of the two APIs, each into an environment of its own below
``var/clients``, asks the gateway through each of them, and writes ``docs/clients.md``.

``make test`` installs those of the suite. What cannot be installed is left out with a word.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
CLIENTS: Final = ROOT / "var" / "clients"
NPM: Final = "npm"
OLDEST_NODE: Final = 20
SUITE: Final = {
    "openai-2": ("openai==2.54.0",),
    NPM: (
        *("openai@6.49.0", "ai@6.0.326", "@ai-sdk/openai@3.0.141"),
        *("@ai-sdk/openai-compatible@2.0.92", "@ai-sdk/anthropic@3.0.140"),
    ),
}
OTHERS: Final = {
    "langchain": ("langchain-openai>=1.7,<2",),
    "llama-index": ("llama-index-llms-openai-like>=0.8,<0.9",),
    "litellm": ("litellm>=1.110,<2",),
    "instructor": ("instructor>=1.17,<2",),
}
PAGE: Final = ROOT / "docs" / "clients.md"
HEAD: Final = """# Clients

Clients of the OpenAI and the Anthropic API work unchanged with this gateway's address
(`http://HOST/v1`; without `/v1` for Anthropic's) and a key. `make clients` wrote this page
after it had run these against an installation in front of simulated replicas, a real llama.cpp, and
a scripted replica that breaks, calls tools, or says what has reached it.
"""


def install(wanted: dict[str, tuple[str, ...]]) -> None:
    """Each that is not yet there in this form."""
    for name, packages in wanted.items():
        stamp = CLIENTS / name / "installed"
        if not stamp.exists() or stamp.read_text() != " ".join(packages):
            print(f"clients: installing {', '.join(packages)}", flush=True)
            shutil.rmtree(CLIENTS / name, ignore_errors=True)
            if _installed(CLIENTS / name, packages):
                stamp.write_text(" ".join(packages))
            else:
                print(f"clients: {name} could not be installed", flush=True)


def _installed(folder: Path, packages: tuple[str, ...]) -> bool:
    folder.mkdir(parents=True)
    return all(not _status(command, folder) for command in _commands(folder, packages))


def _commands(folder: Path, packages: tuple[str, ...]) -> list[list[str]]:
    if folder.name == NPM:
        (folder / "package.json").write_text(json.dumps({"private": True}))
        quiet = ("--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts")
        return [["npm", "install", *quiet, "--fetch-retries=1", *packages]]
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "install", "-q"]
    return [[sys.executable, "-m", "venv", str(folder)], [*pip, *packages]]


def _status(command: list[str], folder: Path) -> int:
    if shutil.which(command[0]) is None:
        return 1
    return subprocess.run(command, cwd=folder, check=False).returncode


def main() -> int:
    install(SUITE | OTHERS)
    told = CLIENTS / "told.json"
    told.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "tests/e2e/test_clients.py"]
    environment = {**os.environ, "TEST_CLIENTS_TOLD": str(told)}
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if told.exists():
        PAGE.write_text(page(json.loads(told.read_text())), encoding="utf-8")
        print(f"clients: wrote {PAGE.relative_to(ROOT)}")
    return status


def page(told: dict[str, dict[str, Any]]) -> str:
    """``told``: what each client said, as ``tests/e2e/test_clients.py`` writes it."""
    lines = [HEAD, "| client | version | cases | result |", "| --- | --- | --- | --- |"]
    for one in told.values():
        problems = one["problems"]
        failed = [case for case, problem in problems.items() if problem]
        result = "; ".join(f"fails: {case}" for case in failed) or "all pass"
        lines.append(f"| {one['title']} | {one['version']} | {len(problems)} | {result} |")
    lines.append("\n## What was asked, and of which of them\n")
    asked: dict[str, list[str]] = defaultdict(list)
    for one in told.values():
        for case in one["problems"]:
            asked[case].append(one["title"])
    lines += [f"- {case}: {', '.join(titles)}" for case, titles in asked.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
