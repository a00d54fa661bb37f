"""Which columns does each published trace have, and what do they mean?

  mooncake  JSON lines: ``timestamp`` ms, ``input_length``, ``output_length``, ``hash_ids`` (one per
            512 tokens of the prompt). kvcache-ai/Mooncake, Apache-2.0
  qwen      JSON lines: ``timestamp`` s, ``input_length``, ``output_length``, ``hash_ids`` (16
            tokens), ``chat_id``. alibaba-edu/qwen-bailian-usagetraces-anon
  azure     CSV: ``TIMESTAMP`` (date and time), ``ContextTokens``, ``GeneratedTokens``.
            Azure/AzurePublicDataset, CC-BY
  burstgpt  CSV: ``Timestamp`` s, ``Model``, ``Request tokens``, ``Response tokens``.
            HPMLL/BurstGPT
  servegen  CSV: ``t_s``, ``client``, ``input_tokens``, ``output_tokens``; so is the arena trace of
            the OSDI'24 artifact (Ying1123/VTC-artifact), whose further columns are left alone

Times become seconds since the first call. Where a trace names no client, all calls belong to one.
A call without output tokens counts as one token, one without input tokens as well. The format is
told by the first line unless it is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from gateway.simulation.call import SimulatedCall
from gateway.simulation.traces.reading import Row, TraceError, csv_rows, header, json_rows

MOONCAKE_BLOCK_TOKENS = 512
QWEN_BLOCK_TOKENS = 16
_MICROSECONDS = re.compile(r"(\.\d{6})\d+")


def read_trace(path: Path, form: str | None = None) -> list[SimulatedCall]:
    """In order of time, from 0 s. Raises ``TraceError``; ``OSError`` when there is no file."""
    reader = TRACE_FORMATS[form or trace_format(path)]
    calls = sorted(reader(path), key=lambda call: call.at_s)
    if not calls:
        raise TraceError(path, 1, "", "no call in it")
    first_s = calls[0].at_s
    return [_moved(call, first_s, number) for number, call in enumerate(calls)]


def trace_format(path: Path) -> str:
    """By the first line. Raises ``TraceError`` that lists the known formats."""
    line = header(path)
    for name, mark in _MARKS.items():
        if all(part in line for part in mark):
            return name
    known = ", ".join(TRACE_FORMATS)
    raise TraceError(path, 1, "", f"no known format; known: {known}")


def mooncake(path: Path) -> Iterator[SimulatedCall]:
    for row in json_rows(path):
        at_s = row.number("timestamp") / 1e3
        yield _hashed(row, at_s, MOONCAKE_BLOCK_TOKENS, tenant="mooncake", tag="")


def qwen(path: Path) -> Iterator[SimulatedCall]:
    for row in json_rows(path):
        tag = row.text("chat_id")
        yield _hashed(row, row.number("timestamp"), QWEN_BLOCK_TOKENS, tenant="qwen", tag=tag)


def azure(path: Path) -> Iterator[SimulatedCall]:
    for row in csv_rows(path, ("TIMESTAMP", "ContextTokens", "GeneratedTokens")):
        yield _call(row, _instant_s(row, "TIMESTAMP"), "azure", "ContextTokens", "GeneratedTokens")


def burstgpt(path: Path) -> Iterator[SimulatedCall]:
    for row in csv_rows(path, ("Timestamp", "Model", "Request tokens", "Response tokens")):
        at_s, tenant = row.number("Timestamp"), row.text("Model")
        yield _call(row, at_s, tenant, "Request tokens", "Response tokens")


def servegen(path: Path) -> Iterator[SimulatedCall]:
    for row in csv_rows(path, ("t_s", "client", "input_tokens", "output_tokens")):
        yield _call(row, row.number("t_s"), row.text("client"), "input_tokens", "output_tokens")


def _call(
    row: Row, at_s: float, tenant: str, input_column: str, output_column: str
) -> SimulatedCall:
    return SimulatedCall(
        call_id="",
        tenant=tenant,
        at_s=at_s,
        input_tokens=max(1, row.tokens(input_column)),
        output_tokens=max(1, row.tokens(output_column)),
    )


def _hashed(row: Row, at_s: float, block_tokens: int, *, tenant: str, tag: str) -> SimulatedCall:
    """Only full blocks can be reused: the last id of a prompt often stands for a part."""
    input_tokens = max(1, row.tokens("input_length"))
    return SimulatedCall(
        call_id="",
        tenant=tenant,
        at_s=at_s,
        input_tokens=input_tokens,
        output_tokens=max(1, row.tokens("output_length")),
        block_hashes=row.integers("hash_ids")[: input_tokens // block_tokens],
        block_tokens=block_tokens,
        tag=tag,
    )


def _instant_s(row: Row, column: str) -> float:
    text = row.text(column)
    try:
        at = datetime.fromisoformat(_MICROSECONDS.sub(r"\1", text))
    except ValueError:
        raise row.wrong(column, f"{text[:40]!r} is not a date and time") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _moved(call: SimulatedCall, first_s: float, number: int) -> SimulatedCall:
    return SimulatedCall(
        call_id=f"t{number}",
        tenant=call.tenant,
        at_s=call.at_s - first_s,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        block_hashes=call.block_hashes,
        block_tokens=call.block_tokens,
        tag=call.tag,
    )


_MARKS = {
    "qwen": ("{", '"hash_ids"', '"chat_id"'),
    "mooncake": ("{", '"hash_ids"'),
    "azure": ("TIMESTAMP", "ContextTokens"),
    "burstgpt": ("Timestamp", "Request tokens"),
    "servegen": ("t_s", "client", "input_tokens"),
}

TRACE_FORMATS: dict[str, Callable[[Path], Iterator[SimulatedCall]]] = {
    "mooncake": mooncake,
    "qwen": qwen,
    "azure": azure,
    "burstgpt": burstgpt,
    "servegen": servegen,
}
