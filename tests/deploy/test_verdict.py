"""The last line of ``make test``, and the pools of named servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from deploy import test as make_test
from deploy.errors import CannotRun
from deploy.programs import named_pool
from deploy.traffic import Tally, read_facts

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_ok"/>
<testcase classname="tests.b" name="test_lua"><skipped message="redis-server is not installed"/>
</testcase></testsuite></testsuites>"""


class Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        model = {"id": "Org/Model-7B", "owned_by": "vllm", "max_model_len": 4096}
        self.wfile.write(json.dumps({"data": [model]}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Models)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_last_line_names_what_failed_and_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    skipped = make_test._skipped(tmp_path / "report.xml")
    line = make_test.verdict(["types"], skipped, 61.4)
    expected = "tests.b::test_lua (redis-server is not installed)"
    assert line == f"make test: FAILED: types after 61 s; skipped: {expected}"


def test_nothing_failed_and_nothing_skipped_is_said_so() -> None:
    assert make_test.verdict([], [], 5) == "make test: passed after 5 s; skipped: nothing"


def test_named_servers_form_one_pool_of_the_model_that_they_serve(server: str) -> None:
    pool = named_pool([server, "http://127.0.0.1:9"])
    assert (pool.slug, pool.model, pool.context_tokens) == ("org-model-7b", "Org/Model-7B", 4096)
    assert {(one.slug, one.kind) for one in pool.servers} == {
        ("replica-1", "vllm"),
        ("replica-2", "vllm"),
    }


def test_a_named_server_that_is_not_there_is_said_in_one_line() -> None:
    with pytest.raises(CannotRun, match="does not answer") as refused:
        named_pool(["http://127.0.0.1:9"])
    assert "\n" not in str(refused.value)


def test_traffic_without_a_running_instance_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="make run"):
        read_facts(tmp_path / "run.json")


def test_the_tally_tells_each_tenant_apart() -> None:
    tally = Tally()
    tally.note("acme", "completed", 0.2)
    tally.note("acme", "429 shed", None)
    assert tally.lines() == [
        "  acme               2 calls  first token p50   200 ms  1 completed, 1 429 shed"
    ]
