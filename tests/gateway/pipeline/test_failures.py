"""A replica may fail in every way: retried while nothing was relayed, told honestly afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.reasons import Outcome
from tests.fakes import scripts
from tests.fakes.data_plane import House, chat, replica
from tests.fakes.scripts import Script

BEFORE_CONTENT = {
    "refused": scripts.refused(),
    "reset before headers": scripts.cut_before_headers(),
    "cut after the role": scripts.cut_after(0),
    "ends after the role": scripts.ends_without_done(0),
    "500": scripts.status(500),
    "503": scripts.status(503, retry_after="1"),
    "429": scripts.status(429),
    "error object in a 200": scripts.error_in_200(),
    "error event first": scripts.error_event_first(),
    "html page": scripts.html_error(200),
    "garbage": scripts.garbage(),
    "redirect": scripts.redirect("http://169.254.169.254/"),
    "compressed": scripts.compressed(b"x"),
}
BY_NAME = [pytest.param(script, id=name) for name, script in BEFORE_CONTENT.items()]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "answer"])
@pytest.mark.parametrize("script", BY_NAME)
def test_failure_before_content_is_retried_elsewhere(
    in_house: Any, script: Script, stream: bool
) -> None:
    """G12, G13, R14, rows 39, 48"""

    async def scenario(house: House) -> None:
        house.scripted.default = script
        house.scripted.always["good"] = scripts.tokens(3)
        for _ in range(20):  # until the failing one was chosen
            answer = await house.call(chat(stream=stream))
            assert answer.status == 200
            if len(house.records[-1].attempts) == 2:
                break
        record = house.records[-1]
        assert [attempt.replica for attempt in record.attempts] == ["bad", "good"]
        assert record.outcome is Outcome.COMPLETED
        assert house.leftovers == {}

    in_house(scenario, replicas=(replica("bad"), replica("good")))


@pytest.mark.parametrize("script", BY_NAME)
def test_failure_without_another_replica_is_an_error_of_the_replica(
    in_house: Any, script: Script
) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = script
        answer = await house.call(chat(stream=True))
        assert answer.status in (429, 502, 503)
        assert answer.json()["error"]["message"]
        assert house.records[0].outcome is Outcome.FAILED
        assert house.records[0].completion_tokens == 0
        assert house.leftovers == {}

    in_house(scenario, replicas=(replica("only"),))


@pytest.mark.parametrize(
    "script",
    [scripts.cut_after(3), scripts.cut_after(3, reset=True), scripts.ends_without_done(3)],
    ids=["cut", "reset", "clean end"],
)
def test_stream_that_breaks_ends_with_an_error_event(in_house: Any, script: Script) -> None:
    """G12, R8, rows 43, I7"""

    async def scenario(house: House) -> None:
        house.scripted.default = script
        answer = await house.call(chat(stream=True))
        assert answer.status == 200
        assert not answer.done
        assert answer.events()[-1]["error"]["code"] == "upstream_incomplete"
        record = house.records[0]
        assert (record.outcome, record.reason) == (Outcome.FAILED, "upstream_incomplete")
        assert record.completion_tokens == 3
        assert len(record.attempts) == 1
        assert house.leftovers == {}

    in_house(scenario)


def test_answer_without_stream_is_retried_even_after_content(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.always["bad"] = scripts.cut_after(3)
        house.scripted.always["good"] = scripts.tokens(2)
        for _ in range(8):
            answer = await house.call(chat())
            assert answer.json()["choices"][0]["message"]["content"] == "t0 t1 "

    in_house(scenario, replicas=(replica("bad"), replica("good")))


def test_refusal_of_the_replica_is_relayed_and_blames_nobody(in_house: Any) -> None:
    """Row 48; 20 invalid requests never eject a replica"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.status(400)
        for _ in range(20):
            answer = await house.call(chat())
            assert answer.status == 400
            assert answer.json()["error"]["message"] == "status 400"
        assert {record.reason for record in house.records} == {"upstream_refused"}
        assert {live.state for live in house.gateway.fleet.live()} == {"serving"}
        house.scripted.default = scripts.tokens(1)
        assert (await house.call(chat())).status == 200

    in_house(scenario)


@pytest.mark.parametrize("code", [400, 401, 429, 500])
def test_what_a_replica_said_of_its_error_is_kept_with_the_attempt(
    in_house: Any, code: int
) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = scripts.status(code)
        await house.call(chat())
        assert {each.said for each in house.records[0].attempts} == {f"status {code}"}

    in_house(scenario)


def test_retries_stay_within_their_budget(in_house: Any) -> None:
    """G15, R9, row 63"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.status(500)
        for _ in range(200):
            await house.call(chat())
        attempts = sum(len(record.attempts) for record in house.records)
        assert attempts <= 1.10 * 200 + 10

    in_house(scenario, replicas=tuple(replica(f"r{n}") for n in range(4)))


def test_replica_that_never_answers_is_given_up_in_time(in_house: Any) -> None:
    """G14, row 40"""

    async def scenario(house: House) -> None:
        house.scripted.always["mute"] = scripts.hang_before_headers()
        house.scripted.always["good"] = scripts.tokens(1)
        for _ in range(20):
            assert (await house.call(chat(stream=True))).text == "t0 "
        slow = [record for record in house.records if len(record.attempts) == 2]
        assert slow
        assert all(record.ttft_s == pytest.approx(60.0) for record in slow)

    in_house(scenario, replicas=(replica("mute"), replica("good")))


def test_stream_that_stalls_is_cut_with_an_error_event(in_house: Any) -> None:
    """Row 41"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.hang_after(2)
        answer = await house.call(chat(stream=True))
        assert answer.events()[-1]["error"]["code"] == "stream_stalled"
        assert answer.times[-1] == pytest.approx(60.0)
        assert house.records[0].completion_tokens == 2
        assert house.leftovers == {}

    in_house(scenario)


@pytest.mark.parametrize("stream", [True, False])
def test_deadline_after_dispatch_aborts_and_blames_nobody(in_house: Any, stream: bool) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(5, ttft_s=9.0)
        headers = {"x-fairway-deadline-ms": "2000"}
        for _ in range(20):
            answer = await house.call(chat(stream=stream), headers=headers)
            assert answer.status == 504
            assert answer.json()["error"]["code"] == "deadline"
        assert {record.outcome for record in house.records} == {Outcome.ABORTED}
        assert {live.state for live in house.gateway.fleet.live()} == {"serving"}

    in_house(scenario)


def test_deadline_in_the_queue_evicts(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(5, gap_s=2.0)
        async with asyncio.TaskGroup() as callers:
            callers.create_task(house.call(chat()))
            late = callers.create_task(
                house.call(chat(), headers={"x-stainless-read-timeout": "3"})
            )
        assert late.result().status == 429
        assert house.records[0].reason == "deadline"
        assert house.records[0].outcome is Outcome.EVICTED
        assert house.records[0].duration_s == pytest.approx(3.0)

    in_house(scenario, replicas=(replica("r1", slots=1),))


def test_silent_stream_is_kept_alive_by_comments(in_house: Any) -> None:
    """G25"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(2, ttft_s=50.0)
        answer = await house.call(chat(stream=True))
        comments = [
            round(time_s)
            for time_s, part in zip(answer.times, answer.parts, strict=True)
            if part.startswith(b": ")
        ]
        assert comments == [10, 25, 40]
        assert answer.text == "t0 t1 "

    in_house(scenario)


def test_failure_after_an_early_commit_is_an_error_event(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = Script(
            (scripts.Wait(20.0), scripts.Cut()), headers=(("Content-Type", "text/event-stream"),)
        )
        answer = await house.call(chat(stream=True))
        assert answer.status == 200
        assert answer.events()[-1]["error"]["code"] == "upstream_incomplete"
        assert len(house.records[0].attempts) == 2, "retry stays allowed until the first content"

    in_house(scenario)


def test_tokens_before_an_error_in_the_same_read_are_relayed(in_house: Any) -> None:
    """G12, G13"""

    async def scenario(house: House) -> None:
        failing = scripts.event({"error": {"message": "engine dead", "code": 500}})
        together = scripts.ROLE + scripts.chunk(content="half") + failing
        house.scripted.default = Script((scripts.Send(together),))
        answer = await house.call(chat(stream=True))
        assert answer.text == "half"
        assert answer.events()[-1]["error"]["code"] == "upstream_error"
        assert house.records[0].completion_tokens == 1

    in_house(scenario)


def test_call_waits_for_a_replica_that_was_full(in_house: Any) -> None:
    """Row 48"""

    async def scenario(house: House) -> None:
        house.scripted.say("only", scripts.status(503, retry_after="1"))
        answer = await house.call(chat(stream=True))
        assert answer.status == 200
        assert house.records[0].ttft_s == pytest.approx(1.0)

    in_house(scenario, replicas=(replica("only"),))


def test_call_that_finds_its_replica_full_again_is_told_to_wait(in_house: Any) -> None:
    """Row 48, R22"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.status(503)
        answer = await house.call(chat())
        assert (answer.status, answer.json()["error"]["code"]) == (429, "shed")
        assert int(answer.headers["retry-after"]) >= 1

    in_house(scenario, replicas=(replica("only"),))
