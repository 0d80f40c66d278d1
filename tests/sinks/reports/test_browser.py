"""The HTML report in a real browser: at desktop and phone width, light and dark, with and without scripts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from judges.local import LocalJudge
from sinks.reports import write_reports
from tests.parts.chromium import Page, browser
from tests.sinks.reports.invented import NASTY, run, saying
from tests.sinks.reports.sample import sample_results, second_judge, write_results

# One browser serves all tests.
pytestmark = pytest.mark.xdist_group("chromium")

WIDTHS = ((1280, False), (390, True))
# Contrast of visible text with its background, by WCAG's formula; small letters need 4.5, large ones 3.
CONTRAST = """
(() => {
  const parse = (text) => { const [r, g, b, a] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a ?? 1]; };
  const light = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *:not(svg):not(svg *):not(script)")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility()) continue;
    const pair = [luminance(parse(getComputedStyle(node).color)), luminance(behind(node))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) found.push(`${node.tagName}.${node.className}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
})()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_reports(sample_results(folder / "results.jsonl", LocalJudge(), second_judge(), count=30), folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with all hostile texts, and words longer than any screen."""
    folder = tmp_path_factory.mktemp("hostile")
    texts = [*NASTY, "w" * 3_000, "⁣شرح " * 200]
    rows = [saying(text, number=number) for number, text in enumerate(texts, start=1)]
    write_reports(write_results(folder / "r.jsonl", run(name="w" * 300), rows, finished=False), folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def shared_page() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def page(shared_page: Page) -> Page:
    """A tab in its initial state."""
    shared_page.scripts(run=True)
    shared_page.prefer("light")
    shared_page.resize(1280)
    shared_page.complaints.clear()
    return shared_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "phone"), WIDTHS)
@pytest.mark.parametrize("name", ["report", "hostile_report"])
def test_nothing_is_wider_than_the_screen_and_all_letters_can_be_read(
    page: Page, request: pytest.FixtureRequest, name: str, width: int, phone: bool, scheme: str
) -> None:
    page.resize(width, phone=phone)
    page.prefer("dark" if scheme == "dark" else "light")
    page.open(request.getfixturevalue(name))
    page.ask("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.ask("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    assert page.ask(CONTRAST) == []
    assert page.ask("getComputedStyle(document.body).backgroundColor") == (
        "rgb(17, 20, 24)" if scheme == "dark" else "rgb(244, 245, 247)"
    )


def test_no_judged_text_runs_and_nothing_is_requested(page: Page, hostile_report: Path) -> None:
    page.open(hostile_report)
    assert page.ask("performance.getEntriesByType('resource').length") == 0
    assert page.ask("document.querySelectorAll('script, style, img, iframe, object, link').length") == 2
    assert page.ask("document.querySelectorAll('#list > details').length") == len(NASTY) + 2
    assert page.complaints == []


def test_the_content_security_policy_blocks_scripts_that_get_past_the_escaping(
    page: Page, report: Path, tmp_path: Path
) -> None:
    """If a text were not escaped, its script would not run and its picture would not be fetched."""
    broken = tmp_path / "broken.html"
    hole = "<script>window.ran = true</script><img src='https://example.invalid/x.png' onerror='window.ran = true'>"
    broken.write_text(report.read_text(encoding="utf-8").replace("<main>", f"<main>{hole}"), encoding="utf-8")
    page.open(broken)
    assert page.ask("window.ran === undefined")
    assert any("Content Security Policy" in complaint for complaint in page.complaints)


def test_the_page_can_be_read_without_script(page: Page, report: Path) -> None:
    page.scripts(run=False)
    page.open(report)
    assert page.ask("getComputedStyle(document.getElementById('tools')).display") == "none"
    assert page.ask("document.querySelectorAll('#list > details:not([hidden])').length") == 30


def test_entries_are_found_filtered_and_sorted(page: Page, report: Path) -> None:
    page.open(report)
    visible_entries = "[...document.querySelectorAll('#list > details')].filter((each) => !each.hidden)"
    assert page.ask(f"{visible_entries}.length") == 30
    page.ask("(() => { show.value = 'status:not_judged'; show.dispatchEvent(new Event('change')); })()")
    assert page.ask(f"{visible_entries}.map((each) => each.dataset.row)") == ["7", "19"]
    assert page.ask("shown.textContent") == "2 of 30 shown"
    page.ask("(() => { show.value = ''; show.dispatchEvent(new Event('change')); })()")
    page.ask("(() => { order.value = 'worst'; order.dispatchEvent(new Event('change')); })()")
    scores = [float(score or 2) for score in page.ask(f"{visible_entries}.map((each) => each.dataset.score)")]
    assert scores == sorted(scores)
    some = page.ask("document.querySelector('#row-3 .text').textContent")
    page.ask(
        f"(() => {{ const box = document.getElementById('find'); box.value = {some.upper()!r}; "
        "box.dispatchEvent(new Event('input')); })()"
    )
    page.ask("new Promise((done) => setTimeout(done, 400))")
    assert "3" in page.ask(f"{visible_entries}.map((each) => each.dataset.row)")
    assert page.ask(f"{visible_entries}.length") < 30


def test_a_link_to_a_row_opens_it(page: Page, report: Path) -> None:
    page.open(report, "#row-5")
    assert page.ask("[...document.querySelectorAll('#list > details[open]')].map((each) => each.id)") == ["row-5"]


@pytest.mark.parametrize("run_scripts", [True, False])
def test_on_paper_every_entry_is_there(page: Page, report: Path, tmp_path: Path, run_scripts: bool) -> None:
    page.scripts(run=run_scripts)
    page.open(report)
    pdf = page.print(tmp_path / "report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", pdf)) >= 30, "an entry fills about a page"


def test_pictures_of_it_are_not_blank(page: Page, report: Path, tmp_path: Path) -> None:
    page.open(report)
    picture = page.picture(tmp_path / "page.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
