"""The command line of the conformance suite. Exit status: 0 as expected, 1 deviations or nothing
served, 2 the server could not be asked."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import aiohttp

from tests.conformance.chat import CHAT
from tests.conformance.checks import REFUSES_THE_KEY, Dialect, Result, refusal, results
from tests.conformance.completions import COMPLETIONS
from tests.conformance.embeddings import EMBEDDINGS
from tests.conformance.messages import MESSAGES
from tests.conformance.models import MODELS
from tests.conformance.responses import RESPONSES
from tests.conformance.server import CannotAskError, DeviationError, Server

DIALECTS = {
    each.name: each for each in (MODELS, CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, MESSAGES)
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--base-url", required=True, help="of the server, with or without /v1")
    parser.add_argument("--key", default=os.environ.get("OPENAI_API_KEY", ""))
    parser.add_argument("--model", default="", help="default: the first that is listed")
    parser.add_argument("--embedding-model", default="", help="default: the same")
    parser.add_argument("dialect", nargs="*", help=f"default: all of {', '.join(DIALECTS)}")
    given = parser.parse_args()
    if unknown := set(given.dialect) - DIALECTS.keys():
        parser.error(f"unknown dialect {unknown.pop()}; known: {', '.join(DIALECTS)}")
    return given


async def run(given: argparse.Namespace) -> int:
    """Raises CannotAskError."""
    if not given.base_url.startswith(("http://", "https://")):
        raise CannotAskError("the base URL must begin with http:// or https://")
    if not given.key.isprintable():
        raise CannotAskError("the key has characters that no header can carry, a newline perhaps")
    url = given.base_url.rstrip("/").removesuffix("/v1")
    chosen = [DIALECTS[name] for name in given.dialect or DIALECTS]
    async with Server(url, given.key, given.model, given.embedding_model) as server:
        server.model = server.model or await first_model(server)
        print(f"{url}, model {server.model}\n")
        return await report(server, chosen)


async def report(server: Server, dialects: list[Dialect]) -> int:
    """Prints each result as it comes."""
    told: list[Result] = []
    async for one in results(server, dialects):
        told.append(one)
        word = "ok      " if not one.deviation else "DEVIATES"
        print(f"{one.dialect:<12} {word if one.served else 'absent  '} {one.title}", flush=True)
        if one.deviation:
            print(f"{'':<21} {one.deviation}")
    deviations = sum(bool(one.deviation) for one in told)
    served = sum(one.served for one in told)
    print(f"\n{served - deviations} of {served} checks as expected, {deviations} deviations")
    return 1 if deviations or not served else 0


async def first_model(server: Server) -> str:
    answer = await server.call("GET", "/v1/models")
    if answer.status in REFUSES_THE_KEY:
        raise CannotAskError(refusal(answer))
    try:
        return str(answer.fine()["data"][0]["id"])
    except (DeviationError, LookupError, TypeError) as error:
        words = f"/v1/models lists none ({type(error).__name__}: {error}); name one with --model"
        raise CannotAskError(words) from None


def main() -> int:
    given = arguments()
    try:
        return asyncio.run(run(given))
    except CannotAskError as error:
        print(f"{given.base_url} cannot be asked: {error}", file=sys.stderr)
        return 2
    except (aiohttp.ClientError, TimeoutError) as error:
        print(f"{given.base_url} does not answer: {error or type(error).__name__}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
