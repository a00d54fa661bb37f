"""What does the process environment say, and is all of it well formed?

The only module that reads the environment. Shared variables are fields of ``Shared``. An app owns
a frozen dataclass in its ``settings.py``: a field ``x`` of ``GatewaySettings`` is filled from
``FAIRWAY_GATEWAY_X``, except that a field named like one of ``HANDED_DOWN`` gets the shared value.
Every mistake is reported at once; an unknown ``FAIRWAY_...`` name is a mistake, and so is what
would be unsafe (``config.unsafe``). Secrets may lie in files (``config.secret_files``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from config.secret_files import file_names, from_files
from config.unsafe import DEVELOPMENT_SECRET, Judged, unsafe
from dashboard.settings import DashboardSettings
from gateway.settings import GatewaySettings
from tenants.settings import TenantsSettings
from workers.settings import WorkersSettings

APPS: dict[str, type[Any]] = {
    "tenants": TenantsSettings,
    "gateway": GatewaySettings,
    "dashboard": DashboardSettings,
    "workers": WorkersSettings,
}
HANDED_DOWN = ("var_dir", "redis_url", "key_pepper", "secret_key", "port", "traces_dir")

Names = Annotated[tuple[str, ...], NoDecode]


class EnvError(Exception):
    """All mistakes in the environment, one line each."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        lines = "\n".join(f"  {mistake}" for mistake in mistakes)
        super().__init__(f"The environment has {len(mistakes)} mistake(s):\n{lines}")


class Shared(BaseSettings):
    """Variables that are not one app's own. ``FAIRWAY_DEBUG`` is for development only."""

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    database_url: str = Field(
        "", description="sqlite:///path or postgres://…; empty: var/fairway.sqlite3"
    )
    redis_url: str = Field("", description="redis://… or unix://…; empty: stores in the process")
    secret_key: SecretStr = Field(
        SecretStr(""), description="Signs sessions; 32 characters or more"
    )
    key_pepper: SecretStr = Field(
        SecretStr(""),
        validation_alias="FAIRWAY_KEY_PEPPER",
        description="Hashes API keys; 32 characters or more; changing it voids every key",
    )
    var_dir: Path = Field(
        Path("var"), validation_alias="FAIRWAY_VAR_DIR", description="Where files are kept"
    )
    traces_dir: Path = Field(
        Path("traces"),
        validation_alias="FAIRWAY_TRACES",
        description="Where manage.py simulate looks for trace files",
    )
    debug: bool = Field(
        False, validation_alias="FAIRWAY_DEBUG", description="Development only: default secrets"
    )
    https: bool = Field(
        False, validation_alias="FAIRWAY_HTTPS", description="Pages are served over TLS only"
    )
    database_pool: int = Field(
        8, ge=1, le=100, validation_alias="FAIRWAY_DATABASE_POOL",
        description="PostgreSQL connections of one process",
    )  # fmt: skip
    tcp_user_timeout_s: int = Field(
        30,
        ge=1,
        validation_alias="FAIRWAY_TCP_USER_TIMEOUT_S",
        description="A peer that acknowledges nothing for so long is cut",
    )
    port: int = Field(8000, ge=1, le=65535, description="Port of manage.py serve")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least severe record that is written"
    )
    allowed_hosts: Names = Field(
        ("127.0.0.1", "localhost", "[::1]"), description="Host names of the pages, by comma"
    )
    csrf_trusted_origins: Names = Field((), description="Origins of the pages, by comma")

    @field_validator("allowed_hosts", "csrf_trusted_origins", mode="before")
    @classmethod
    def split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())

    @field_validator("redis_url")
    @classmethod
    def known_redis_scheme(cls, value: str) -> str:
        if value and not value.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return value

    @field_validator("database_url")
    @classmethod
    def known_database_scheme(cls, value: str) -> str:
        if value and not value.startswith(("sqlite:///", "postgres://", "postgresql://")):
            raise ValueError("must start with sqlite:///, postgres:// or postgresql://")
        return value


@dataclasses.dataclass(frozen=True, slots=True)
class Env:
    """The whole environment, checked."""

    shared: Shared
    tenants: TenantsSettings
    gateway: GatewaySettings
    dashboard: DashboardSettings
    workers: WorkersSettings


def read_env() -> Env:
    """Raises EnvError that lists every mistake."""
    known = {*known_names(), *file_names()}
    mistakes = [f"{name}: unknown name" for name in sorted(set(_fairway_names()) - known)]
    filed = from_files(os.environ, mistakes)
    shared = _read_shared(filed, mistakes)
    handed_down = _handed_down(shared)
    variables = {**os.environ, **filed}
    apps = {name: _read_app(name, handed_down, variables, mistakes) for name in APPS}
    if mistakes:
        raise EnvError(mistakes)
    return Env(shared, **apps)


@contextlib.contextmanager
def plain_exit() -> Iterator[None]:
    """Mistakes end the process with their lines, a status and no traceback."""
    try:
        yield
    except EnvError as mistakes:
        sys.exit(str(mistakes))


def known_names() -> Iterator[str]:
    """Every variable that is read, in the order of the documentation."""
    yield from (shared_name(field) for field in Shared.model_fields)
    for app in APPS:
        yield from (app_name(app, field.name) for field in own_fields(app))


def shared_name(field: str) -> str:
    alias = Shared.model_fields[field].validation_alias
    return alias if isinstance(alias, str) else field.upper()


def app_name(app: str, field: str) -> str:
    return f"FAIRWAY_{app}_{field}".upper()


def own_fields(app: str) -> list[dataclasses.Field[Any]]:
    """Fields of an app's dataclass that have a variable of their own."""
    return [field for field in dataclasses.fields(APPS[app]) if field.name not in HANDED_DOWN]


def _fairway_names() -> Iterator[str]:
    return (name for name in os.environ if name.startswith("FAIRWAY_"))


def _read_shared(filed: Mapping[str, str], mistakes: list[str]) -> Shared:
    """Where a value is malformed its default stands in, so that the rest can be judged too."""
    places = {shared_name(field): place for field, place in _places()}
    given: dict[str, Any] = {places[name]: filed[name] for name in filed if name in places}
    try:
        shared = Shared(**given)
    except ValidationError as error:
        malformed = {str(detail["loc"][0]): detail for detail in error.errors()}
        fields = {shared_name(field): field for field in Shared.model_fields}
        fields |= {field: field for field in Shared.model_fields}
        mistakes.extend(
            f"{shared_name(fields[place])}: {_words(detail)}" for place, detail in malformed.items()
        )
        defaults = {place: Shared.model_fields[fields[place]].default for place in malformed}
        shared = Shared(**{**given, **defaults})
    judged = Judged(
        debug=shared.debug,
        https=shared.https,
        secrets={
            shared_name("secret_key"): shared.secret_key.get_secret_value(),
            shared_name("key_pepper"): shared.key_pepper.get_secret_value(),
        },
        allowed_hosts=shared.allowed_hosts,
        trusted_origins=shared.csrf_trusted_origins,
        redis_url=shared.redis_url,
    )
    mistakes.extend(unsafe(judged))
    return shared


def _places() -> Iterator[tuple[str, str]]:
    """Field and the name under which ``Shared`` takes it."""
    for field, info in Shared.model_fields.items():
        alias = info.validation_alias
        yield field, alias if isinstance(alias, str) else field


def _handed_down(shared: Shared) -> Mapping[str, object]:
    debug_secret = DEVELOPMENT_SECRET if shared.debug else ""
    return {
        "var_dir": shared.var_dir.absolute(),
        "redis_url": shared.redis_url,
        "traces_dir": shared.traces_dir.absolute(),
        "port": shared.port,
        "secret_key": (shared.secret_key.get_secret_value() or debug_secret).encode(),
        "key_pepper": (shared.key_pepper.get_secret_value() or debug_secret).encode(),
    }


def _read_app(
    app: str,
    handed_down: Mapping[str, object],
    variables: Mapping[str, str],
    mistakes: list[str],
) -> Any:
    names = {field.name for field in dataclasses.fields(APPS[app])}
    values: dict[str, object] = {k: v for k, v in handed_down.items() if k in names}
    for field in own_fields(app):
        if text := variables.get(app_name(app, field.name)):
            values[field.name] = text
    try:
        return TypeAdapter(APPS[app]).validate_python(values)
    except ValidationError as error:
        for detail in error.errors():
            field_name = str(detail["loc"][0])
            if field_name not in HANDED_DOWN:
                mistakes.append(f"{app_name(app, field_name)}: {_words(detail)}")
        return None


def _words(detail: Any) -> str:
    """The message without the rejected value, which may be a secret."""
    return str(detail["msg"]).removeprefix("Value error, ")
