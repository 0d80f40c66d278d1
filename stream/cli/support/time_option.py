"""Points in time on the command line: an RFC 3339 time, or a duration before now."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])")


class TimeOption(click.ParamType):
    """`90m` means 90 minutes ago; `2026-11-15T10:30` is a time, in UTC unless it has an offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        ago = _AGO.fullmatch(str(value))
        try:
            if ago is not None:
                return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
            time = datetime.fromisoformat(str(value))
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is neither a time such as 2026-11-15T10:30:00Z nor a duration such as 90m", param, ctx
            )
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
