from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

ROOT = Path(__file__).parents[2]


def test_several_replicas_are_ready_in_one_process() -> None:
    command = [sys.executable, "manage.py", "simulated_replica", "--port", "0", "--count", "3"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={"FAIRWAY_DEBUG": "true"},
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.terminate()
        assert process.wait() == 0
    assert len({line for line in lines if line.startswith("READY http://127.0.0.1:")}) == 3


@pytest.mark.parametrize(
    "option", [{"count": 0}, {"speed": 0.0}, {"sequences": 0}, {"kv_tokens": -5}]
)
def test_impossible_option_is_refused_in_one_line(option: dict[str, float]) -> None:
    with pytest.raises(CommandError, match="must be at least 1"):
        call_command("simulated_replica", **option)
