"""The list of generated pages."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generate import cli, configuration, metrics, topics

DOCS = Path(__file__).parents[1]

PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration.page,
    "reference/cli.md": cli.page,
    "reference/topics.md": topics.page,
    "reference/metrics.md": metrics.page,
}
"""By their paths in docs/: the functions that return their text."""


def write_pages() -> None:
    """Writes all of them, in place."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
