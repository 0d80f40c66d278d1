"""The page is usable: on a phone and a desk, light and dark, by keyboard, by screen reader, and while it refreshes."""

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.integration.page.browser.installation import Installation
from tests.integration.page.browser.visitor import Visitor, open_visit

SCREENS = ("overview?range=24h", "answers?range=24h", "alerts", "judges?range=24h", "pipeline", "review", "log")
SERIOUS = {"serious", "critical"}


def addresses(installation: Installation) -> list[str]:
    single = [f"answers/{installation.hostile_answer}", f"answers/{installation.emoji_answer}"]
    return [f"#/{name}" for name in (*SCREENS, *single, f"alerts/{installation.alert}", "answers?q=zebrafish")]


@pytest.fixture
def phone(installation: Installation, chromium: Browser) -> Iterator[Visitor]:
    with open_visit(chromium, installation, role="operator", width=390) as visit:
        yield visit


# Sizes and colours


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(
    installation: Installation, chromium: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    problems = []
    with open_visit(chromium, installation, role="operator", width=width, scheme=scheme) as visitor:
        for address in addresses(installation):
            visitor.go(address)
            visitor.unfold()
            problems += [f"{address}: too wide: {element}" for element in visitor.list_wide()]
            # axe puts its script in through the DevTools protocol, which no policy of the page stops.
            for violation in Axe().run(visitor.page).response["violations"]:
                if violation["impact"] in SERIOUS:
                    problems.append(f"{address}: {violation['id']} {violation['nodes'][0]['target']}")
    assert problems == []


def test_nothing_is_wider_than_a_tablet_or_a_small_desk(visitor: Visitor) -> None:
    wide = []
    for address in addresses(visitor.installation):
        visitor.go(address)
        for width in (768, 1024, 1200):
            visitor.page.set_viewport_size({"width": width, "height": 900})
            wide += [(address, width, element) for element in visitor.list_wide()]
    assert wide == []


def test_colours_follow_the_system(installation: Installation, chromium: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with open_visit(chromium, installation, role="operator", scheme="dark") as visitor:
        visitor.go()
        assert visitor.page.evaluate(background) == "rgb(15, 18, 21)"
        visitor.page.emulate_media(color_scheme="light")
        assert visitor.page.evaluate(background) == "rgb(246, 247, 249)"


def test_states_differ_by_words_and_shapes_not_only_by_colour(visitor: Visitor) -> None:
    visitor.go("#/overview?range=24h")
    states = visitor.page.locator("table.apps .state")
    assert all(text.strip() for text in states.all_inner_texts())
    shapes = {state.inner_text(): state.locator("path").get_attribute("d") for state in states.all()}
    assert len(set(shapes.values())) == len(shapes) > 1


def test_filters_unfold_on_a_phone_and_tabs_are_at_the_bottom(phone: Visitor) -> None:
    phone.go("#/answers?range=24h")
    expect(phone.field("App")).to_be_hidden()
    phone.page.get_by_role("button", name="Filters").click()
    phone.field("App").select_option("support-bot")
    expect(phone.page).to_have_url(re.compile("app=support-bot"))
    box = phone.page.get_by_role("navigation").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] == 844


# Keyboard


def test_from_the_start_to_a_context_with_the_keyboard_alone(visitor: Visitor) -> None:
    visitor.go("#/overview?range=24h")
    page = visitor.page
    page.keyboard.press("j")
    first = visitor.focused_text()
    page.keyboard.press("ArrowDown")
    assert visitor.focused_text() != first
    page.keyboard.press("k")
    assert visitor.focused_text() == first
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Answers")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".verdicts-of-answer")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("table", name="Answers")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("table", name="Apps")).to_be_visible()


def test_two_letters_lead_to_each_screen(visitor: Visitor) -> None:
    visitor.go()
    for letter, title in (("a", "Answers"), ("l", "Alerts"), ("j", "Judges"), ("p", "Pipeline"), ("r", "Review")):
        visitor.page.keyboard.press("g")
        visitor.page.keyboard.press(letter)
        expect(visitor.page.get_by_role("heading", level=1)).to_have_text(title)


def test_a_letter_after_g_does_not_move_through_the_answers(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h")
    visitor.page.locator(".row-link").first.click()
    expect(visitor.page.locator("h1.question")).to_be_visible()
    visitor.page.keyboard.press("g")
    visitor.page.keyboard.press("j")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Judges")


def test_a_question_mark_lists_the_shortcuts_and_escape_closes_the_list(visitor: Visitor) -> None:
    visitor.go()
    visitor.page.keyboard.press("?")
    expect(visitor.page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("dialog")).to_be_hidden()


def test_a_range_is_selected_with_the_keyboard(visitor: Visitor) -> None:
    visitor.go("#/overview?range=24h")
    start = visitor.page.get_by_role("slider", name="Start of the selected range")
    start.focus()
    for _ in range(3):
        start.press("PageUp")
    start.press("ArrowLeft")
    assert start.get_attribute("aria-valuenow") == "28"
    start.press("Enter")
    expect(visitor.page).to_have_url(re.compile("from="))
    start.press("Escape")
    expect(visitor.page).not_to_have_url(re.compile("from="))


def test_focus_is_visible_on_everything_that_takes_it(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h")
    for _ in range(14):
        visitor.page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        marked = "document.activeElement.matches('.row-link:focus-visible')"
        assert visitor.page.evaluate(f"{outline} !== 'none' || {marked}")


# While it refreshes


def test_a_refresh_moves_nothing_and_keeps_focus_and_open_parts(visitor: Visitor) -> None:
    visitor.page.clock.install()
    visitor.go("#/pipeline")
    page = visitor.page
    page.locator("table.letters summary").first.click()
    tick = page.locator("input[type=checkbox]:enabled").last
    tick.focus()
    places = (
        "[...document.querySelectorAll('main tr, main pre')].filter(part => part.checkVisibility())"
        ".map(part => part.getBoundingClientRect().top)"
    )
    before, asked = page.evaluate(places), len(visitor.requests)
    with page.expect_response("**/api/pipeline"):
        page.clock.run_for(5_100)
    page.wait_for_timeout(100)
    assert len(visitor.requests) > asked
    assert page.evaluate(places) == before
    expect(page.locator("table.letters pre").first).to_be_visible()
    expect(tick).to_be_focused()


def test_a_list_of_answers_waits_for_the_reader_before_it_changes(visitor: Visitor) -> None:
    visitor.page.clock.install()
    visitor.go("#/answers?range=24h&sort=newest")
    before = visitor.rows.first.get_attribute("href")
    visitor.installation.ask_something("A question that comes later")
    button = visitor.page.get_by_role("button", name="Show new answers")
    visitor.installation.wait_for(lambda: button.is_visible() or visitor.page.clock.run_for(5_100))
    assert visitor.rows.first.get_attribute("href") == before
    button.click()
    expect(visitor.rows.first).to_have_text("A question that comes later")


def test_a_server_that_goes_away_is_said_and_the_data_stays(visitor: Visitor) -> None:
    visitor.page.clock.install()
    visitor.go("#/overview?range=24h")
    visitor.page.route("**/api/**", lambda route: route.abort())
    visitor.page.clock.run_for(5_100)
    expect(visitor.page.locator(".fresh.stale")).to_contain_text("Offline since")
    expect(visitor.page.get_by_role("table", name="Apps")).to_be_visible()
    visitor.page.unroute("**/api/**")
    visitor.page.clock.run_for(5_100)
    expect(visitor.page.locator(".fresh.live")).to_be_visible()


def test_a_first_load_that_fails_offers_to_try_again(visitor: Visitor) -> None:
    visitor.go()
    visitor.page.route("**/api/judges*", lambda route: route.abort())
    visitor.page.get_by_role("link", name="Judges").click()
    expect(visitor.page.get_by_role("alert")).to_contain_text("The server does not answer")
    visitor.page.unroute("**/api/judges*")
    visitor.page.get_by_role("button", name="Try again").click()
    expect(visitor.page.get_by_role("table", name="Judges", exact=True)).to_be_visible()


def test_a_hidden_page_asks_for_nothing(visitor: Visitor) -> None:
    visitor.page.clock.install()
    visitor.go("#/overview?range=24h")
    visitor.page.evaluate("Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })")
    asked = len(visitor.requests)
    visitor.page.clock.run_for(30_000)
    visitor.page.wait_for_timeout(100)
    assert len(visitor.requests) == asked
