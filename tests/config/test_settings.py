"""Django's settings as an installation gets them, in the forms that matter for safety."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.celery import broker
from config.database import database
from config.serializers import JsonSerializer

ROOT = Path(__file__).resolve().parents[2]
SECRET = "s3cret-" * 8 + "0123456789-ABCDEFGH"
PRODUCTION = {
    "PATH": os.environ["PATH"],
    "SECRET_KEY": SECRET,
    "FAIRWAY_KEY_PEPPER": SECRET,
    "ALLOWED_HOSTS": "fairway.example",
    "FAIRWAY_HTTPS": "true",
    "REDIS_URL": "redis://:pw@redis.example:6379/0",
}
SHOW = """
import json, django
from django.conf import settings as s
names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS", "DEBUG", "CACHES",
         "CHANNEL_LAYERS", "CONTENT_SECURITY_POLICY", "SESSION_SERIALIZER", "SESSION_ENGINE")
print(json.dumps({name: getattr(s, name) for name in names}, default=str))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    env = {**PRODUCTION, "DJANGO_SETTINGS_MODULE": "config.settings"}
    command = (sys.executable, *command)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(run("-c", SHOW).stdout)
    return settings


def test_the_deployment_check_finds_nothing() -> None:
    """S27."""
    assert "no issues" in run("manage.py", "check", "--deploy", "--fail-level", "WARNING").stdout


def test_production_is_served_over_tls_only_and_never_shows_a_traceback(
    shown: dict[str, Any],
) -> None:
    assert shown["SESSION_COOKIE_SECURE"] is shown["CSRF_COOKIE_SECURE"] is True
    assert shown["SECURE_HSTS_SECONDS"] > 0
    assert shown["DEBUG"] is False


def test_nothing_that_redis_or_a_cookie_holds_can_run_code(shown: dict[str, Any]) -> None:
    """S43."""
    options = shown["CACHES"]["default"]["OPTIONS"]
    assert options["serializer"] == "config.serializers.JsonSerializer"
    assert shown["SESSION_SERIALIZER"].endswith("JSONSerializer")
    assert shown["SESSION_ENGINE"] == "django.contrib.sessions.backends.db"
    assert "pubsub" in shown["CHANNEL_LAYERS"]["default"]["BACKEND"]


def test_the_content_policy_allows_no_inline_code(shown: dict[str, Any]) -> None:
    """S18."""
    text = json.dumps(shown["CONTENT_SECURITY_POLICY"])
    assert "unsafe" not in text
    assert shown["CONTENT_SECURITY_POLICY"]["DIRECTIVES"]["frame-ancestors"] == ["'none'"]


def test_cached_values_come_back_as_they_were() -> None:
    serializer = JsonSerializer()
    for value in (7, "7", [1.5, None], {"a": [True]}):
        stored = serializer.dumps(value)
        assert serializer.loads(stored if isinstance(stored, bytes) else str(stored).encode()) == (
            value
        )


def test_sqlite_waits_for_the_writer_and_begins_at_once() -> None:
    options = database("", var_dir=Path("/v"), pool=3)["OPTIONS"]
    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] == 20
    assert "journal_mode=WAL" in options["init_command"]


def test_postgresql_is_pooled_and_bounded_in_time() -> None:
    """M21."""
    url = "postgres://u%40x:p%2Fw@db.example:6432/fair?sslmode=require"
    found = database(url, var_dir=Path("/v"), pool=3)
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("u@x", "p/w", "fair")
    assert (found["HOST"], found["PORT"]) == ("db.example", "6432")
    options = found["OPTIONS"]
    assert options["pool"]["max_size"] == 3
    assert options["connect_timeout"] == 3
    assert options["sslmode"] == "require"
    assert "statement_timeout=5000" in options["options"]


def test_the_broker_is_redis_when_there_is_one_and_a_directory_else(tmp_path: Path) -> None:
    assert broker("redis://r/0", tmp_path)["broker_url"] == "redis://r/0"
    assert broker("unix:///s", tmp_path)["broker_url"] == "redis+socket:///s"
    assert list(tmp_path.iterdir()) == []
    files = broker("", tmp_path)
    assert files["broker_url"] == "filesystem://"
    assert Path(files["broker_transport_options"]["data_folder_in"]).is_dir()
