"""Secrets, ports and the frozen versions of a local run."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from deploy.errors import CannotRun
from deploy.ports import Ports, is_free
from deploy.run import environment
from deploy.secret_files import secret, write_private

ROOT = Path(__file__).resolve().parents[2]


def test_a_secret_is_made_once_and_only_we_can_read_it(tmp_path: Path) -> None:
    first = secret(tmp_path / "pepper")
    assert len(first) >= 32
    assert secret(tmp_path / "pepper") == first
    assert (tmp_path / "pepper").stat().st_mode & 0o777 == 0o600


def test_a_file_written_over_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_takes_secrets_from_files_and_hands_them_on_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    os.environ.pop("SECRET_KEY", None)
    (tmp_path / "key").write_text("mounted-" * 5 + "\n")
    os.environ["SECRET_KEY_FILE"] = str(tmp_path / "key")
    assert environment(tmp_path, 8000)["SECRET_KEY"] == "mounted-" * 5
    assert "SECRET_KEY_FILE" not in os.environ
    os.environ["FAIRWAY_KEY_PEPPER_FILE"] = str(tmp_path / "absent")
    with pytest.raises(CannotRun, match="FAIRWAY_KEY_PEPPER_FILE: cannot be read"):
        environment(tmp_path, 8000)


def test_ports_are_the_same_next_time(tmp_path: Path) -> None:
    first = Ports(tmp_path / "ports.json").block("simulated", 3)
    assert Ports(tmp_path / "ports.json").block("simulated", 3) == first


def test_a_port_that_was_taken_meanwhile_is_replaced(tmp_path: Path) -> None:
    first = Ports(tmp_path / "ports.json").block("redis")
    with socket.create_server(("127.0.0.1", first)):
        other = Ports(tmp_path / "ports.json").block("redis")
    assert other != first
    assert is_free(other)


def test_constraints_are_plain_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    names = [line.split("==")[0] for line in lines]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"[a-z0-9.-]+==[0-9A-Za-z.+!-]+", line) for line in lines)
