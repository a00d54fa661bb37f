"""Every function of some modules, and how to make one of them fail wherever it is known."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

PRODUCT = ("gateway.", "tenants.", "dashboard.", "workers.", "config.")


class Injected(Exception):
    pass


@dataclass(frozen=True)
class Step:
    """``owner`` is a module or a class."""

    name: str
    owner: Any
    attribute: str
    function: Callable[..., Any]

    def replace(self, patch: pytest.MonkeyPatch, instead: Callable[..., Any]) -> None:
        """Also where it was imported by its name."""
        broken = functools.wraps(self.function)(instead)
        patch.setattr(self.owner, self.attribute, broken)
        for name, module in tuple(sys.modules.items()):
            known = name.startswith(PRODUCT) and vars(module).get(self.attribute)
            if known is self.function:
                patch.setattr(module, self.attribute, broken)


def steps(modules: Sequence[str]) -> Iterator[Step]:
    """Functions and methods that these modules define; those of Python's own names are left out."""
    for name in modules:
        for attribute, value in tuple(vars(importlib.import_module(name)).items()):
            if getattr(value, "__module__", "") != name:
                continue
            if inspect.isfunction(value):
                yield Step(f"{name}.{attribute}", sys.modules[name], attribute, value)
            elif inspect.isclass(value):
                for method, function in tuple(vars(value).items()):
                    if inspect.isfunction(function) and not method.startswith("__"):
                        yield Step(f"{name}.{attribute}.{method}", value, method, function)
