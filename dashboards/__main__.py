"""Writes the dashboards' JSON beside this package, or with --check says whether it is what the code makes."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dashboards.boards import judges, objectives, pipeline, quality, safety
from dashboards.layout import build
from dashboards.sdk import JSONEncoder

FOLDER = Path(__file__).parent / "grafana" / "dashboards"


def rendered() -> dict[str, str]:
    """The files by name, always the same text from the same code."""
    boards = [module.board() for module in (quality, safety, judges, pipeline, objectives)]
    return {f"{board.uid}.json": _text(json.loads(json.dumps(build(board), cls=JSONEncoder))) for board in boards}


def _text(content: dict[str, Any]) -> str:
    # The SDK moves links and annotations into a menu that only newer Grafanas have, out of sight.
    for each in (*content["links"], *content["annotations"]["list"], *_panel_links(content)):
        each.pop("placement", None)
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _panel_links(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (link for panel in content["panels"] for link in panel.get("links", ()))


def outdated() -> list[str]:
    """Files that are missing, differ from what the code makes, or that it does not make."""
    wanted = rendered()
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def write() -> None:
    wanted = rendered()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change no files; exit 1 if one differs")
    if not parser.parse_args().check:
        write()
        return 0
    stale = outdated()
    for name in stale:
        sys.stderr.write(f"{name} is outdated: run `make dashboards`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
