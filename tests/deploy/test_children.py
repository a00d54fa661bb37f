"""The supervisor of ``make run``: what dies comes back, what is stopped stays stopped."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy import children
from deploy.children import Children, Program


def counting(path: Path, then: str) -> tuple[str, ...]:
    """A program that appends one byte to ``path`` and goes on with ``then``."""
    return (sys.executable, "-c", f"open({str(path)!r}, 'a').write('x')\n{then}")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "FIRST_PAUSE_S", 0.01)


async def test_a_child_that_ends_is_started_again_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row 21."""
    family = Children(tmp_path)
    await family.start(Program("frail", counting(tmp_path / "starts", "exit(3)")))
    starts = tmp_path / "starts"
    await until(lambda: starts.exists() and len(starts.read_text()) >= 3)
    await family.stop()
    assert "frail ended (status 3); starting it again" in capsys.readouterr().out


async def test_pauses_between_restarts_double(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family = Children(tmp_path)
    await family.start(Program("frail", (sys.executable, "-c", "exit(1)")))
    said = ""

    def thrice() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return said.count("starting it again") >= 3

    await until(thrice)
    await family.stop()
    for pause in ("0.01", "0.02", "0.04"):
        assert f"in {pause} s" in said


async def test_stop_ends_users_before_what_they_use(tmp_path: Path) -> None:
    family, order = Children(tmp_path), tmp_path / "order"
    for wave, name in enumerate(("first", "second")):
        ready = tmp_path / name
        code = (
            "import signal, sys, pathlib, threading\n"
            f"note = lambda *_: (open({str(order)!r}, 'a').write('{name} '), sys.exit())\n"
            "signal.signal(15, note)\n"
            f"pathlib.Path({str(ready)!r}).touch()\nthreading.Event().wait()"
        )
        await family.start(Program(name, (sys.executable, "-c", code), wave=wave))
        await until(ready.exists)
    await family.stop()
    assert order.read_text() == "second first "


async def test_a_child_that_ignores_the_signal_is_killed_after_its_grace(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import signal, os, pathlib, threading\nsignal.signal(15, signal.SIG_IGN)\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\nthreading.Event().wait()"
    )
    family = Children(tmp_path)
    await family.start(Program("deaf", (sys.executable, "-c", code), grace_s=0.1))
    await until(lambda: pid.exists() and pid.read_text() != "")
    await family.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
