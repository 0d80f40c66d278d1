"""Review by keyboard, blind until answered, with undo; and what each role sees and may do."""

import re
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.page.browser.installation import Installation
from tests.integration.page.browser.visitor import Visitor, open_visit
from tests.integration.pipeline import StageProcess
from tests.parts.server import free_port


def read_remaining(visitor: Visitor) -> int:
    match = re.search(r"(\d+) answers? left", visitor.page.locator(".heading").inner_text())
    assert match is not None
    return int(match[1])


def test_an_answer_is_labelled_and_taken_back_with_the_keyboard_alone(
    installation: Installation, chromium: Browser
) -> None:
    with open_visit(chromium, installation, role="reviewer") as visitor:
        visitor.go("#/review?criterion=groundedness")
        page = visitor.page
        question, before = page.locator(".question").inner_text(), read_remaining(visitor)
        page.keyboard.press("2")
        expect(page.get_by_role("radio").nth(1)).to_be_checked()
        page.keyboard.press("ArrowUp")
        expect(page.get_by_role("radio").nth(0)).to_be_checked()
        page.keyboard.press("c")
        page.keyboard.type("I looked twice.")
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        expect(page.locator(".last-label")).to_contain_text("the judges said")
        expect(page.locator(".heading")).to_contain_text(re.compile(rf"(?<!\d){before - 1} answers? left"))
        expect(page.locator(".question")).not_to_have_text(question)
        href = page.get_by_role("link", name="See that answer").get_attribute("href")
        answer = str(href).rpartition("/")[2]
        visitor.installation.wait_for(lambda: visitor.fetch(f"/api/answers/{answer}")["labels"])
        [label] = visitor.fetch(f"/api/answers/{answer}")["labels"]
        assert (label["who"], label["criterion"], label["comment"]) == ("rita", "groundedness", "I looked twice.")
        page.keyboard.press("u")
        expect(page.locator(".last-label")).to_contain_text("hidden until you have answered")
        visitor.installation.wait_for(lambda: not visitor.fetch(f"/api/answers/{answer}")["labels"])
        expect(page.locator(".heading")).to_contain_text(re.compile(rf"(?<!\d){before} answers? left"))


def test_no_verdict_is_fetched_before_an_answer(visitor: Visitor) -> None:
    visitor.go("#/review")
    expect(visitor.page.get_by_role("radiogroup")).to_be_visible()
    assert not any(re.search(r"/api/answers/.", request) for request in visitor.requests)
    assert visitor.page.locator("mark, .score").count() == 0


def test_a_level_must_be_chosen_before_it_is_saved(visitor: Visitor) -> None:
    visitor.go("#/review")
    expect(visitor.page.get_by_role("button", name="Save")).to_be_disabled()
    visitor.page.keyboard.press("Enter")
    visitor.page.keyboard.press("9")
    expect(visitor.page.get_by_role("button", name="Save")).to_be_disabled()
    assert not any(request.startswith("POST") for request in visitor.requests)


# Roles


def test_a_viewer_sees_no_way_to_write(installation: Installation, chromium: Browser) -> None:
    with open_visit(chromium, installation, role="viewer") as visitor:
        visitor.go("#/pipeline")
        expect(visitor.page.get_by_role("navigation").get_by_role("link")).to_have_count(5)
        expect(visitor.page.get_by_role("table", name="Dead letters")).to_be_visible()
        assert visitor.page.get_by_role("checkbox").count() == 0
        assert visitor.page.get_by_role("button", name=re.compile("Replay|Select all")).count() == 0
        visitor.go("#/review")
        expect(visitor.page.get_by_role("heading", name="Review needs the reviewer role")).to_be_visible()
        visitor.go("#/log")
        expect(visitor.page.get_by_role("heading", name="This could not be loaded")).to_be_visible()


def test_a_reviewer_may_label_and_not_replay(installation: Installation, chromium: Browser) -> None:
    with open_visit(chromium, installation, role="reviewer") as visitor:
        visitor.go("#/pipeline")
        assert visitor.page.get_by_role("checkbox").count() == 0
        visitor.follow(visitor.page.get_by_role("link", name="Review"))
        expect(visitor.page.get_by_role("radiogroup")).to_be_visible()


def test_a_token_opens_a_session_and_signing_out_ends_it(installation: Installation, chromium: Browser) -> None:
    with open_visit(chromium, installation, role=None) as visitor:
        page = visitor.page
        visitor.go("#/answers")
        page.get_by_label("Token").fill("not the token")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("token")
        assert page.get_by_role("navigation").count() == 0
        page.get_by_label("Token").fill(installation.tokens["viewer"])
        page.keyboard.press("Enter")
        expect(page.get_by_role("table", name="Answers")).to_be_visible()
        assert page.evaluate("document.cookie") == ""  # it is not for scripts
        page.locator("details.menu summary").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()


def test_a_page_without_tokens_that_others_can_reach_says_what_to_configure(chromium: Browser, tmp_path: Path) -> None:
    port = free_port()
    settings = {"http__host": "0.0.0.0", "http__port": str(port)}
    with (
        StageProcess("page", bootstrap="127.0.0.1:1", log=tmp_path / "log", **settings) as process,
        closing(Installation(f"http://127.0.0.1:{port}", bootstrap="")) as installation,
    ):
        installation.wait_for(lambda: process.has_logged("page at") or process.has_ended())
        with open_visit(chromium, installation, role=None) as visitor:
            visitor.go()
            expect(visitor.page.get_by_role("heading", name="The page is closed")).to_be_visible()
            expect(visitor.page.locator("main")).to_contain_text("set http.tokens")
            assert visitor.page.get_by_label("Token").count() == 0


@pytest.mark.parametrize("role", ["viewer", "reviewer"])
def test_the_server_refuses_what_the_page_does_not_offer(
    installation: Installation, chromium: Browser, role: str
) -> None:
    with open_visit(chromium, installation, role=role) as visitor:  # type: ignore[arg-type]
        visitor.go()
        status = visitor.page.evaluate(
            """async () => {
                const { csrf } = await (await fetch("/api/session")).json();
                const headers = { "X-CSRF-Token": csrf, "Content-Type": "application/json" };
                const body = JSON.stringify({ letters: [{ partition: 0, offset: 0 }] });
                return (await fetch("/api/dead-letters/replay", { method: "POST", headers, body })).status;
            }"""
        )
        assert status == 403
