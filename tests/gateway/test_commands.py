from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from gateway.models import Alias, Pool, Replica
from gateway.sealing import unseal
from tests import factories

pytestmark = pytest.mark.django_db
URL = "http://10.0.0.1:8000"


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def run_json(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


@pytest.fixture
def pool() -> None:
    run("pool", "create", "p1", "--model", "m1=up/m1", "--model", "m2", "--input-per-mtok", "7")


@pytest.fixture
def replica(pool: None) -> None:
    run("replica", "create", "r1", "--pool", "p1", "--kind", "vllm", "--base-url", URL)


def test_a_pool_is_created_with_its_models(pool: None) -> None:
    shown = run_json("pool", "show", "p1")
    assert (shown["models"], shown["input_per_mtok"]) == (["m1", "m2"], 7)
    assert "p1" in run("pool", "list")


def test_a_pool_and_its_models_are_created_together_or_not_at_all() -> None:
    with pytest.raises(CommandError):
        run("pool", "create", "p1", "--model", "bad name")
    assert not Pool.objects.exists()


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (("--also", "p2", "--fallback", "p2"), "p2 is a target of m1 and its fallback too"),
        (("--fallback", "p1"), "p1 is a target of m1 and its fallback too"),
        (("--also", "p2*2", "--also", "p2=m1*3"), "p2 is named more than once"),
        (("--also", "p1"), "p1 is named more than once"),
        (("--fallback", "p2", "--fallback", "p2"), "p2 is named more than once"),
    ],
)
def test_a_pool_is_one_target_of_a_model(pool: None, targets: tuple[str, ...], words: str) -> None:
    run("pool", "create", "p2")
    with pytest.raises(CommandError, match=words):
        run("pool", "name", "p1", "m1", *targets)
    assert Alias.objects.get(name="m1").others == []


def test_two_models_of_one_pool_may_answer_to_one_name(pool: None) -> None:
    run("pool", "name", "p1", "m1", "--also", "p1=up/m9*2")
    assert len(Alias.objects.get(name="m1").others) == 1


def test_a_model_leads_to_several_pools(pool: None) -> None:
    for slug in ("p2", "p3"):
        run("pool", "create", slug)
    targets = ("--weight", "3", "--also", "p2=up/m9*1", "--fallback", "p3")
    said = run("pool", "name", "p1", "m1", *targets)
    assert said == "m1 leads to the pool p1, and to p2, and to p3 as a fallback.\n"
    row = Alias.objects.get(name="m1")
    assert row.weight == 3
    assert [(one["pool"], one["upstream_model"], one["weight"]) for one in row.others] == [
        ("p2", "up/m9", 1),
        ("p3", "", 1),
    ]
    with pytest.raises(CommandError, match="still has replicas or models"):
        run("pool", "remove", "p3")


def test_a_replica_says_whose_calls_and_which_prompts_it_runs(replica: None) -> None:
    factories.cast()
    words = "replica change r1 --region eu-1 --tenant acme --tenant rival --band-to-tokens 8000"
    run(*words.split())
    shown = run_json("replica", "show", "r1")
    assert (shown["region"], shown["tenants"]) == ("eu-1", ["acme", "rival"])
    assert (shown["band_from_tokens"], shown["band_to_tokens"]) == (0, 8000)
    run("replica", "change", "r1", "--everybody")
    assert run_json("replica", "show", "r1")["tenants"] == []


def test_a_parameter_is_set_for_a_pool_or_for_all_and_cleared(pool: None) -> None:
    def value_of(name: str) -> Any:
        return next(row["set"] for row in run_json("parameter", "list") if row["name"] == name)

    said = run("parameter", "set", "batch_every", "40", "--pool", "p1")
    assert said == "batch_every of p1 is 40 now.\n"
    run("parameter", "set", "batch_every", "10")
    assert value_of("batch_every") == {"*": "10", "p1": "40"}
    said = run("parameter", "clear", "batch_every", "--pool", "p1")
    assert said == "batch_every of p1 has its default of 20 again.\n"
    assert value_of("batch_every") == {"*": "10"}


def test_change_touches_only_what_is_given(replica: None) -> None:
    run("pool", "change", "p1", "--routing", "round_robin")
    assert run_json("pool", "show", "p1")["input_per_mtok"] == 7
    run("replica", "change", "r1", "--slots", "5")
    shown = run_json("replica", "show", "r1")
    assert (shown["slots"], shown["kind"], shown["base_url"]) == (5, "vllm", URL)


def test_a_replica_goes_through_its_life(replica: None) -> None:
    for operation, state in (("drain", "draining"), ("disable", "disabled"), ("enable", "enabled")):
        run("replica", operation, "r1", "--why", "test")
        assert run_json("replica", "list", "--pool", "p1")[0]["state"] == state
    run("pool", "drain", "p1")
    assert Replica.objects.get().state == "draining"
    run("replica", "remove", "r1")
    run("pool", "unname", "m1")
    run("pool", "name", "p1", "m2", "--upstream-model", "other")
    run("pool", "unname", "m2")
    run("pool", "remove", "p1")
    assert run_json("pool", "list") == []


def test_an_api_key_comes_from_a_file_and_is_not_printed(pool: None, tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("s3cret\n")
    words = ("replica", "create", "r1", "--pool", "p1", "--kind", "openai", "--base-url", URL)
    shown = run(*words, "--api-key-file", str(secret))
    assert "s3cret" not in shown
    assert unseal(Replica.objects.get().sealed_api_key) == "s3cret"


@pytest.mark.parametrize(
    "words",
    [
        "pool show nowhere",
        "pool create p1",
        "pool create Bad_Slug",
        "pool remove p1",
        "pool name p1 m1 --also p1*many",
        "parameter set no_such_number 1",
        "parameter set batch_every -1",
        "parameter set batch_every nan",
        "parameter set batch_every inf",
        "parameter set batch_every 1.5",
        "replica change r1 --tenant nobody",
        "parameter set batch_every 1 --pool nowhere",
        "parameter clear batch_every",
        "pool name p1 m1 --fallback nowhere",
        "replica change r1 --band-from-tokens 10 --band-to-tokens 5",
        "pool create p9 --context-tokens -4",
        "replica show nowhere",
        "replica drain nowhere",
        f"replica create r1 --pool p1 --kind vllm --base-url {URL}",
        f"replica create r2 --pool nowhere --kind vllm --base-url {URL}",
        "replica create r2 --pool p1 --kind vllm --base-url http://169.254.169.254",
        f"replica create r2 --pool p1 --kind vllm --base-url {URL} --api-key-file /no/such/file",
    ],
)
def test_a_mistake_is_one_line_that_helps(replica: None, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(*words.split())
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) > 20
