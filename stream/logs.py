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

# Libraries that tell every step of their lives at `info`.
TALKATIVE = ("faust", "mode", "aiokafka", "httpx", "httpcore", "asyncio", "stream.monitor.faust_app.read_committed")
# Loggers that print at `debug` what goes over the wire: passwords, keys and the users' texts, plain or encoded.
WIRE = ("aiokafka.conn", "hpack", "httpcore.http11", "httpcore.http2")
# Hiding a shorter text would hide words of every line, and protect nothing.
_SHORTEST_SECRET = 4
_SHORTEST_BASE64 = 6  # characters: those of five bytes, however they are shifted
_SHIFTED_CHARS = (0, 2, 3)
_PERCENT_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_SUB_DELIMITERS = "!$&'()*+,;="  # which some clients leave as they are in the user's part of an address
_REPEAT_SECONDS = 10.0
_REPEAT_TELEMETRY_SECONDS = 60.0
_REMEMBERED = 1000
_NEVER = -math.inf
# How a client of a collector ends that was told to; whoever told it has said why.
_LAST_WORDS = ("Exporter already shutdown", "Shutdown in progress")
# What every log record has by itself; the rest was given as `extra`.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# As the library names a process that no other one of its kind has started.
_FIRST_PROCESS = "MainProcess"
_NOTHING: Mapping[str, str] = {}

_about: ContextVar[Mapping[str, str]] = ContextVar("about", default=_NOTHING)


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Says what all lines are about that are logged in this block, by whomever, and in tasks that begin in it."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        # A coroutine that is thrown away is closed in a context which never was this one.
        with suppress(ValueError):
            _about.reset(token)


def add_log_context(**fields: str) -> None:
    """Says more of what the lines are about, to the end of the block that is under way."""
    _about.set({**_about.get(), **fields})


def trace_fields(traceparent: str | None) -> dict[str, str]:
    """The fields that connect lines to the trace of an interaction, if it has one."""
    parent = parse_traceparent(traceparent)
    return {} if parent is None else {"trace_id": parent.trace_id, "span_id": parent.span_id}


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to what standard error is now: a live view puts itself in its place."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class NotAgain(logging.Filter):
    """Passes what clients say once in a while: they say it all the time while what they talk to is away."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        pause = _pause(record)
        if not pause:
            return True
        key, now = f"{record.name} {_gist(record)}", time.monotonic()
        if pause == math.inf or now - self._said.get(key, _NEVER) < pause:
            return False
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[key] = now
        return True


def _pause(record: logging.LogRecord) -> float:
    """Seconds for which it need not be said again; endless for what need not be said at all."""
    if record.name.startswith("opentelemetry"):
        return math.inf if str(record.msg).startswith(_LAST_WORDS) else _REPEAT_TELEMETRY_SECONDS
    # librdkafka speaks through our own loggers, as `FAIL [client] ...`.
    repetitive = record.name.startswith("aiokafka") or record.getMessage().startswith("FAIL [")
    return _REPEAT_SECONDS if repetitive else 0.0


def _gist(record: logging.LogRecord) -> str:
    """What two messages that say the same have in common."""
    if record.name.startswith("opentelemetry"):
        return str(record.msg)  # its errors quote addresses in memory
    return re.sub(r"[0-9]+", "", record.getMessage())


class JsonFormatter(logging.Formatter):
    """One JSON object a line: what is said, what it is about, and what was given as `extra`."""

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
        return escaped(_as_json(entry), json_form=True)


class ConsoleFormatter(logging.Formatter):
    """A line for people. What follows it, such as a traceback, is marked, so that nothing there passes for a line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = self.formatTime(record, "%H:%M:%S")
        trace = _about.get().get("trace_id")
        source = " ".join([*_process(record).values(), record.name])
        line = f"{moment} {record.levelname:<7} {source}: {record.getMessage()}"
        lines = [escaped(line) + (f" [trace={trace}]" if trace else "")]
        if record.exc_info:
            lines += _marked(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _marked(record.stack_info)
        return "\n".join(lines)


class HidingFormatter(logging.Formatter):
    """Lines of another formatter without secrets, whichever library logged them and however it quoted them."""

    def __init__(self, lines: JsonFormatter | ConsoleFormatter, secrets: Iterable[str]) -> None:
        super().__init__()
        self._lines = lines
        self._is_json = isinstance(lines, JsonFormatter)
        forms = {self._as_written(form) for secret in secrets for form in _forms(secret)}
        # A line is searched only for forms that hold no other form: plain searches are faster than one for all of them.
        self._shortest_forms = _without_longer(forms)
        # The longest first: one secret may begin with another.
        self._secret = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)")

    def format(self, record: logging.LogRecord) -> str:
        line = self._lines.format(record)
        if not any(map(line.__contains__, self._shortest_forms)):
            return line
        if self._is_json:  # only inside of texts, so that a password of digits leaves numbers what they are
            return _JSON_TEXT.sub(lambda text: self._hide(text[0]), line)
        return self._hide(line)

    def _hide(self, text: str) -> str:
        return self._secret.sub(MASK, text)

    def _as_written(self, form: str) -> str:
        if self._is_json:
            return escaped(json.dumps(form, ensure_ascii=False)[1:-1], json_form=True)
        return escaped(form)


_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def _without_longer(forms: Iterable[str]) -> tuple[str, ...]:
    """The forms that hold no other one."""
    shortest: list[str] = []
    for form in sorted(forms, key=len):
        if not any(shorter in form for shorter in shortest):
            shortest.append(form)
    return tuple(shortest)


def _forms(secret: str) -> Iterator[str]:
    """A secret as libraries print it: as it is, line by line, as text or bytes of Python, in JSON, in an address."""
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
    """The secret in base64, alone and after others such as `user:`, which shift it by one or two bytes."""
    yield from _both_alphabets(base64.b64encode(secret))
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + secret)
        # Characters at both ends also hold bits of the bytes before and after the secret.
        inner = encoded[_SHIFTED_CHARS[shift] : (shift + len(secret)) * 8 // 6]
        if len(inner) >= _SHORTEST_BASE64:
            yield from _both_alphabets(inner)


def _both_alphabets(encoded: bytes) -> Iterator[str]:
    text = encoded.decode("ascii")
    yield text
    yield text.replace("+", "-").replace("/", "_")


def escaped(text: str, *, json_form: bool = False) -> str:
    """The text on one line, with nothing in it that steers a terminal or passes for the end of the line.

    Inside JSON what is escaped stays the same text to whoever parses it.
    """
    if text.isprintable():
        return text
    form = _json_escape if json_form else _escape
    return "".join(char if char.isprintable() else form(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


def _marked(text: str) -> list[str]:
    return [f"  | {escaped(line)}" for line in text.splitlines()]


def _process(record: logging.LogRecord) -> dict[str, str]:
    """Which of a command's processes writes, where it has started others; the command's own needs no name."""
    name = record.processName
    return {} if name is None or name == _FIRST_PROCESS else {"process": name}


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY}


def _as_json(entry: Mapping[str, Any]) -> str:
    try:
        return json.dumps(entry, ensure_ascii=False, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, numbers that are none, a loop
        return json.dumps({name: str(value) for name, value in entry.items()}, ensure_ascii=False)


def configure_logging(config: LoggingConfig, *, secrets: Iterable[str]) -> None:
    """Sets the program's one handler; called once, by a command. No line repeats one of the secrets."""
    handler = _CurrentStderr()
    handler.setFormatter(HidingFormatter(JsonFormatter() if config.format == "json" else ConsoleFormatter(), secrets))
    if config.level != "debug":
        handler.addFilter(NotAgain())
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
    quiet = dict.fromkeys(WIRE, logging.INFO) if config.level == "debug" else dict.fromkeys(TALKATIVE, logging.ERROR)
    for name, level in quiet.items():
        logging.getLogger(name).setLevel(level)
