"""What did a form with one file say? Parsed as it arrives, whatever the slices.

Memory is bounded: of the file only what ``take`` has not yet fetched is held, of fields at most
FIELDS times FIELD_BYTES. Raises Rejected for what is not such a form.
"""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason

FIELDS = 16
FIELD_BYTES = 1024
FILE = "file"


class UploadForm:
    """``fields`` by name; ``filename`` is None until a file part came."""

    def __init__(self, content_type: str, most_bytes: int) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise _wrong("The body must be multipart/form-data.")
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.file_bytes = 0
        self._most_bytes = most_bytes
        self._waiting = bytearray()
        self._ended = False
        self._new_part()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._new_part,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
            )
        except FormParserError:
            raise _wrong("The boundary of the form is not valid.") from None

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError:
            raise _wrong("The form is malformed.") from None

    @property
    def waiting_bytes(self) -> int:
        return len(self._waiting)

    def take(self) -> bytes:
        """The bytes of the file that came since the last time."""
        taken, self._waiting = bytes(self._waiting), bytearray()
        return taken

    def finish(self) -> None:
        if not self._ended:
            raise _wrong("The form ended early.")
        if self.filename is None:
            raise _wrong("The form has no file.", FILE)

    def _new_part(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._field, self._value = bytearray(), bytearray()
        self._name = ""
        self._text: bytearray | None = None

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[bytes(self._field).lower()] = bytes(self._value)
        self._field, self._value = bytearray(), bytearray()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if self._name == FILE:
            if self.filename is not None:
                raise _wrong("The form has more than one file.", FILE)
            self.filename = options.get(b"filename", b"").decode("utf-8", "replace")
            return
        if len(self.fields) >= FIELDS:
            raise _wrong("The form has too many fields.")
        self._text = bytearray()

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._text is None:
            self.file_bytes += end - start
            if self.file_bytes > self._most_bytes:
                raise too_large(self._most_bytes)
            self._waiting += data[start:end]
        else:
            self._text += data[start:end]
            if len(self._text) > FIELD_BYTES:
                raise _wrong("A field of the form is too long.", self._name[:40])

    def _part_end(self) -> None:
        if self._text is not None:
            self.fields[self._name] = self._text.decode("utf-8", "replace")

    def _end(self) -> None:
        self._ended = True


def too_large(most_bytes: int) -> Rejected:
    return Rejected(Reason.BODY_TOO_LARGE, f"A file may have at most {most_bytes:,} bytes.")


def _wrong(message: str, param: str | None = None) -> Rejected:
    return Rejected(Reason.INVALID_REQUEST, message, param=param)
