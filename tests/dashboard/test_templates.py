"""Every template compiles, and none needs what the CSP forbids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template.loader import get_template

ROOTS = [
    Path(__file__).resolve().parents[2] / app / "templates" for app in ("dashboard", "workers")
]
FILES = {str(path.relative_to(root)): path for root in ROOTS for path in root.rglob("*.html")}
TEMPLATES = sorted(FILES)
FORBIDDEN = re.compile(r"\sstyle=|\son[a-z]+=|<style|javascript:|\|safe|autoescape off")


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_compiles(name: str) -> None:
    get_template(name)


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_has_no_inline_style_or_handler(name: str) -> None:
    assert not FORBIDDEN.search(FILES[name].read_text())
