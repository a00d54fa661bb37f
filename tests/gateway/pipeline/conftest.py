"""A data plane in virtual time for one test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.data_plane import House
from tests.fakes.virtual_time import VirtualTime, virtual_time

__all__ = ["virtual_time"]

Scenario = Callable[[House], Awaitable[Any]]


@pytest.fixture
def in_house(virtual_time: VirtualTime, tmp_path: Path) -> Callable[..., Any]:
    """``in_house(scenario, **house_options)`` runs ``scenario(house)`` and closes the house."""

    def run(scenario: Scenario, **options: Any) -> Any:
        async def main() -> Any:
            house = await House(virtual_time.clock, tmp_path, **options).open()
            try:
                return await scenario(house)
            finally:
                await house.close()

        return virtual_time.run(main())

    return run
