"""The product's own source, as trees, for tests that judge the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway", "tenants", "dashboard", "workers", "config")


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name of every module of the product -> its tree; migrations are left out."""
    return {_name(path): ast.parse(path.read_text()) for path in files()}


def files() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def imports(tree: ast.Module) -> Iterator[str]:
    """Every dotted name that the module imports, at whatever depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def attributes(tree: ast.Module) -> Iterator[str]:
    """Every dotted attribute that the module uses, such as ``asyncio.timeout``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
