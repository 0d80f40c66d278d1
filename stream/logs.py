"""Logging of the program: to standard error, for people or for machines, with the context of each line."""

import base64
import json
import logging
import math
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

from sinks.telemetry.traceparent import parse_traceparent
from stream.config.section import MASK
from stream.config.sections.stages import LoggingConfig

# Libraries that log every step at `info`.
TALKATIVE = (
    "alembic",
    "faust",
    "mode",
    "aiokafka",
    "httpx",
    "httpcore",
    "httpx2",
    "httpcore2",
    "asyncio",
    "stream.monitor.faust_app.consumer",
)
# Loggers that print all network traffic at `debug`: passwords, keys and the users' texts, plain or encoded.
WIRE = ("aiokafka.conn", "hpack", "httpcore.http11", "httpcore.http2", "httpcore2.http11", "httpcore2.http2")
# Hiding a shorter text would hide words in every line, and protect nothing.
_SHORTEST_SECRET = 4
_SHORTEST_BASE64 = 6  # characters for five bytes, at any bit offset
_SHIFTED_CHARS = (0, 2, 3)
_PERCENT_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_SUB_DELIMITERS = "!$&'()*+,;="  # some clients do not escape these in the user part of an address
_REPEAT_SECONDS = 10.0
_REPEAT_TELEMETRY_SECONDS = 60.0
_REMEMBERED = 1000
_NEVER = -math.inf
# Messages of a collector's client at a requested shutdown, whose reason is already logged.
_LAST_WORDS = ("Exporter already shutdown", "Shutdown in progress")
# Attributes of every log record; the others come from `extra`.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# multiprocessing's name for a process that it did not start.
_FIRST_PROCESS = "MainProcess"
_NOTHING: Mapping[str, str] = {}

_about: ContextVar[Mapping[str, str]] = ContextVar("about", default=_NOTHING)


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Add fields to all lines logged in this block, by any code, and in tasks that start in it."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        # An abandoned coroutine is closed in another context.
        with suppress(ValueError):
            _about.reset(token)


def add_log_context(**fields: str) -> None:
    """Add fields to lines until the end of the current block."""
    _about.set({**_about.get(), **fields})


def trace_fields(traceparent: str | None) -> dict[str, str]:
    """Return the fields that connect lines to the trace of an interaction, if it has one."""
    parent = parse_traceparent(traceparent)
    return {} if parent is None else {"trace_id": parent.trace_id, "span_id": parent.span_id}


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to the current standard error, which a live view replaces."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class RepeatFilter(logging.Filter):
    """Limits how often clients repeat a message: they log it all the time while their server is away."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        pause = _pause(record)
        if not pause:
            return True
        key, now = f"{record.name} {_gist(record)}", time.monotonic()
        if pause == math.inf or now - self._logged_at.get(key, _NEVER) < pause:
            return False
        if len(self._logged_at) >= _REMEMBERED:
            self._logged_at.clear()
        self._logged_at[key] = now
        return True


def _pause(record: logging.LogRecord) -> float:
    """Return the seconds during which a repetition is dropped; infinite for a message to drop always."""
    if record.name.startswith("opentelemetry"):
        return math.inf if str(record.msg).startswith(_LAST_WORDS) else _REPEAT_TELEMETRY_SECONDS
    # librdkafka logs through our own loggers, as `FAIL [client] ...`.
    repetitive = record.name.startswith("aiokafka") or record.getMessage().startswith("FAIL [")
    return _REPEAT_SECONDS if repetitive else 0.0


def _gist(record: logging.LogRecord) -> str:
    """Return the part of a message that its repetitions share."""
    if record.name.startswith("opentelemetry"):
        return str(record.msg)  # its errors quote addresses in memory
    return re.sub(r"[0-9]+", "", record.getMessage())


class JsonFormatter(logging.Formatter):
    """One JSON object a line: the message, its context, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            **_process(record),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            entry["stack"] = record.stack_info
        more = {**_about.get(), **_extra(record)}
        entry |= {name: value for name, value in more.items() if name not in entry}
        return escape_text(_as_json(entry), json_form=True)


class ConsoleFormatter(logging.Formatter):
    """A line for people. Further lines, such as a traceback, are marked, so that they cannot pass for log lines."""

    def format(self, record: logging.LogRecord) -> str:
        moment = self.formatTime(record, "%H:%M:%S")
        trace = _about.get().get("trace_id")
        source = " ".join([*_process(record).values(), record.name])
        line = f"{moment} {record.levelname:<7} {source}: {record.getMessage()}"
        lines = [escape_text(line) + (f" [trace={trace}]" if trace else "")]
        if record.exc_info:
            lines += _mark_lines(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _mark_lines(record.stack_info)
        return "\n".join(lines)


class HidingFormatter(logging.Formatter):
    """Hides secrets in the lines of another formatter, whichever library logged them and however it quoted them."""

    def __init__(self, lines: JsonFormatter | ConsoleFormatter, secrets: Iterable[str]) -> None:
        super().__init__()
        self._lines = lines
        self._is_json = isinstance(lines, JsonFormatter)
        forms = {self._as_written(form) for secret in secrets for form in _forms(secret)}
        # A line is searched only for forms that contain no other form: plain searches are faster than one for all.
        self._shortest_forms = _keep_shortest(forms)
        # The longest first: one secret may begin with another.
        self._secret = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)")

    def format(self, record: logging.LogRecord) -> str:
        line = self._lines.format(record)
        if not any(map(line.__contains__, self._shortest_forms)):
            return line
        if self._is_json:  # only inside strings, so that a password of digits does not change numbers
            return _JSON_TEXT.sub(lambda text: self._hide(text[0]), line)
        return self._hide(line)

    def _hide(self, text: str) -> str:
        return self._secret.sub(MASK, text)

    def _as_written(self, form: str) -> str:
        if self._is_json:
            return escape_text(json.dumps(form, ensure_ascii=False)[1:-1], json_form=True)
        return escape_text(form)


_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def _keep_shortest(forms: Iterable[str]) -> tuple[str, ...]:
    """Return the forms that contain no other form."""
    shortest: list[str] = []
    for form in sorted(forms, key=len):
        if not any(shorter in form for shorter in shortest):
            shortest.append(form)
    return tuple(shortest)


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as libraries print it: plain, line by line, as Python text or bytes, in JSON, in an address."""
    plain = [text for text in (secret, *secret.splitlines()) if len(text) >= _SHORTEST_SECRET]
    for text in plain:
        yield text
        yield repr(text)[1:-1]
        yield repr(text.encode(errors="replace"))[2:-1]
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield from _forms_in_addresses(text)
        yield from _forms_in_base64(text.encode(errors="replace"))


def _forms_in_addresses(text: str) -> Iterator[str]:
    for form in (quote(text, safe=""), quote(text), quote_plus(text), quote(text, safe=_SUB_DELIMITERS)):
        yield form
        yield _PERCENT_ESCAPE.sub(lambda escape: escape[0].lower(), form)


def _forms_in_base64(secret: bytes) -> Iterator[str]:
    """Yield the secret in base64, alone and after a prefix such as `user:`, which shifts it by one or two bytes."""
    yield from _both_alphabets(base64.b64encode(secret))
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + secret)
        # Characters at both ends also encode bits of the bytes before and after the secret.
        inner = encoded[_SHIFTED_CHARS[shift] : (shift + len(secret)) * 8 // 6]
        if len(inner) >= _SHORTEST_BASE64:
            yield from _both_alphabets(inner)


def _both_alphabets(encoded: bytes) -> Iterator[str]:
    text = encoded.decode("ascii")
    yield text
    yield text.replace("+", "-").replace("/", "_")


def escape_text(text: str, *, json_form: bool = False) -> str:
    """Put the text on one line, and escape characters that control a terminal or look like a line end.

    With `json_form`, a JSON parser reads the same text.
    """
    if text.isprintable():
        return text
    form = _json_escape if json_form else _escape
    return "".join(char if char.isprintable() else form(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


def _mark_lines(text: str) -> list[str]:
    return [f"  | {escape_text(line)}" for line in text.splitlines()]


def _process(record: logging.LogRecord) -> dict[str, str]:
    """Return the name of a child process as a field; the command's own process has none."""
    name = record.processName
    return {} if name is None or name == _FIRST_PROCESS else {"process": name}


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY}


def _as_json(entry: Mapping[str, Any]) -> str:
    try:
        return json.dumps(entry, ensure_ascii=False, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are not text, NaN, a loop
        return json.dumps({name: str(value) for name, value in entry.items()}, ensure_ascii=False)


def configure_logging(config: LoggingConfig, *, secrets: Iterable[str]) -> None:
    """Set the program's only log handler; called once, by a command. No line shows one of the secrets."""
    handler = _CurrentStderr()
    handler.setFormatter(HidingFormatter(JsonFormatter() if config.format == "json" else ConsoleFormatter(), secrets))
    if config.level != "debug":
        handler.addFilter(RepeatFilter())
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
    quiet = dict.fromkeys(WIRE, logging.INFO) if config.level == "debug" else dict.fromkeys(TALKATIVE, logging.ERROR)
    for name, level in quiet.items():
        logging.getLogger(name).setLevel(level)
