"""Who is still served while the memory of the gateway fills."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.data_plane import House, chat

CLASSES = ("interactive", "standard", "batch")


@pytest.mark.parametrize(
    ("used_ratio", "statuses"),
    [(0.5, (200, 200, 200)), (0.86, (200, 200, 503)), (0.93, (200, 503, 503)), (0.96, (503,) * 3)],
)
def test_calls_are_refused_by_class_as_memory_fills(
    in_house: Any, used_ratio: float, statuses: tuple[int, ...]
) -> None:
    """Row 19: with reason, Retry-After and a record of the tenant."""

    async def scenario(house: House) -> None:
        house.memory.read(used_ratio)
        answers = [
            await house.call(chat(), headers={"x-fairway-priority": klass}) for klass in CLASSES
        ]
        assert tuple(answer.status for answer in answers) == statuses
        for answer in answers:
            if answer.status == 503:
                assert answer.headers["x-fairway-reason"] == "gateway_full"
                assert int(answer.headers["retry-after"]) >= 2
        assert [record.tenant for record in house.records] == ["acme"] * 3
        assert house.leftovers == {}

    in_house(scenario)
