"""S29: only the paths of the APIs lead to a replica. Everything else that vLLM serves beside them,
some of it without a key, is unknown here, however it is spelled.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.clients import chat
from tests.e2e.installation import Installation
from tests.e2e.operator import Operator
from tests.e2e.scripted import scripted
from tests.fakes.scripted_replica import ScriptedReplica

MARK = "smuggled-4711"
CONTROL = """
/pause /resume /is_paused /sleep /wake_up /is_sleeping /collective_rpc /abort_requests
/reset_prefix_cache /reset_mm_cache /reset_encoder_cache /load /version /ping /server_info
/start_profile /stop_profile /tokenize /detokenize /tokenizer_info /invocations /generate
/inference/v1/generate /scale_elastic_ep /is_scaling_elastic_ep /update_weights /get_world_size
/init_weight_transfer_engine /pooling /classify /score /rerank /v2/rerank /v2/embed
/start_weight_update /start_draft_weight_update /finish_weight_update /fault_tolerance/apply
/fault_tolerance/status /openapi.json /redoc /docs /docs/oauth2-redirect
"""
OF_V1 = """
/v1/load_lora_adapter /v1/unload_lora_adapter /v1/score /v1/rerank /v1/classify /v1/pooling
/v1/audio/transcriptions /v1/audio/translations /v1/realtime /v1/responses/resp_1
/v1/responses/resp_1/cancel /v1/chat/completions/render /v1/completions/render /v1/tokenize
/v1/images/generations /v1/moderations /v1/chat/completions/input_tokens
"""
SPELLED = r"""
/v1/../pause /v1/%2e%2e/pause /v1/%2E%2E/pause /v1/..%2fpause /v1/chat/../../pause /v1/./pause
/v1/chat/completions/../../../pause /v1//pause //pause /v1//chat/completions /v1/chat//completions
/V1/chat/completions /v1/Chat/Completions /v1/CHAT/COMPLETIONS /v1/chat/completions/
/v1/chat/completions%00 /v1/chat/completions%20 /v1/chat/completions;x /v1/chat\completions
/v1/%252e%252e/pause /v1/..;/pause /v1/chat/completions%2f..%2f..%2f..%2fpause /v1 /v1/ /v1x/pause
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(operator: Operator) -> AsyncIterator[ScriptedReplica]:
    async with scripted(operator) as it:
        yield it


def asked(place: Installation, method: str, path: str) -> int:
    """As the bytes stand here; the client rewrites nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=20)
    body = json.dumps({**chat("scripted"), "x": MARK})
    headers = {
        "Authorization": f"Bearer {place.api_key}",
        "Content-Type": "application/json",
        "X-Mark": MARK,
    }
    try:
        connection.request(method, path, body if method == "POST" else None, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_no_path_beside_the_apis_reaches_a_replica(
    estate: Installation, replica: ScriptedReplica
) -> None:
    """S29"""
    before = len(replica.calls)
    found = {
        (method, path): asked(estate, method, path)
        for path in " ".join((CONTROL, OF_V1, SPELLED)).split()
        for method in ("GET", "POST")
    }
    assert {each: status for each, status in found.items() if status != 404} == {}
    seen = [f"{each.path} {each.headers} {each.body!r}" for each in replica.received]
    assert not [each for each in seen if MARK in each]
    assert len(replica.calls) == before
    print(f"{len(found)} requests to {len(found) // 2} paths: each 404, none at the replica")
