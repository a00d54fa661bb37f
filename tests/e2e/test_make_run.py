"""``make run`` as one process: everything comes up, answers, survives a crash, and goes away."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.ports import is_free
from tests.servers import free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "TMPDIR")


class Run:
    """One ``python -m deploy.run`` with a directory and a port of its own."""

    def __init__(self, var: Path) -> None:
        self.var, self.port = var, free_port()
        self.env = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.env |= {"FAIRWAY_VAR_DIR": str(var), "PORT": str(self.port)}
        self.words = (var.parent / "words").open("w+")
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "deploy.run"],
            cwd=ROOT,
            env=self.env,
            stdout=self.words,
            stderr=self.words,
            text=True,
        )

    def said(self) -> str:
        return Path(self.words.name).read_text()

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.var / "run.json").read_text())
        return facts

    def ask(self, model: str, path: str = "chat/completions") -> dict[str, Any]:
        body = {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
        request = urllib.request.Request(
            f"{self.facts['base_url']}/v1/{path}",
            json.dumps(body).encode(),
            {
                "authorization": f"Bearer {self.facts['tenants'][0]['api_key']}",
                "content-type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            result: dict[str, Any] = json.load(answer)
        return result


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("run") / "var")
    try:
        wait_until(lambda: "curl -N" in run.said() or run.process.poll() is not None, "run", 110)
        yield run
    finally:
        run.process.send_signal(signal.SIGTERM)
        run.process.wait(60)


def test_it_says_how_to_use_it_and_keeps_that_for_us_only(run: Run) -> None:
    assert run.process.poll() is None, run.said()
    assert stat.S_IMODE((run.var / "run.json").stat().st_mode) == 0o600
    assert {"base_url", "operator", "tenants", "model"} <= run.facts.keys()
    for secret in (run.facts["operator"]["password"], run.facts["tenants"][0]["api_key"]):
        assert secret in run.said()


def test_every_model_answers_and_is_counted(run: Run) -> None:
    for model in run.facts["models"]:
        answer = run.ask(model)
        assert answer["choices"][0]["message"]["content"]
        assert answer["usage"]["completion_tokens"] > 0
        message = run.ask(model, "messages")
        assert message["content"][0]["text"]
        assert message["usage"]["output_tokens"] > 0


def test_a_second_one_says_what_to_do(run: Run) -> None:
    for extra in ({}, {"FAIRWAY_VAR_DIR": str(run.var.parent / "other")}):
        again = subprocess.run(
            [sys.executable, "-m", "deploy.run"],
            cwd=ROOT,
            env={**run.env, **extra},
            capture_output=True,
            text=True,
            check=False,
        )
        assert again.returncode == 1
        expected = f"PORT={run.port + 1} make run" if extra else "It already runs"
        assert expected in again.stderr


def test_an_unknown_variable_ends_the_start_with_its_name(run: Run, tmp_path: Path) -> None:
    env = {**run.env, "FAIRWAY_VAR_DIR": str(tmp_path), "PORT": str(free_port()), "FAIRWAY_X": "1"}
    failed = subprocess.run(
        [sys.executable, "-m", "deploy.run"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert "FAIRWAY_X: unknown name" in failed.stderr
    assert not (tmp_path / "replicas").exists()
    assert list((tmp_path / "log").iterdir()) == []  # nothing was started
    assert "Traceback" not in failed.stderr


def test_it_goes_away_with_everything_it_started(run: Run) -> None:
    ports = [run.port, *json.loads((run.var / "ports.json").read_text()).values()]
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(60) == 0
    assert all(is_free(port) for port in ports)
