"""Texts of users are data: payloads in every field are shown as text on every screen, and none of them runs."""

import pytest
from playwright.sync_api import expect

from tests.integration.page.browser import payloads
from tests.integration.page.browser.visitor import Visitor

# What a browser would make of the payloads, were they ever taken for markup.
_MARKUP = "document.querySelectorAll('script:not([src]), img, iframe, object, [onerror], [onload]').length"
_SCRIPT_LINKS = "[...document.querySelectorAll('a')].filter(link => link.protocol === 'javascript:').length"


def check_nothing_ran(visitor: Visitor) -> None:
    assert visitor.page.evaluate("window.ran === undefined")
    assert visitor.page.evaluate(_MARKUP) == 0
    assert visitor.page.evaluate(_SCRIPT_LINKS) == 0


def test_an_answer_full_of_payloads_shows_them_as_text(visitor: Visitor) -> None:
    visitor.go(f"#/answers/{visitor.installation.hostile_answer}")
    main = visitor.page.locator("main")
    visitor.unfold()
    # Words for screen readers stand behind a marked sentence, and would interrupt the text.
    visitor.page.evaluate("document.querySelectorAll('mark .hidden').forEach(words => words.remove())")
    texts = [*main.locator(".text, .role, code, dd").all_inner_texts(), main.locator("h1").inner_text()]
    for number, field in enumerate(visitor.installation.hostile_fields):
        assert any(field in text for text in texts), f"field {number} is not shown: {field[:60]}"
    check_nothing_ran(visitor)


@pytest.mark.parametrize(
    "address", ["#/overview?range=24h", "#/answers?range=24h", "#/alerts", "#/judges?range=24h", "#/pipeline", "#/log"]
)
def test_lists_show_payloads_as_text(visitor: Visitor, address: str) -> None:
    visitor.go(address)
    check_nothing_ran(visitor)
    visitor.unfold()
    if address not in {"#/judges?range=24h", "#/log"}:
        expect(visitor.page.locator("main")).to_contain_text("<img")
    check_nothing_ran(visitor)


def test_the_alert_of_a_hostile_app_shows_its_name_as_text(visitor: Visitor) -> None:
    visitor.go(f"#/alerts/{visitor.installation.hostile_alert}")
    expect(visitor.page.locator("h1")).to_contain_text(payloads.NAME)
    check_nothing_ran(visitor)


def test_the_comment_of_a_label_is_text(visitor: Visitor) -> None:
    installation = visitor.installation
    installation.label(installation.hostile_answer, payloads.ALL)
    visitor.go(f"#/answers/{installation.hostile_answer}")
    expect(visitor.page.locator(".labels .text")).to_have_text(payloads.ALL, use_inner_text=True)
    check_nothing_ran(visitor)


def test_filters_from_a_link_are_text_too(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h&app=%3Cimg%20src%3Dx%20onerror%3D%22window.ran%3D1%22%3E&q=%3Cscript%3E")
    expect(visitor.page.locator(".chips")).to_contain_text("<img src=x")
    visitor.go("#/answers/%3Cimg%20src%3Dx%20onerror%3D%22window.ran%3D1%22%3E")
    visitor.go("#/alerts/..%2F..%2Fapi%2Fsession")
    check_nothing_ran(visitor)


def test_reviewed_texts_are_text(visitor: Visitor) -> None:
    visitor.go("#/review")
    check_nothing_ran(visitor)


def test_the_policy_stops_what_should_get_in_all_the_same(visitor: Visitor) -> None:
    """Were a text ever taken for markup, its script would not run, its picture not be fetched, its style not apply."""
    visitor.go()
    visitor.page.evaluate(
        """() => {
            document.querySelector("main").innerHTML =
                '<img src="https://example.invalid/x.png" onerror="window.ran = 1"><p style="color: red">x</p>';
            const script = document.createElement("script");
            script.textContent = "window.ran = 1";
            document.body.append(script);
        }"""
    )
    visitor.page.wait_for_timeout(200)
    assert visitor.page.evaluate("window.ran === undefined")
    assert visitor.page.evaluate("document.querySelector('main p').style.color") == ""
    assert any("Content Security Policy" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


def test_the_builder_of_elements_refuses_attributes_that_run_something(visitor: Visitor) -> None:
    visitor.go()
    for name in ("onclick", "style", "src", "srcdoc", "formaction"):
        assert (
            visitor.page.evaluate(
                "name => import('/static/dom.js').then(({ h }) => { h('a', { [name]: 'x' }); return 'made'; })"
                ".catch(error => error.message)",
                name,
            )
            == f"attribute {name} is not allowed"
        )
    read_link = "address => import('/static/dom.js').then(({ h }) => h('a', { href: address }).getAttribute('href'))"
    assert visitor.page.evaluate(read_link, payloads.LINK) is None
    assert visitor.page.evaluate(read_link, " javascript:x") is None
    assert visitor.page.evaluate(read_link, "https://traces.example/1") == "https://traces.example/1"
