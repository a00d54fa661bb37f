"""Trace files: every published format, and what is said when one is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gateway.simulation.traces.formats import TRACE_FORMATS, read_trace, trace_format
from gateway.simulation.traces.reading import TraceError

FOLDER = Path(__file__).parent / "traces"
QWEN = (
    '{"chat_id": 7, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 40,'
    ' "output_length": 5, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}\n'
)
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "45,ChatGPT,472,18,490,Conversation log\n"
    "118,GPT-4,1087,0,1087,API log\n"
)


def written(folder: Path, text: str, name: str = "trace.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "form", "calls"),
    [
        ("arena.csv.gz", "servegen", 1_500),
        ("mooncake.jsonl", "mooncake", 40),
        ("azure.csv", "azure", 29),
        ("servegen.csv", "servegen", 39),
    ],
)
def test_published_traces_are_told_apart_and_read(name: str, form: str, calls: int) -> None:
    assert trace_format(FOLDER / name) == form
    read = read_trace(FOLDER / name)
    assert len(read) == calls
    assert read[0].at_s == 0.0
    assert [call.at_s for call in read] == sorted(call.at_s for call in read)
    assert len({call.call_id for call in read}) == calls


def test_mooncake_has_one_hash_for_each_full_block_of_512_tokens() -> None:
    first = read_trace(FOLDER / "mooncake.jsonl")[0]
    assert (first.input_tokens, first.output_tokens) == (6_758, 500)
    assert (first.block_tokens, len(first.block_hashes)) == (512, 13)


def test_azure_times_are_seconds_since_the_first_call() -> None:
    read = read_trace(FOLDER / "azure.csv")
    assert read[1].at_s == pytest.approx(4.314579, abs=1e-5)


def test_qwen_has_blocks_of_16_tokens_and_its_chats(tmp_path: Path) -> None:
    (call,) = read_trace(written(tmp_path, QWEN))
    assert (call.block_tokens, call.block_hashes, call.tag) == (16, (1, 2), "7")


def test_burstgpt_names_the_model_as_client_and_an_empty_answer_is_one_token(
    tmp_path: Path,
) -> None:
    first, second = read_trace(written(tmp_path, BURSTGPT))
    assert (first.tenant, second.tenant, second.at_s) == ("ChatGPT", "GPT-4", 73.0)
    assert second.output_tokens == 1


def test_gzip_is_told_by_content_and_not_by_name(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_bytes(gzip.compress(BURSTGPT.encode()))
    assert len(read_trace(path)) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BURSTGPT.replace("1087,0", "many,0"), "line 3, column Request tokens: 'many' is not a"),
        (BURSTGPT.replace("1087,0", "-3,0"), "line 3, column Request tokens: '-3' is not a count"),
        (BURSTGPT.replace("118", "nan"), "line 3, column Timestamp: 'nan' is not finite"),
        (BURSTGPT + "1,GPT-4\n", "line 4, column Request tokens: missing"),
        (QWEN + "{oops\n", "line 2, column 2: Expecting property name"),
        (QWEN + "[1]\n", "line 2, column 1: a JSON object is expected"),
        (QWEN.replace("[1, 2, 3]", '"x"'), "line 1, column hash_ids: a list of integers"),
        ("a,b\n1,2\n", "line 1: no known format; known: mooncake, qwen, azure"),
        (BURSTGPT.splitlines()[0] + "\n", "line 1: no call in it"),
        ("", "line 1: no known format"),
    ],
)
def test_a_mistake_names_file_line_and_column(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(written(tmp_path, text))
    assert str(error.value).startswith("trace.txt, ")
    assert said in str(error.value)


def test_named_format_with_other_columns_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"line 1, column TIMESTAMP: not in the header"):
        read_trace(written(tmp_path, BURSTGPT), "azure")


def test_bad_date_names_its_line(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n"
    with pytest.raises(TraceError, match="line 2, column TIMESTAMP: 'yesterday' is not a date"):
        read_trace(written(tmp_path, text))


def test_damaged_gzip_and_foreign_bytes_name_their_line(tmp_path: Path) -> None:
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress((BURSTGPT + "45,GPT-4,1,1,2,x\n" * 9_000).encode())[:200])
    with pytest.raises(TraceError, match=r"cut.csv.gz, line \d+: the gzip file is damaged"):
        read_trace(cut)
    foreign = tmp_path / "foreign.csv"
    foreign.write_bytes(BURSTGPT.encode("utf-16"))
    with pytest.raises(TraceError, match=r"foreign.csv, line 1: not UTF-8 text"):
        read_trace(foreign)


def test_every_format_is_recognised_by_a_file_of_its_own() -> None:
    assert set(TRACE_FORMATS) == {"mooncake", "qwen", "azure", "burstgpt", "servegen"}
