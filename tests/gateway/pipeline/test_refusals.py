"""Calls that are refused before they are counted: wrong keys, bodies that are too large."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.snapshot.values import AliasValue
from tenants import key_format
from tests.fakes.data_plane import POOL, House, chat, replica
from tests.fakes.scripts import tokens


def wrong_key() -> dict[str, str]:
    return {"authorization": f"Bearer {key_format.generate()[0]}"}


def test_wrong_keys_of_one_address_are_bounded_and_valid_ones_are_not(in_house: Any) -> None:
    """S07"""

    async def scenario(house: House) -> None:
        answers = [await house.call(headers=wrong_key()) for _ in range(21)]
        assert [answer.status for answer in answers] == [401] * 20 + [429]
        error = answers[-1].json()["error"]
        assert error["code"] == "too_many_failures"
        assert 1_000 <= int(answers[-1].headers["retry-after-ms"]) <= 72_000
        assert (await house.call()).status == 200

    in_house(scenario)


def test_a_genuine_key_that_is_disabled_is_no_guess(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        keys = {name: replace(key, enabled=False) for name, key in house.snapshot.keys.items()}
        house.change(keys=keys)
        answers = [await house.call() for _ in range(30)]
        assert {answer.status for answer in answers} == {401}

    in_house(scenario)


def test_body_is_bounded_by_the_pool_that_it_asks_for(in_house: Any) -> None:
    """A pool of long contexts or images does not widen the bound of the others."""

    async def scenario(house: House) -> None:
        small = house.snapshot.pools[POOL]
        large = replace(small, slug="vision", capabilities=frozenset({"vision"}), replicas=())
        house.change(
            pools={POOL: small, "vision": large},
            aliases={**house.snapshot.aliases, "eye": AliasValue("eye", "vision", "eye")},
            most_body_bytes=large.most_body_bytes,
        )
        long = "x" * (small.most_body_bytes + 1)
        refused = await house.call(chat(long))
        assert (refused.status, refused.json()["error"]["code"]) == (413, "body_too_large")
        assert f"{small.most_body_bytes:,}" in refused.json()["error"]["message"]
        assert (await house.call(chat(long, model="eye"))).status == 503
        assert (await house.call(chat("x" * (small.most_body_bytes - 200)))).status == 200

    in_house(scenario)


def test_who_is_refused_out_of_the_queue_is_told_how_long_it_stood_there(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = tokens(1, ttft_s=5.0)
        first = asyncio.create_task(house.call(), name="first")
        await asyncio.sleep(1.0)
        late = await house.call(headers={"x-fairway-deadline-ms": "2000"})
        assert late.status == 429
        assert late.headers["x-fairway-queue-ms"] == "2000"
        assert (await first).status == 200

    in_house(scenario, replicas=(replica("r1", slots=1),))


def test_who_is_refused_before_the_class_is_known_has_none(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        await house.call(headers=wrong_key())
        await house.call(chat(model="nothing"))
        assert (await house.call()).status == 200
        assert [record.klass for record in house.records] == [None, None, PriorityClass.STANDARD]

    in_house(scenario)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages/count_tokens"])
def test_who_is_known_and_not_permitted_is_told_in_the_record(in_house: Any, path: str) -> None:
    async def scenario(house: House) -> None:
        (known,) = house.snapshot.keys.values()
        without_scope = replace(known, scopes=frozenset())
        for narrowed in (without_scope, replace(known, allowed_networks=("192.0.2.0/24",))):
            house.change(keys={known.key_id: narrowed})
            assert (await house.call(path=path)).status == 403
        house.change(keys={known.key_id: known})
        house.change_tenant("acme", suspended=True)
        assert (await house.call(path=path)).status == 403
        told = [(each.reason, each.tenant, each.key_id) for each in house.records]
        reasons = (Reason.NOT_PERMITTED, Reason.NOT_PERMITTED, Reason.SUSPENDED)
        assert told == [(reason, "acme", known.key_id) for reason in reasons]

    in_house(scenario)


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        ({"path": "/v1/nothing"}, 404, Reason.ENDPOINT_NOT_SERVED),
        ({"path": "/v1/" + "x" * 5_000}, 404, Reason.ENDPOINT_NOT_SERVED),
        ({"method": "GET"}, 405, Reason.METHOD_NOT_ALLOWED),
        ({"path": "/v1/models/nothing", "method": "GET"}, 404, Reason.MODEL_NOT_FOUND),
    ],
)
def test_what_no_call_is_made_of_has_a_record_of_its_id_and_caller(
    in_house: Any, asked: dict[str, Any], status: int, reason: Reason
) -> None:
    async def scenario(house: House) -> None:
        (known,) = house.snapshot.keys.values()
        answer = await house.call(**asked)
        assert answer.status == status
        (record,) = house.records
        assert (record.call_id, record.status) == (answer.headers["x-fairway-call-id"], status)
        assert (record.reason, record.tenant, record.key_id) == (reason, "acme", known.key_id)
        assert len(record.endpoint) <= 100

    in_house(scenario)


def test_a_path_that_nobody_serves_tells_nothing_of_the_key(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        for number in range(25):
            answer = await house.call(path="/v1/nothing", headers=wrong_key())
            assert answer.status == 404, number
        assert {record.tenant for record in house.records} == {""}
        assert (await house.call(headers=wrong_key())).status == 429

    in_house(scenario)


def test_who_is_not_known_is_nobody_in_the_record(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        (known,) = house.snapshot.keys.values()
        forged = house.secrets["acme"][:-1] + ("a" if house.secrets["acme"][-1] != "a" else "b")
        for headers in (wrong_key(), {"authorization": f"Bearer {forged}"}):
            assert (await house.call(headers=headers)).status == 401
        house.change(keys={known.key_id: replace(known, enabled=False)})
        assert (await house.call()).status == 401
        assert {(each.tenant, each.key_id) for each in house.records} == {("", "")}

    in_house(scenario)
