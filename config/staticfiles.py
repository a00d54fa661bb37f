"""Where do static files come from, and under which name?

The script that draws figures comes from the installed plotly package itself. Once collected,
names carry a hash and files are compressed; before that (development, tests) names are plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage
from whitenoise.storage import CompressedManifestStaticFilesStorage

PREFIX = "plotly"
SCRIPT = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Serves ``plotly/plotly.min.js``, nothing else of the package."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        spec = find_spec("plotly")
        assert spec is not None
        assert spec.origin is not None
        self._storage = FileSystemStorage(str(Path(spec.origin).parent / "package_data"))
        self._storage.prefix = PREFIX  # type: ignore[attr-defined]

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        found = self._storage.path(SCRIPT) if path == f"{PREFIX}/{SCRIPT}" else None
        if find_all:
            return [found] if found else []
        return found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        yield SCRIPT, self._storage


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Hashed names, or plain ones as long as nothing was collected."""

    def stored_name(self, name: str) -> str:
        return super().stored_name(name) if self.hashed_files else name
