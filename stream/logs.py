"""Logging of the program: to standard error, for people or for machines."""

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from typing import TextIO

from stream.config import LoggingConfig

# Libraries that tell every step of their lives at `info`.
_TALKATIVE = ("faust", "mode", "aiokafka", "httpx", "httpcore", "asyncio", "stream.committed")
_REPEAT_SECONDS = 10.0
_REMEMBERED = 1000


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to what standard error is now: a live view puts itself in its place."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class NotAgain(logging.Filter):
    """Passes what Kafka clients say once in a while: they say it a hundred times a second while a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        # librdkafka speaks through our own loggers, as `FAIL [client] ...`.
        if not (record.name.startswith("aiokafka") or text.startswith("FAIL [")):
            return True
        key, now = f"{record.name} {re.sub(r'[0-9]+', '', text)}", time.monotonic()
        if now - self._said.get(key, -_REPEAT_SECONDS) < _REPEAT_SECONDS:
            return False
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[key] = now
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure_logging(config: LoggingConfig) -> None:
    """Sets the program's one handler; called once, by a command."""
    handler = _CurrentStderr()
    console = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(JsonFormatter() if config.format == "json" else console)
    if config.level != "debug":
        handler.addFilter(NotAgain())
    level = config.level.upper()
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if config.level != "debug":
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.ERROR)
