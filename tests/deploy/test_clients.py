"""What ``make clients`` installs and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import clients


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(clients, "CLIENTS", tmp_path)
    return tmp_path


def test_a_client_is_installed_once_and_again_when_another_version_is_wanted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def status(command: list[str], _: Path) -> int:
        ran.append(command)
        return 0

    monkeypatch.setattr(clients, "_status", status)
    for version in ("1", "1", "2"):
        clients.install({"some": (f"some=={version}",)})
    assert [command[-1] for command in ran if "install" in command] == ["some==1", "some==2"]
    assert (folder / "some" / "installed").read_text() == "some==2"


def test_what_cannot_be_installed_is_left_out_with_a_word(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clients, "_status", lambda command, folder: 1)
    clients.install({"some": ("some==1",)})
    assert not (folder / "some" / "installed").exists()
    assert "some could not be installed" in capsys.readouterr().out


def test_the_page_names_versions_and_what_fails() -> None:
    told = {
        "a": {"title": "a (Python)", "version": "1.2", "problems": {"it speaks": ""}},
        "b": {"title": "b", "version": "3", "problems": {"it speaks": "", "it hears": "no"}},
    }
    page = clients.page(told)
    assert "| a (Python) | 1.2 | 1 | all pass |" in page
    assert "| b | 3 | 2 | fails: it hears |" in page
    assert "- it speaks: a (Python), b\n- it hears: b\n" in page
