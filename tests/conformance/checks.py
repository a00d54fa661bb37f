"""Which checks are there, and what came of each?"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import aiohttp

from tests.conformance.server import Answer, CannotAskError, DeviationError, Server, short

Run = Callable[[Server], Awaitable[None]]
NOT_SERVED = (404, 405, 501)
REFUSES_THE_KEY = (401, 403)
# What a check raises where an answer has not the shape that it takes apart.
OTHER_SHAPE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)


@dataclass(frozen=True, slots=True)
class Check:
    title: str
    run: Run


@dataclass(frozen=True, slots=True)
class Dialect:
    """``ask``: its plainest call; where it is not served nothing else is asked. ``model``: the one
    that this call names, if any."""

    name: str
    ask: Callable[[Server], Awaitable[Answer]]
    checks: list[Check]
    model: Callable[[Server], str] = lambda server: server.model

    def check(self, run: Run) -> Run:
        """Registers a check; its name is its title."""
        self.checks.append(Check(run.__name__.replace("_", " "), run))
        return run


@dataclass(frozen=True, slots=True)
class Result:
    """``deviation``: "" = as expected. ``served`` False: the server does not have the dialect."""

    dialect: str
    title: str
    deviation: str = ""
    served: bool = True


async def results(server: Server, dialects: Sequence[Dialect]) -> AsyncIterator[Result]:
    """One after the other. Raises CannotAskError, and aiohttp.ClientConnectorError where nobody
    listens."""
    firsts = [(dialect, await dialect.ask(server)) for dialect in dialects]
    _expect_key_and_models(server, firsts)
    for dialect, first in firsts:
        if first.status in NOT_SERVED:
            yield Result(dialect.name, f"{first.status} on its plainest call", served=False)
            continue
        for check in dialect.checks:
            yield await _result(server, dialect, check)


def _expect_key_and_models(server: Server, firsts: Sequence[tuple[Dialect, Answer]]) -> None:
    """A call that names a model and succeeds proves the key, and that model. (Some servers tell
    their models to anyone.)"""
    named = [(dialect.model(server), answer) for dialect, answer in firsts]
    proven = {model for model, answer in named if model and answer.status == 200}
    for model, answer in named:
        if answer.status in REFUSES_THE_KEY and not proven:
            raise CannotAskError(refusal(answer))
        if model and model not in proven and _has_no(model, answer):
            raise CannotAskError(f"the model {model} does not exist there: {short(answer.body)}")


def refusal(answer: Answer) -> str:
    return f"the key is refused with {answer.status}: {short(answer.body)}"


def _has_no(model: str, answer: Answer) -> bool:
    """Does it say that there is no such model? A path that is not found is no such answer."""
    if answer.status != 404:
        return False
    code, message = answer.error
    if isinstance(code, str):
        return code == "model_not_found"
    return model in message and "/v1/" not in message


async def _result(server: Server, dialect: Dialect, check: Check) -> Result:
    try:
        await check.run(server)
    except DeviationError as deviation:
        return Result(dialect.name, check.title, str(deviation))
    except aiohttp.ClientConnectorError:
        raise
    except aiohttp.ClientError as error:
        words = f"the answer is cut short or no HTTP: {short(error)}"
        return Result(dialect.name, check.title, words)
    except OTHER_SHAPE as error:
        words = f"the answer has another shape: {type(error).__name__} {error}"
        return Result(dialect.name, check.title, words)
    return Result(dialect.name, check.title)
