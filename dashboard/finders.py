"""Where is plotly.js? Inside the plotly wheel: served from there under ``vendor/``, not copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

PREFIX = "vendor"
NAME = "plotly.min.js"


class VendorStorage(FileSystemStorage):
    """``prefix`` is the folder under which collectstatic puts what it lists."""

    prefix = PREFIX


class PlotlyFinder(BaseFinder):
    """Finds ``vendor/plotly.min.js``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        package_data = Path(plotly.__file__).parent / "package_data"
        self._storage = VendorStorage(location=str(package_data))

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != f"{PREFIX}/{NAME}":
            return []
        found = self._storage.path(NAME)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Any]]:
        yield NAME, self._storage
