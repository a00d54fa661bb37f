"""Which checks are there, and what came of each?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from tests.conformance.server import Answer, DeviationError, Server

Run = Callable[[Server], Awaitable[None]]
NOT_SERVED = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class Check:
    title: str
    run: Run


@dataclass(frozen=True, slots=True)
class Dialect:
    """``ask``: its plainest call; where it is not served nothing else is asked."""

    name: str
    ask: Callable[[Server], Awaitable[Answer]]
    checks: list[Check]

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
    """One after the other. Raises aiohttp.ClientConnectorError where nobody listens."""
    for dialect in dialects:
        first = await dialect.ask(server)
        if first.status in NOT_SERVED:
            yield Result(dialect.name, f"{first.status} on its plainest call", served=False)
            continue
        for check in dialect.checks:
            yield await _result(server, dialect, check)


async def _result(server: Server, dialect: Dialect, check: Check) -> Result:
    try:
        await check.run(server)
    except DeviationError as deviation:
        return Result(dialect.name, check.title, str(deviation))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        words = f"the answer has another shape: {type(error).__name__} {error}"
        return Result(dialect.name, check.title, words)
    return Result(dialect.name, check.title)
