"""The site builds without a warning, needs no network and fits a phone; every link of every page works."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from docs.generate.pages import DOCS, PAGES
from sinks.topics.headers import HEADERS
from stream.config.model import Config
from stream.kafka.topics import plan_topics
from tests.parts.chromium import browser
from tests.parts.documents.pages import ROOT, Link, anchors, links, pages, prose, runbooks
from tests.parts.patience import patience

LINKS = [link for page in pages() for link in links(page)]
ELSEWHERE = ("http://", "https://", "mailto:")


# Links


def link_problem(link: Link) -> str | None:
    """Return the problem of a link within the repository, if any."""
    path, _, anchor = unquote(link.target).partition("#")
    file = (link.page.parent / path).resolve() if path else link.page
    if not file.exists():
        return f"{link}: no such file"
    if not file.is_relative_to(ROOT):
        return f"{link}: out of the repository"
    if anchor and anchor not in anchors(file):
        return f"{link}: no such heading; there are {', '.join(sorted(anchors(file)))}"
    return None


def test_every_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    inner = [link for link in LINKS if not link.target.startswith(ELSEWHERE)]
    assert len(inner) > 100
    assert [problem for link in inner if (problem := link_problem(link))] == []


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("none.md", "no such file"),
        ("alerts.md#none", "no such heading"),
        ("#none", "no such heading"),
        ("../../none.md", "no such file"),
        ("../..", "out of the repository"),
    ],
)
def test_a_broken_link_is_found(target: str, problem: str) -> None:
    assert problem in (link_problem(Link(ROOT / "docs/budgets.md", target)) or "")


def test_a_list_begins_after_an_empty_line() -> None:
    """Without one the site shows the items as one paragraph."""
    item = re.compile(r"^(?!- |\d+\. | {2}|#).*\S.*\n(?=- |\d+\. )", re.MULTILINE)
    of_the_site = [page for page in pages() if page.is_relative_to(ROOT / "docs")] + runbooks()
    assert [f"{page.name}: {match[0]}" for page in of_the_site for match in item.finditer(prose(page))] == []


# The site


one_build = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does; any warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    process = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120 * patience(), check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


@one_build
def test_it_has_every_page_and_every_runbook(site: Path) -> None:
    of_docs = {page.relative_to(ROOT / "docs") for page in pages() if page.is_relative_to(ROOT / "docs")}
    wanted = {path.with_suffix(".html") for path in of_docs} | {
        Path("runbooks", f"{runbook.stem}.html") for runbook in runbooks()
    }
    assert wanted <= {file.relative_to(site) for file in site.rglob("*.html")}
    # Examples are there to be downloaded; the code that makes the site is not.
    programs = [file for file in site.rglob("*.py") if file.parent != site / "examples"]
    assert not [*programs, *site.rglob("*.pyc"), *site.rglob("generate")]
    assert 'href="runbooks/StreamjuryQualityDrop.html"' in (site / "alerts.html").read_text(encoding="utf-8")


@one_build
def test_it_loads_nothing_from_the_network(site: Path) -> None:
    loading = re.compile(r"<(?:script|img|iframe|link|source)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)")
    addresses = {
        address for file in site.rglob("*.html") for address in loading.findall(file.read_text(encoding="utf-8"))
    }
    assert addresses == set()
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert re.findall(r"url\(\s*['\"]?(?:https?:)?//[^)]*\)|@import[^;]*", styles) == []


@one_build
@pytest.mark.slow
def test_pages_fit_a_desk_and_a_phone(site: Path) -> None:
    """Wide tables and blocks scroll within themselves, the page does not, and the browser logs no error."""
    names = ("index", "tutorial", "configuration", "reference/cli", "reference/topics", "alerts", "guides/alert")
    with browser() as page:
        for width, phone in ((1280, False), (390, True)):
            page.resize(width, phone=phone)
            for name in names:
                page.open(site / f"{name}.html")
                assert page.ask("document.documentElement.scrollWidth") <= width, name
        assert page.complaints == []


# Generated pages


@pytest.mark.usefixtures("default_panel")
@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run: make reference"


def test_every_page_that_says_it_is_generated_is_in_the_list() -> None:
    marked = {path for path in DOCS.rglob("*.md") if "written by `make reference`" in path.read_text().lower()}
    assert {str(path.relative_to(DOCS)) for path in marked} == set(PAGES)


def test_the_page_about_topics_has_every_topic_and_every_header() -> None:
    page = PAGES["reference/topics.md"]()
    assert [plan.name for plan in plan_topics(Config()) if f"`{plan.name}`" not in page] == ["rag.retry.2"]
    assert [name for name in HEADERS if page.count(f"| `{name}` |") != 1] == []
