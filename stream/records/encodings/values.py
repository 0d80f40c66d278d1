"""Decoded values as JSON.

| value | JSON |
| --- | --- |
| decimal | number with all its digits |
| date, time, timestamp | text in ISO 8601; a timestamp with a time zone keeps it |
| bytes, fixed | base64, or text if `input.registry.bytes` is utf-8 |
| UUID, enum | text |
| not a number, infinity | null |
| union | the value itself |
"""

import base64
from collections.abc import Callable, Mapping

import msgspec

from stream.errors import RecordError

BytesReader = Callable[[bytes], str]

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def encode_json(document: object) -> bytes:
    """Encode decoded values; dates, times, UUIDs and decimals are among the types that the encoder knows."""
    return _ENCODER.encode(document)


def bytes_reader(form: str) -> BytesReader:
    """Return the function that turns bytes into text, for a value of `input.registry.bytes`."""
    return _read_utf8 if form == "utf-8" else _read_base64


def with_text(value: object, read_bytes: BytesReader) -> object:
    """Replace all bytes in a decoded value by text."""
    if isinstance(value, bytes | bytearray):
        return read_bytes(bytes(value))
    if isinstance(value, Mapping):
        return {name: with_text(item, read_bytes) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_text(item, read_bytes) for item in value]
    return value


def _read_utf8(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(
            "bad_encoding", f"bytes are not UTF-8 text: {error.reason} at byte {error.start}; see input.registry.bytes"
        ) from None


def _read_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
