"""Nothing starts in a form that would leave a door open, and each mistake has its line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.env import EnvError, known_names, plain_exit, read_env

ROOT = Path(__file__).resolve().parents[2]
SAFE = {
    "SECRET_KEY": "s3cret-" * 8,
    "FAIRWAY_KEY_PEPPER": "p3pper-" * 8,
    "ALLOWED_HOSTS": "fairway.example",
    "CSRF_TRUSTED_ORIGINS": "https://fairway.example,https://*.pages.example",
    "FAIRWAY_HTTPS": "true",
    "REDIS_URL": "rediss://:pw@redis.example:6379/0",
}
PUBLIC = "for-development-only-" * 2
DEBUG = {"FAIRWAY_DEBUG": "true", "SECRET_KEY": "", "FAIRWAY_KEY_PEPPER": ""}
UNSAFE = {
    "no secret key": ({"SECRET_KEY": ""}, {"SECRET_KEY"}),
    "short secret key": ({"SECRET_KEY": "s" * 31}, {"SECRET_KEY"}),
    "published secret key": ({"SECRET_KEY": PUBLIC}, {"SECRET_KEY"}),
    "Django's sample key": ({"SECRET_KEY": "django-insecure-" + "x" * 40}, {"SECRET_KEY"}),
    "no pepper": ({"FAIRWAY_KEY_PEPPER": ""}, {"FAIRWAY_KEY_PEPPER"}),
    "published pepper": ({"FAIRWAY_KEY_PEPPER": PUBLIC}, {"FAIRWAY_KEY_PEPPER"}),
    "any host": ({"ALLOWED_HOSTS": "*"}, {"ALLOWED_HOSTS"}),
    "any host among others": ({"ALLOWED_HOSTS": "a.example,*"}, {"ALLOWED_HOSTS"}),
    "any origin": ({"CSRF_TRUSTED_ORIGINS": "https://*"}, {"CSRF_TRUSTED_ORIGINS"}),
    "any origin of a country": (
        {"CSRF_TRUSTED_ORIGINS": "https://*.example"},
        {"CSRF_TRUSTED_ORIGINS"},
    ),
    "origin of no scheme": ({"CSRF_TRUSTED_ORIGINS": "a.example"}, {"CSRF_TRUSTED_ORIGINS"}),
    "open Redis elsewhere": ({"REDIS_URL": "redis://10.0.0.5:6379/0"}, {"REDIS_URL"}),
    "open Redis by name": ({"REDIS_URL": "rediss://redis.example/0"}, {"REDIS_URL"}),
    "open Redis of a user": ({"REDIS_URL": "redis://joe@redis.example/0"}, {"REDIS_URL"}),
    "public secrets for others": (DEBUG | {"FAIRWAY_HTTPS": ""}, {"FAIRWAY_DEBUG"}),
    "public secrets behind TLS": (DEBUG | {"ALLOWED_HOSTS": "localhost"}, {"FAIRWAY_DEBUG"}),
    "misspelt switch": ({"FAIRWAY_HTPS": "true"}, {"FAIRWAY_HTPS"}),
    "switch that is neither": ({"FAIRWAY_HTTPS": "maybe"}, {"FAIRWAY_HTTPS"}),
    "several": (
        {"SECRET_KEY": "", "ALLOWED_HOSTS": "*", "REDIS_URL": "redis://r/0", "FAIRWAY_X": "1"},
        {"SECRET_KEY", "ALLOWED_HOSTS", "REDIS_URL", "FAIRWAY_X"},
    ),
}  # fmt: skip
GUARDED = ("redis://127.0.0.1/0", "redis://[::1]:6379", "unix:///run/redis", "redis://:p@r/0",
           "redis://r/0?password=p", "redis://localhost:6379/1")  # fmt: skip


@pytest.fixture(autouse=True)
def safe(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*known_names(), *(n for n in os.environ if n.startswith("FAIRWAY_"))):
        monkeypatch.delenv(name, raising=False)
    for name, value in SAFE.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("case", UNSAFE)
def test_an_unsafe_environment_ends_the_process_with_every_mistake(
    monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """S27: nineteen of them; status 1 and lines, as ``sys.exit`` with words gives."""
    changes, named = UNSAFE[case]
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended, plain_exit():
        read_env()
    lines = str(ended.value.code).splitlines()
    assert f"{len(named)} mistake(s)" in lines[0]
    assert {line.split(":")[0].strip() for line in lines[1:]} == named


def test_the_safe_environment_is_taken() -> None:
    assert read_env().shared.https


@pytest.mark.parametrize("url", GUARDED)
def test_a_redis_of_this_machine_or_with_a_password_is_taken(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("REDIS_URL", url)
    assert read_env().shared.redis_url == url


def test_secrets_are_read_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SECRET_KEY", "FAIRWAY_KEY_PEPPER", "REDIS_URL", "FAIRWAY_GATEWAY_METRICS_TOKEN"):
        (tmp_path / name).write_text(f"{SAFE.get(name, 'token')}\n")
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    env = read_env()
    assert env.gateway.secret_key == SAFE["SECRET_KEY"].encode()
    assert env.tenants.key_pepper == SAFE["FAIRWAY_KEY_PEPPER"].encode()
    assert (env.shared.redis_url, env.gateway.metrics_token) == (SAFE["REDIS_URL"], "token")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), (b"", "empty"), (b"\xff" * 40, "UTF-8"), (b"x" * 70_000, "65,536")],
)
def test_a_file_that_gives_no_secret_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "pepper"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("FAIRWAY_KEY_PEPPER", "")
    monkeypatch.setenv("FAIRWAY_KEY_PEPPER_FILE", str(file))
    with pytest.raises(EnvError) as caught:
        read_env()
    assert [one for one in caught.value.mistakes if one.startswith("FAIRWAY_KEY_PEPPER_FILE: ")]
    assert words in str(caught.value)


def test_a_secret_has_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("canary-" * 8)
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("FAIRWAY_GATEWAY_DRAIN_GRACE_S_FILE", str(tmp_path / "key"))
    with pytest.raises(EnvError) as caught:
        read_env()
    named = {mistake.split(":")[0] for mistake in caught.value.mistakes}
    assert named == {"SECRET_KEY_FILE", "FAIRWAY_GATEWAY_DRAIN_GRACE_S_FILE"}
    assert "canary" not in str(caught.value)


def test_public_secrets_are_not_served_to_the_network() -> None:
    """S27: as a process."""
    environment = {"PATH": os.environ["PATH"], "FAIRWAY_DEBUG": "true"}
    command = [sys.executable, "manage.py", "serve", "--host", "::", "--port", "0"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "FAIRWAY_DEBUG serves this machine only" in done.stderr
