"""The environment is typed, complete, and wrong in one go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.env import EnvError, known_names, read_env

ROOT = Path(__file__).resolve().parents[2]
SECRET = "s" * 40


@pytest.fixture(autouse=True)
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with nothing but the two secrets."""
    for name in (*known_names(), *(n for n in os.environ if n.startswith("FAIRWAY_"))):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SECRET_KEY", SECRET)
    monkeypatch.setenv("FAIRWAY_KEY_PEPPER", SECRET)


def mistakes() -> list[str]:
    with pytest.raises(EnvError) as caught:
        read_env()
    return [mistake.split(":")[0] for mistake in caught.value.mistakes]


def test_two_secrets_are_enough() -> None:
    env = read_env()
    assert env.shared.port == 8000
    assert env.gateway.key_pepper == env.tenants.key_pepper == SECRET.encode()


def test_every_mistake_is_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PORT": "eighty",
        "LOG_LEVEL": "loud",
        "REDIS_URL": "http://cache",
        "DATABASE_URL": "mysql://db",
        "FAIRWAY_DEBG": "true",
        "FAIRWAY_GATEWAY_DRAIN_GRACE_S": "-1",
        "SECRET_KEY": "short",
        "ALLOWED_HOSTS": "*",
    }.items():
        monkeypatch.setenv(name, value)
    expected = {"PORT", "LOG_LEVEL", "REDIS_URL", "DATABASE_URL", "FAIRWAY_DEBG"}
    expected |= {"FAIRWAY_GATEWAY_DRAIN_GRACE_S", "SECRET_KEY", "ALLOWED_HOSTS"}
    assert set(mistakes()) == expected


def test_no_rejected_value_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://user:canary@db")
    with pytest.raises(EnvError) as caught:
        read_env()
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("name", ["SECRET_KEY", "FAIRWAY_KEY_PEPPER"])
def test_production_needs_its_secrets(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """S27."""
    monkeypatch.delenv(name)
    assert mistakes() == [name]


def test_development_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY")
    monkeypatch.delenv("FAIRWAY_KEY_PEPPER")
    monkeypatch.setenv("FAIRWAY_DEBUG", "true")
    assert len(read_env().tenants.key_pepper) >= 32


def test_development_secrets_never_serve_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_DEBUG", "true")
    monkeypatch.setenv("ALLOWED_HOSTS", "gateway.example")
    assert mistakes() == ["FAIRWAY_DEBUG"]


def test_a_setting_of_an_app_is_read_under_the_apps_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_GATEWAY_DRAIN_GRACE_S", "2.5")
    assert read_env().gateway.drain_grace_s == 2.5


def test_a_shared_value_has_no_second_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_GATEWAY_KEY_PEPPER", SECRET)
    assert mistakes() == ["FAIRWAY_GATEWAY_KEY_PEPPER"]


def test_lists_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", "a.example, b.example,")
    assert read_env().shared.allowed_hosts == ("a.example", "b.example")


def test_empty_means_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "")
    monkeypatch.setenv("REDIS_URL", "")
    assert read_env().shared.port == 8000


def test_a_command_ends_with_plain_lines_and_no_traceback() -> None:
    environment = {"PATH": os.environ["PATH"], "FAIRWAY_TYPO": "1", "PORT": "x"}
    result = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    for name in ("FAIRWAY_TYPO", "PORT", "SECRET_KEY", "FAIRWAY_KEY_PEPPER"):
        assert f"  {name}: " in result.stderr
