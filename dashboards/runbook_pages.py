"""Renders the runbooks as HTML pages, which Grafana serves and a browser shows."""

import html
import re
from pathlib import Path

from markdown_it import MarkdownIt

FOLDER = Path(__file__).parent / "runbooks"
# Links between runbooks, which lie side by side; links to other sites stay as they are.
_TO_RUNBOOK = re.compile(r'(<a href="\w+)\.md(["#])')
_STYLE = (
    "body{max-width:46em;margin:2em auto;padding:0 1em;font:16px/1.5 system-ui,sans-serif;color:#222;background:#fff}"
    "code{background:#f2f2f2;padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}"
    "pre{background:#f2f2f2;padding:1em;overflow-x:auto}pre code{padding:0}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181b1f}code,pre{background:#2a2d33}a{color:#6e9fff}}"
)


def render_runbooks() -> dict[str, str]:
    """Return the pages by file name, always the same text from the same runbooks."""
    return {f"{path.stem}.html": _render(path) for path in sorted(FOLDER.glob("*.md"))}


def _render(path: Path) -> str:
    body = MarkdownIt("commonmark").enable("table").render(path.read_text(encoding="utf-8"))
    linked = _TO_RUNBOOK.sub(r"\1.html\2", body)
    title = html.escape(path.stem)
    return (
        "<!DOCTYPE html>\n"
        f"<!-- Written by `make dashboards` from dashboards/runbooks/{title}.md. Do not edit. -->\n"
        f'<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{linked}</body>\n</html>\n"
    )
