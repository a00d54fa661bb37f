"""Every template of the dashboard compiles, and none needs what the CSP forbids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template.loader import get_template

ROOT = Path(__file__).resolve().parents[2] / "dashboard" / "templates"
TEMPLATES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.html"))
FORBIDDEN = re.compile(r"\sstyle=|\son[a-z]+=|<style|javascript:|\|safe|autoescape off")


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_compiles(name: str) -> None:
    get_template(name)


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_has_no_inline_style_or_handler(name: str) -> None:
    assert not FORBIDDEN.search((ROOT / name).read_text())
