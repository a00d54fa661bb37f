"""``make bench``: installs the proxies that the bench compares, each into an environment of its own
below ``var/peers``, and runs it. What cannot be installed is left out with a word.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.test import apt_get

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "var" / "peers"
PACKAGES = {"vllm-router": "vllm-router>=0.1,<0.2", "litellm": "litellm[proxy]>=1.100,<2"}
PROFILER = {"py-spy": "py-spy>=0.4,<1"}


def main(arguments: list[str]) -> int:
    flame = "--flame" in arguments
    for name, package in (PROFILER if flame else PACKAGES).items():
        if not (PEERS / name / "bin" / name).exists():
            _install(name, package)
    if not flame and shutil.which("nginx") is None and (apt := apt_get()) is not None:
        print("bench: installing nginx", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "-y", "--no-install-recommends", "nginx-light"]):
            subprocess.run([*apt, "-qq", *words], env=environment, check=False)
    command = [sys.executable, "-m", "benchmarks.edge", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _install(name: str, package: str) -> None:
    print(f"bench: installing {name}", flush=True)
    folder = PEERS / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", package],
    ):
        if subprocess.run(command, check=False).returncode:
            print(f"bench: {name} could not be installed", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
