"""The documents say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from config import reference
from config.env import APPS, own_fields
from config.inference_paths import INFERENCE_PATHS
from tests.source import ROOT

DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def test_the_reference_is_what_the_code_says() -> None:
    """Every setting, reason and metric is in it, because it is written from them."""
    assert (ROOT / "docs" / "reference.md").read_text() == reference.page(), (
        "run: manage.py reference"
    )


def test_a_deadline_that_passed_has_one_status_before_dispatch_and_another_after() -> None:
    told = (ROOT / "docs" / "reference.md").read_text()
    assert "| `deadline` | 429; 504 once dispatched |" in told
    answers = INFERENCE_PATHS["/v1/chat/completions"]["post"]["responses"]
    assert ["`deadline`" in answers[status]["description"] for status in ("429", "504")] == [
        True
    ] * 2


@pytest.mark.parametrize("app", sorted(APPS))
def test_every_setting_says_what_it_means(app: str) -> None:
    meanings = reference.comments(APPS[app])
    assert [field.name for field in own_fields(app) if not meanings.get(field.name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_make_target_and_command_that_is_named_exists(document: Path) -> None:
    text = document.read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = {f"make {target}" for target in re.findall(r"^(\w+):", makefile, re.MULTILINE)}
    assert set(re.findall(r"make (?:run|test|traffic|verify|bench|simulate)", text)) <= targets
    commands = {path.stem for path in ROOT.glob("*/management/commands/*.py")} | {
        "migrate",
        "collectstatic",
    }
    assert set(re.findall(r"manage\.py (\w+)", text)) <= commands
