"""Writes the files that Grafana reads: dashboards as JSON, runbooks as pages; --check compares them with the code."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dashboards.boards import judges, objectives, pipeline, quality, safety
from dashboards.layout import build
from dashboards.panels import RUNBOOK_LINK, runbook_link
from dashboards.runbook_pages import render_runbooks
from dashboards.sdk import JSONEncoder

GRAFANA = Path(__file__).parent / "grafana"
FOLDER = GRAFANA / "dashboards"
_GENERATED = ("dashboards/*.json", "runbooks/*.html")


def render(runbook_url: str = RUNBOOK_LINK) -> dict[str, str]:
    """Return the dashboards by file name, always the same text from the same code."""
    boards = [module.board() for module in (quality, safety, judges, pipeline, objectives)]
    contents = {f"{board.uid}.json": json.loads(json.dumps(build(board), cls=JSONEncoder)) for board in boards}
    return {name: _text(content, runbook_url) for name, content in contents.items()}


def _text(content: dict[str, Any], runbook_url: str) -> str:
    for link in _panel_links(content):
        link["url"] = runbook_link(link["title"].removeprefix("Runbook: "), runbook_url)
    # The SDK moves links and annotations into a menu that only newer Grafanas have, out of sight.
    for item in (*content["links"], *content["annotations"]["list"], *_panel_links(content)):
        item.pop("placement", None)
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _panel_links(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (link for panel in content["panels"] for link in panel.get("links", ()))


def _files(runbook_url: str = RUNBOOK_LINK) -> dict[str, str]:
    """Return all files by their path below the folder of Grafana."""
    boards = {f"dashboards/{name}": text for name, text in render(runbook_url).items()}
    return boards | {f"runbooks/{name}": text for name, text in render_runbooks().items()}


def find_outdated() -> list[str]:
    """List files that are missing, differ from what the code makes, or that it does not make."""
    wanted = _files()
    existing = {
        str(path.relative_to(GRAFANA)): path.read_text(encoding="utf-8")
        for pattern in _GENERATED
        for path in GRAFANA.glob(pattern)
    }
    return sorted(name for name in wanted.keys() | existing.keys() if wanted.get(name) != existing.get(name))


def write(runbook_url: str) -> None:
    wanted = {GRAFANA / name: text for name, text in _files(runbook_url).items()}
    for pattern in _GENERATED:
        for path in set(GRAFANA.glob(pattern)) - wanted.keys():
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change no files; exit 1 if one differs")
    parser.add_argument(
        "--runbook-url",
        default=RUNBOOK_LINK,
        help="where panels link to, as alerts.runbook_url (default: the pages that Grafana serves)",
    )
    options = parser.parse_args()
    if not options.check:
        write(options.runbook_url)
        return 0
    outdated = find_outdated()
    for name in outdated:
        sys.stderr.write(f"{name} is outdated: run `make dashboards`\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
