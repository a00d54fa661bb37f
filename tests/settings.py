"""Settings of tests and of the type checker: the product's, with an environment that is complete.

The test database is a file (threads of the gateway see what the test wrote) in a directory that
goes away with the process. ``DATABASE_URL`` may point at PostgreSQL instead.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_directory = Path(tempfile.mkdtemp(prefix="fairway-tests-"))
atexit.register(shutil.rmtree, _directory, ignore_errors=True)

(_directory / "static").mkdir()
os.environ.setdefault("FAIRWAY_DEBUG", "true")
os.environ.setdefault("FAIRWAY_VAR_DIR", str(_directory))
os.environ.setdefault("LOG_LEVEL", "WARNING")
os.environ.setdefault("FAIRWAY_GATEWAY_REPLICA_NETWORKS", "127.0.0.0/8,::1/128")
os.environ["ALLOWED_HOSTS"] = "127.0.0.1,localhost,testserver"

from config.settings import *  # noqa: E402, F403
from config.settings import DATABASES  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if "sqlite3" in DATABASES["default"]["ENGINE"]:
    DATABASES["default"]["TEST"] = {"NAME": str(_directory / "test.sqlite3")}
