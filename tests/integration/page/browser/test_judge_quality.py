"""The judges beside people: their figures in a real browser, with labels on answers of a real pipeline."""

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from tests.integration.page.browser.installation import Installation
from tests.integration.page.browser.visitor import Visitor, open_visit

JUDGES = "#/judges?range=24h"


@pytest.fixture(scope="module")
def labelled(installation: Installation) -> None:
    installation.send_labels("groundedness", 24)


def table_of(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("table", name="Judges and people")


def count_comparisons(visitor: Visitor) -> int:
    return sum("/api/judges/labels" in request for request in visitor.requests)


def texts_of(judge: dict[str, Any]) -> Iterator[str]:
    """The figures of a judge as the table shows them."""
    yield f"{judge['labels']}"
    for name in ("sensitivity", "specificity", "kappa"):
        yield from (fixed(value, "0.01") for value in judge[name].values() if value is not None)
    values = [value for value in judge["bias"].values() if value is not None]
    yield from (f"{'−' if value < 0 else '+'}{fixed(abs(value), '0.001')}" for value in values)


def fixed(value: float, step: str) -> str:
    """A number with the digits of `toFixed`, which rounds up where Python rounds to even."""
    return str(Decimal(value).quantize(Decimal(step), ROUND_HALF_UP))


@pytest.mark.usefixtures("labelled")
def test_every_judge_has_its_figures_with_intervals(visitor: Visitor) -> None:
    with visitor.page.expect_response(re.compile("/api/judges/labels")) as reply:
        visitor.go(JUDGES)
    judges = reply.value.json()["judges"]
    assert judges
    expect(table_of(visitor).locator("tbody tr")).to_have_count(len(judges))
    for number, judge in enumerate(judges):
        row = table_of(visitor).locator("tbody tr").nth(number)
        expect(row).to_contain_text(judge["judge"])
        expect(row).to_contain_text(judge["criterion"].replace("_", " "))
        for text in texts_of(judge):
            expect(row).to_contain_text(text)


@pytest.mark.usefixtures("labelled")
def test_a_label_that_is_only_a_score_is_shown_as_one(visitor: Visitor) -> None:
    answers = visitor.fetch("/api/answers", limit="100", criterion="groundedness", max="1")["answers"]
    visitor.go(f"#/answers/{answers[0]['id']}")
    expect(visitor.page.locator(".labels strong").filter(has_text=re.compile(r"^1\.00$"))).to_be_visible()


@pytest.mark.usefixtures("labelled")
def test_judges_are_divided_and_filtered_in_the_address(visitor: Visitor) -> None:
    visitor.go(JUDGES)
    visitor.field("By").select_option("language")
    expect(visitor.page).to_have_url(re.compile("by=language"))
    expect(table_of(visitor).get_by_role("columnheader", name="Language")).to_be_visible()
    expect(table_of(visitor).locator("tbody tr").first).to_contain_text("en")
    visitor.field("App").select_option("docs-search")
    expect(visitor.page).to_have_url(re.compile("app=docs-search"))
    wanted = visitor.fetch("/api/judges/labels", app="docs-search", by="language")["judges"]
    assert wanted
    labels = sum(judge["labels"] for judge in wanted)
    assert labels < sum(judge["labels"] for judge in visitor.fetch("/api/judges/labels")["judges"])
    expect(table_of(visitor).locator("tbody tr").first).to_contain_text(str(wanted[0]["labels"]))
    visitor.go(f"{JUDGES}&by=family&app=nobody")
    expect(visitor.page.get_by_role("heading", name="No labelled answers here")).to_be_visible()
    visitor.page.get_by_role("link", name="Last 30 days of all apps").click()
    expect(table_of(visitor).get_by_role("columnheader", name="Family")).to_be_visible()


@pytest.mark.usefixtures("labelled")
def test_labels_are_compared_again_only_after_a_minute(visitor: Visitor) -> None:
    visitor.page.clock.install()
    visitor.go(JUDGES)
    with visitor.page.expect_response(re.compile(r"/api/judges\?")):
        visitor.page.clock.run_for(5_100)
    assert count_comparisons(visitor) == 1
    visitor.page.clock.fast_forward(60_000)
    visitor.installation.wait_for(lambda: visitor.page.clock.run_for(5_100) or count_comparisons(visitor) == 2)


@pytest.mark.parametrize("role", ["viewer", "reviewer"])
def test_without_labels_the_page_says_how_to_send_some(
    installation: Installation, chromium: Browser, role: Any
) -> None:
    reply = {"by": None, "judges": [], "left_out": 0, "cut": None, "apps": ["shop"], "has_labels": False}
    with open_visit(chromium, installation, role=role) as visitor:
        visitor.page.route("**/api/judges/labels*", lambda route: route.fulfill(json=reply))
        visitor.go(JUDGES)
        part = visitor.page.get_by_role("region", name="Judges and people")
        expect(part).to_contain_text("No labels yet")
        expect(part).to_contain_text("streamjury labels send")
        expect(part).to_contain_text("docs/labels.md")
        expect(visitor.field("By")).to_have_count(0)
        expect(part.get_by_role("link", name="Review answers")).to_have_count(int(role == "reviewer"))


@pytest.mark.usefixtures("labelled")
def test_a_cut_is_said_and_names_of_judges_are_text(visitor: Visitor) -> None:
    def change(route: Route) -> None:
        reply = route.fetch().json()
        reply["judges"][0] |= {"judge": "<img src=x onerror='window.ran = 1'>", "value": "<b>value</b>"}
        reply |= {"by": "family", "cut": {"answers": 5000, "labels": 20000}, "left_out": 7}
        route.fulfill(json=reply)

    visitor.page.route("**/api/judges/labels*", change)
    visitor.go(JUDGES)
    part = visitor.page.get_by_role("region", name="Judges and people")
    expect(part).to_contain_text("only the latest 5,000 labelled answers of this range")
    expect(part).to_contain_text("7 rows more")
    expect(table_of(visitor)).to_contain_text("<img src=x")
    expect(table_of(visitor)).to_contain_text("<b>value</b>")
    assert visitor.page.evaluate("window.ran === undefined && document.querySelectorAll('main img').length === 0")


@pytest.mark.usefixtures("labelled")
def test_on_a_phone_each_figure_has_its_name(installation: Installation, chromium: Browser) -> None:
    with open_visit(chromium, installation, role="viewer", width=390, scheme="dark") as phone:
        for by in ("", "&by=language"):
            phone.go(f"{JUDGES}{by}")
            expect(table_of(phone)).to_be_visible()
            assert phone.list_wide() == []
        cell = table_of(phone).locator("td[data-title='Weighted kappa']").first
        assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == '"Weighted kappa"'
