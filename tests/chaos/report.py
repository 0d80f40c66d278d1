"""The report of a run: figures beside their limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A figure and the limit it must keep; without a limit it is only told."""

    what: str
    figure: str
    limit: str = ""
    ok: bool = True


def at_most(what: str, figure: float, limit: float, unit: str = "") -> Check:
    return Check(what=what, figure=_number(figure, unit), limit=f"≤ {_number(limit, unit)}", ok=figure <= limit)


def at_least(what: str, figure: float, limit: float, unit: str = "") -> Check:
    return Check(what=what, figure=_number(figure, unit), limit=f"≥ {_number(limit, unit)}", ok=figure >= limit)


def none_of(what: str, found: Sequence[object]) -> Check:
    """There must be none; those that there are are named, the first three of them."""
    named = ", ".join(map(str, found[:3])) + (" …" if len(found) > 3 else "")
    return Check(what=what, figure=f"{len(found)}: {named}" if found else "0", limit="0", ok=not found)


def told(what: str, figure: object) -> Check:
    return Check(what=what, figure=str(figure))


def table(checks: Sequence[Check], title: str) -> Table:
    found = Table("what", "figure", "limit", "ok", title=title, title_justify="left")
    for check in checks:
        verdict = "" if not check.limit else "yes" if check.ok else "NO"
        found.add_row(check.what, check.figure, check.limit, verdict, style=None if check.ok else "bold red")
    return found


def _number(figure: float, unit: str) -> str:
    shown = f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}"
    return f"{shown} {unit}".strip()
