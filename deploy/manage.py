"""``make manage ARGS="tenant list"``: a command of ``manage.py`` beside a running ``make run``.

With the secrets and the directory of that run, so that a key made here is known there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from deploy.errors import CannotRun
from deploy.run import ROOT, environment


def main() -> None:
    var = Path(os.environ.get("FAIRWAY_VAR_DIR") or ROOT / "var").absolute()
    if not (var / "secret_key").exists():
        sys.exit(f"Nothing has run from {var} yet: start it with make run.")
    try:
        os.environ.update(environment(var, int(os.environ.get("PORT") or 8000)))
    except CannotRun as reason:
        sys.exit(str(reason))
    manage = str(ROOT / "manage.py")
    os.execv(sys.executable, [sys.executable, manage, *sys.argv[1:]])


if __name__ == "__main__":
    main()
