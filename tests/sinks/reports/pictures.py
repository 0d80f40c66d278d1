"""Take the screenshots of a report for the docs: python -m tests.sinks.reports.pictures docs/images."""

import sys
import tempfile
from pathlib import Path

from PIL import Image

from judges.local import LocalJudge
from sinks.reports import write_reports
from tests.parts.chromium import Page, browser
from tests.sinks.reports.sample import sample_results, second_judge

_COLOURS = 256


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m tests.sinks.reports.pictures FOLDER\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="streamjury-report-") as folder, browser() as page:
        results = sample_results(Path(folder) / "results.jsonl", LocalJudge(), second_judge(), count=60)
        report = write_reports(results, Path(folder))[-1]
        _take(page, report, Path(sys.argv[1]))
    return 0


def _take(page: Page, report: Path, folder: Path) -> None:
    page.resize(1280, 1000)
    page.open(report)
    _smaller(page.picture(folder / "report-desktop.png", height=1620))
    page.prefer("dark")
    page.open(report, "#row-11")
    # Pages scroll smoothly; wait for the end.
    page.ask("new Promise((done) => setTimeout(done, 1500))")
    _smaller(page.picture(folder / "report-entry.png"))
    page.prefer("light")
    page.resize(390, 1500, phone=True)
    page.open(report)
    _smaller(page.picture(folder / "report-phone.png"))


def _smaller(path: Path) -> None:
    """Reduce the palette: a report has few colours, and a palette is a fraction of the size. Rare colours are kept."""
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main())
