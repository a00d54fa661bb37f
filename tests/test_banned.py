"""What the code must not contain, each for a reason that a fault taught."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests import source

PARSING_EDGES = ("views", "api", "consumers", "tasks", "asgi")
BROAD_EXCEPTS = 3
TYPE_IGNORES = 10
LONGEST_FILE = 400
LONGEST_FUNCTION = 60


def edges() -> Iterator[tuple[str, ast.Module]]:
    for name, tree in source.modules().items():
        last = name.rsplit(".", 1)[-1]
        if last in PARSING_EDGES or ".management.commands." in name or ".views." in name:
            yield name, tree


def uses(attribute: str) -> list[str]:
    return [
        name
        for name, tree in source.modules().items()
        if attribute in source.attributes(tree) or attribute in source.imports(tree)
    ]


def test_nothing_waits_with_wait_for() -> None:
    """M8: on Python 3.11 it swallows the cancellation of a stream whose client left."""
    assert uses("asyncio.wait_for") == []


def test_only_the_environment_module_reads_the_environment() -> None:
    readers = {*uses("os.environ"), *uses("os.getenv")}
    setters = {"config.asgi", "config.celery"}  # they name the settings module, nothing else
    assert readers - setters == {"config.env"}


def test_no_pickle_in_the_product() -> None:
    """S43."""
    assert uses("pickle") == []


def test_edges_reach_rows_through_selectors_and_services_only() -> None:
    """S09."""
    guilty = [
        (name, used)
        for name, tree in edges()
        for used in source.attributes(tree)
        if re.search(r"\.objects\b", used)
    ]
    assert guilty == []


def test_broad_excepts_are_few() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in source.modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    ]
    assert len(found) <= BROAD_EXCEPTS, found


def test_ignored_types_are_few() -> None:
    found = [str(path) for path in source.files() for _ in _ignores(path.read_text())]
    assert len(found) <= TYPE_IGNORES, found


def test_files_and_functions_stay_short() -> None:
    files = [str(p) for p in source.files() if p.read_text().count("\n") > LONGEST_FILE]
    functions = [
        f"{name}:{node.lineno}"
        for name, tree in source.modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert files + functions == []


def _ignores(text: str) -> list[str]:
    return re.findall(r"#\s*type:\s*ignore", text)
