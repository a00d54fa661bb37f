"""GET /v1/models"""

from __future__ import annotations

from tests.conformance.checks import Dialect
from tests.conformance.errors import openai_error
from tests.conformance.server import Answer, Server, expect, expect_equal, expect_kind


async def ask(server: Server) -> Answer:
    return await server.call("GET", "/v1/models")


MODELS = Dialect("models", ask, [], model=lambda server: "")


@MODELS.check
async def the_list_has_the_model(server: Server) -> None:
    told = (await ask(server)).fine()
    expect_equal(told["object"], "list", "`object`")
    for each in told["data"]:
        expect_equal(each["object"], "model", "`data[].object`")
        expect_kind(each["created"], int, "`data[].created`")
        expect_kind(each["owned_by"], str, "`data[].owned_by`")
    expect(server.model in [each["id"] for each in told["data"]], f"{server.model} is not listed")


@MODELS.check
async def one_model_is_told(server: Server) -> None:
    told = (await server.call("GET", f"/v1/models/{server.model}")).fine()
    expect_equal((told["id"], told["object"]), (server.model, "model"), "`id`, `object`")


@MODELS.check
async def an_unknown_model_is_404(server: Server) -> None:
    openai_error(await server.call("GET", "/v1/models/no-such-model"), 404)


@MODELS.check
async def a_wrong_key_is_401(server: Server) -> None:
    openai_error(await server.call("GET", "/v1/models", key="sk-wrong"), 401)
