"""Two scenarios about what one tenant may hold: over all classes, and of one replica's memory."""

from __future__ import annotations

import pytest

from gateway.core.priority import PriorityClass
from gateway.core.queues.fair_queue import StartTimeFairQueue
from tests.scenarios.pool_model import Flow, PoolModel, Run

INTERACTIVE, STANDARD, BATCH = PriorityClass
CALL_S = 500 / 20_480 + 0.03 * 100
SLOTS = 8

# A offers interactive calls worth 0.3 of the capacity; A's and B's standard are backlogged.
CLASSES = (
    Flow("a", 500, 100, every_s=CALL_S / SLOTS / 0.3, klass=INTERACTIVE),
    Flow("a", 500, 100, threads=24),
    Flow("b", 500, 100, threads=24),
)


def share_of_a() -> float:
    model = PoolModel(
        CLASSES, queue="start_time_fair", replicas=1, slots=SLOTS, seed=11, aged_every=0
    )
    service = model.run_until(1_000.0).service(200.0, 1_000.0)
    return service["a"] / (service["a"] + service["b"])


def test_each_tenant_receives_half_of_all_service_over_all_its_classes() -> None:
    assert share_of_a() == pytest.approx(0.5, abs=0.05)


def test_classes_that_know_nothing_of_each_other_give_one_tenant_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The naive rule: a tenant's share in each class on its own, 0.3 + 0.35."""
    monkeypatch.setattr(StartTimeFairQueue, "charge_from_above", lambda *_: None)
    assert share_of_a() == pytest.approx(0.65, abs=0.03)


KV_TOKENS = 250_000
CHATS = tuple(f"chat{number}" for number in range(4))
CHAT_FLOWS = tuple(Flow(name, 1_000, 100, threads=4) for name in CHATS)
LONG = Flow("long", 31_000, 1_000, threads=16)
WEIGHT_SHARE = 1 / 5


def contexts(*flows: Flow, queue: str = "start_time_fair") -> Run:
    model = PoolModel(flows, queue=queue, replicas=1, slots=8, seed=11, batch_share_ratio=1.25)
    return model.run_until(600.0)


def test_a_tenant_of_long_contexts_holds_its_share_of_the_kv_cache() -> None:
    with_long, alone = contexts(LONG, *CHAT_FLOWS), contexts(*CHAT_FLOWS)
    kv_share = with_long.most_tokens("long", 60.0) / KV_TOKENS
    assert kv_share <= 1.25 * WEIGHT_SHARE
    assert with_long.ttft_s(CHATS, 0.95, 60.0) <= 2.0 * alone.ttft_s(CHATS, 0.95, 60.0)


def test_first_come_gives_it_the_whole_cache() -> None:
    first_come, alone = contexts(LONG, *CHAT_FLOWS, queue="fifo"), contexts(*CHAT_FLOWS)
    assert first_come.most_tokens("long", 60.0) / KV_TOKENS > 0.5
    assert first_come.ttft_s(CHATS, 0.95, 60.0) > 2.0 * alone.ttft_s(CHATS, 0.95, 60.0)
