"""JSON on standard output: unchanged for programs that parse it, and harmless on a terminal that shows it."""

import json
from typing import Any

import click

from stream.logs import escape_text

# In JSON these occur only between tokens, where a space means the same.
_BLANKS = str.maketrans("\t\r\n", "   ")


def harmless_json(text: str | bytes) -> bytes:
    """Return JSON on one line, with control characters (including C1 and bidirectional ones) as escapes."""
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return escape_text(decoded.translate(_BLANKS), json_form=True).encode()


def print_json(document: Any, *, indent: int | None = None) -> None:
    """Print a document, on one line unless `indent` is given."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=indent)
    click.echo(b"\n".join(map(harmless_json, text.split("\n"))))
