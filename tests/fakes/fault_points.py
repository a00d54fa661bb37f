"""An exception at any await of a module, chosen by its place in the source.

``FaultPoints(modules)`` reads each module's source, wraps what every ``await``, ``async for`` and
``async with`` waits for, and gives the compiled result to the functions that exist already, so the
product runs as it is but for those points. ``arm`` makes one of them raise ``Injected`` once:
*before*, so that nothing was done, or *after*, when everything was. ``passed`` lists what a run
passed, in order, which tells what may be armed. Leaving the context restores the functions.
"""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, Self

NAME = "__fault_points__"


class Injected(Exception):
    """The bug that a test asked for."""


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Point:
    place: str  # "file.py Class.method 1": the first await of that method
    when: When


class FaultPoints:
    """``places``: every await of the modules, passed or not."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self._modules = tuple(modules)
        self._kept: list[tuple[FunctionType, CodeType]] = []
        self._armed: tuple[Point, int] | None = None
        self.passed: list[Point] = []
        self.places: set[str] = set()

    def arm(self, point: Point | None, nth: int = 1) -> None:
        """``nth`` passing from now on, counted from 1."""
        self._armed = None if point is None else (point, nth)
        self.passed.clear()

    @property
    def fired(self) -> bool:
        return self._armed is None

    def __enter__(self) -> Self:
        for module in self._modules:
            source = Path(str(module.__file__))
            rewrite = _Rewrite(source.name)
            tree = ast.fix_missing_locations(rewrite.visit(ast.parse(source.read_text())))
            self.places |= rewrite.places
            codes = dict(_codes(compile(tree, str(source), "exec", dont_inherit=True)))
            setattr(module, NAME, self)
            for function in _functions(module):
                if function.__qualname__ in codes:
                    self._kept.append((function, function.__code__))
                    function.__code__ = codes[function.__qualname__]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for function, code in self._kept:
            function.__code__ = code
        self._kept.clear()
        for module in self._modules:
            delattr(module, NAME)

    async def awaited(self, place: str, what: Awaitable[Any]) -> Any:
        try:
            self.pass_by(Point(place, When.BEFORE))
        except Injected:
            if inspect.iscoroutine(what):
                what.close()
            raise
        result = await what
        self.pass_by(Point(place, When.AFTER))
        return result

    def entered(self, place: str, what: AbstractAsyncContextManager[Any]) -> _Entered:
        return _Entered(self, place, what)

    def iterated(self, place: str, what: AsyncIterator[Any]) -> _Iterated:
        return _Iterated(self, place, what)

    def pass_by(self, point: Point) -> None:
        self.passed.append(point)
        if self._armed is not None and self._armed[0] == point:
            nth = self._armed[1] - 1
            self._armed = (point, nth) if nth else None
            if not nth:
                raise Injected(f"{point.when} {point.place}")


@dataclass(frozen=True, slots=True)
class _Entered:
    points: FaultPoints
    place: str
    what: AbstractAsyncContextManager[Any]

    async def __aenter__(self) -> Any:
        self.points.pass_by(Point(self.place, When.BEFORE))
        return await self.what.__aenter__()

    async def __aexit__(self, *raised: Any) -> bool | None:
        swallowed = await self.what.__aexit__(*raised)
        self.points.pass_by(Point(self.place, When.AFTER))
        return swallowed


@dataclass(frozen=True, slots=True)
class _Iterated:
    points: FaultPoints
    place: str
    what: AsyncIterator[Any]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self.points.pass_by(Point(self.place, When.BEFORE))
        item = await anext(self.what)
        self.points.pass_by(Point(self.place, When.AFTER))
        return item


class _Rewrite(ast.NodeTransformer):
    def __init__(self, file: str) -> None:
        self._file = file
        self._within: list[str] = []
        self._count: Counter[str] = Counter()
        self.places: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_Await(self, node: ast.Await) -> ast.Await:
        self.generic_visit(node)
        node.value = self._through("awaited", node.value)
        return node

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AsyncFor:
        self.generic_visit(node)
        node.iter = self._through("iterated", node.iter)
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AsyncWith:
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = self._through("entered", item.context_expr)
        return node

    def _inside(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def _through(self, method: str, waited: ast.expr) -> ast.Call:
        name = f"{self._file} {'.'.join(self._within)}"
        self._count[name] += 1
        place = f"{name} {self._count[name]}"
        self.places.add(place)
        points = ast.Name(NAME, ast.Load())
        made = ast.Call(
            ast.Attribute(points, method, ast.Load()), [ast.Constant(place), waited], []
        )
        return ast.copy_location(made, waited)


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Of the module and its classes, beneath their decorators."""
    classes = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__
    ]
    for space in (module, *classes):
        for each in vars(space).values():
            function: object = each.fget if isinstance(each, property) else each
            if callable(function):
                function = inspect.unwrap(function)
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function
