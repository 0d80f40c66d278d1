"""The report of a run: figures beside their limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A figure and its limit; without a limit it is only reported."""

    what: str
    figure: str
    limit: str = ""
    ok: bool = True


def at_most(what: str, figure: float, limit: float, unit: str = "") -> Check:
    return Check(what=what, figure=_number(figure, unit), limit=f"≤ {_number(limit, unit)}", ok=figure <= limit)


def at_least(what: str, figure: float, limit: float, unit: str = "") -> Check:
    return Check(what=what, figure=_number(figure, unit), limit=f"≥ {_number(limit, unit)}", ok=figure >= limit)


def none_of(what: str, items: Sequence[object]) -> Check:
    """Check that there are none; a failure names the first three."""
    named = ", ".join(map(str, items[:3])) + (" …" if len(items) > 3 else "")
    return Check(what=what, figure=f"{len(items)}: {named}" if items else "0", limit="0", ok=not items)


def info(what: str, figure: object) -> Check:
    return Check(what=what, figure=str(figure))


def table(checks: Sequence[Check], title: str) -> Table:
    result = Table("what", "figure", "limit", "ok", title=title, title_justify="left")
    for check in checks:
        verdict = "" if not check.limit else "yes" if check.ok else "NO"
        result.add_row(check.what, check.figure, check.limit, verdict, style=None if check.ok else "bold red")
    return result


def _number(figure: float, unit: str) -> str:
    text = f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}"
    return f"{text} {unit}".strip()
