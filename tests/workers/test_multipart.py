from __future__ import annotations

import pytest

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from workers.multipart import FIELD_BYTES, FIELDS, UploadForm

BOUNDARY = "XyZ"
KIND = f"multipart/form-data; boundary={BOUNDARY}"


def form_body(*parts: tuple[str, bytes], filename: str = "a.jsonl") -> bytes:
    body = b""
    for name, value in parts:
        file = f'; filename="{filename}"' if name == "file" else ""
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        body += head.encode() + value + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode()


def parsed(body: bytes, *, step: int = 1 << 20, most: int = 10_000) -> tuple[UploadForm, bytes]:
    form = UploadForm(KIND, most)
    content = b""
    for start in range(0, len(body), step):
        form.feed(body[start : start + step])
        content += form.take()
    form.finish()
    return form, content


CONTENT = b'{"a": "\r\n--XyZ-not-quite"}\r\n--XyY\n' + bytes(range(256))
BODY = form_body(("purpose", b"batch"), ("file", CONTENT))


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 64, 10_000])
def test_the_same_file_comes_out_however_the_form_is_sliced(step: int) -> None:
    form, content = parsed(BODY, step=step)
    assert content == CONTENT
    assert form.fields == {"purpose": "batch"}
    assert form.filename == "a.jsonl"


@pytest.mark.parametrize("at", range(1, len(BODY)))
def test_a_cut_at_any_byte_changes_nothing(at: int) -> None:
    form = UploadForm(KIND, 10_000)
    form.feed(BODY[:at])
    form.feed(BODY[at:])
    form.finish()
    assert form.take() == CONTENT


def test_fields_may_follow_the_file() -> None:
    form, content = parsed(form_body(("file", b"x"), ("purpose", b"batch")))
    assert (content, form.fields["purpose"]) == (b"x", "batch")


def test_a_file_above_the_limit_is_refused_as_soon_as_it_passes() -> None:
    form = UploadForm(KIND, 100)
    form.feed(form_body(("file", b"x" * 100))[:-20])
    with pytest.raises(Rejected) as refusal:
        form.feed(b"y" * 200)
    assert refusal.value.reason is Reason.BODY_TOO_LARGE


@pytest.mark.parametrize(
    "body",
    [
        b"no form at all",
        BODY[:-10],
        form_body(("purpose", b"batch")),
        form_body(("file", b"1"), ("file", b"2")),
        form_body(("purpose", b"x" * (FIELD_BYTES + 1)), ("file", b"1")),
        form_body(*[(f"f{n}", b"") for n in range(FIELDS + 1)], ("file", b"1")),
        b"--XyZ\r\n" + b"A" * 100_000 + b": b\r\n\r\n",
    ],
    ids=["garbage", "cut", "no file", "two files", "long field", "many fields", "long header"],
)
def test_what_is_not_such_a_form_is_refused(body: bytes) -> None:
    with pytest.raises(Rejected) as refusal:
        parsed(body)
    assert refusal.value.status == 400


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data", "multipart/mixed"])
def test_another_type_is_refused(kind: str) -> None:
    with pytest.raises(Rejected):
        UploadForm(kind, 100)
