"""Every screen in a real browser, with the data of a real pipeline behind it."""

import re

import pytest
from playwright.sync_api import Route, expect

from tests.integration.page.browser.visitor import Visitor


def scores_in(visitor: Visitor) -> list[float]:
    texts = visitor.page.locator("table.answers .score .number").all_inner_texts()
    return [float(text) for text in texts if text != "–"]


# The overview


def test_a_marked_unsupported_sentence_is_two_clicks_from_the_start(visitor: Visitor) -> None:
    visitor.go()
    visitor.follow(visitor.page.get_by_role("link", name="support-bot", exact=True))
    visitor.follow(visitor.rows.filter(has_not_text="window.ran").first)
    sentence = visitor.page.locator("mark.unsupported, mark.contradicted").first
    expect(sentence).to_be_visible()
    assert sentence.evaluate("mark => getComputedStyle(mark).textDecorationStyle") in {"wavy", "double"}


def test_the_overview_shows_estimates_with_interval_and_effective_size(visitor: Visitor) -> None:
    visitor.go("#/overview?range=24h")
    [app] = [app for app in visitor.fetch("/api/overview")["apps"] if app["app"] == "support-bot"]
    row = visitor.page.get_by_role("row").filter(has=visitor.page.get_by_role("link", name="support-bot", exact=True))
    composite = app["composite"]
    expect(row).to_contain_text(f"{composite['mean']:.3f}")
    expect(row).to_contain_text(f"{composite['low']:.3f}–{composite['high']:.3f}")
    expect(row).to_contain_text(f"{round(composite['n_eff'])}")
    expect(row.locator(".state")).to_have_text("Alert")
    expect(row.locator(".sparkline .onset")).to_have_count(1)
    expect(visitor.page.get_by_role("columnheader", name="Total lag")).to_be_visible()


def test_apps_in_trouble_come_first(visitor: Visitor) -> None:
    visitor.go("#/overview?range=24h")
    expect(visitor.page.locator("table.apps tbody tr").first.locator(".state")).to_have_text("Alert")


def test_a_range_selected_with_the_mouse_filters_every_screen(visitor: Visitor) -> None:
    visitor.go("#/overview?range=1h")
    strip = visitor.page.locator(".strip-plot")
    box = strip.bounding_box()
    assert box is not None
    y = box["y"] + 20
    visitor.page.mouse.move(box["x"] + 0.1 * box["width"], y)
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + 0.3 * box["width"], y, steps=4)
    visitor.page.mouse.up()
    expect(visitor.page).to_have_url(re.compile(r"from=[^&]+&to="))
    # Nothing was judged in the first half of the last hour.
    expect(visitor.page.get_by_role("heading", name="No evaluations in this range")).to_be_visible()
    visitor.page.get_by_role("navigation").get_by_role("link", name="Answers").click()
    expect(visitor.page.get_by_role("heading", name="No answers in this range")).to_be_visible()
    expect(visitor.page).to_have_url(re.compile(r"#/answers\?.*from=[^&]+&to="))
    visitor.go("#/overview" + visitor.page.url.partition("#/answers")[2])
    visitor.page.get_by_role("button", name="Clear selection").click()
    expect(visitor.page.get_by_role("table", name="Apps")).to_be_visible()


# Answers


def load_all(visitor: Visitor) -> None:
    while (more := visitor.page.get_by_role("button", name="Load more")).is_visible():
        before = visitor.rows.count()
        more.click()
        expect(visitor.rows.nth(before)).to_be_attached()


def check_list_is_complete(visitor: Visitor) -> None:
    links = [link.get_attribute("href") for link in visitor.rows.all()]
    assert len(links) == len(set(links)) == visitor.installation.answers
    assert len(links) > 50  # more than one page
    expect(visitor.page.get_by_text(f"{len(links)} answers shown")).to_be_visible()


def test_the_worst_answers_come_first_and_pages_neither_repeat_nor_skip(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h")
    load_all(visitor)
    scores = scores_in(visitor)
    assert scores == sorted(scores)
    check_list_is_complete(visitor)


def test_a_page_that_arrives_after_a_look_for_new_answers_is_not_loaded_again(visitor: Visitor) -> None:
    held = list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    visitor.page.clock.install()
    visitor.page.route(re.compile("cursor="), hold, times=1)
    visitor.go("#/answers?range=24h")
    visitor.page.get_by_role("button", name="Load more").click()
    # Playwright calls `hold` only within one of its own calls.
    visitor.installation.wait_for(lambda: held or visitor.page.wait_for_timeout(10))
    with visitor.page.expect_response(re.compile(r"/api/answers\?.*limit=1(&|$)")):
        visitor.page.clock.run_for(5_100)
    held[0].continue_()
    expect(visitor.rows.nth(50)).to_be_attached()
    load_all(visitor)
    check_list_is_complete(visitor)


def test_two_clicks_at_once_load_one_page(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h")
    with visitor.page.expect_response(re.compile("cursor=")):
        visitor.page.get_by_role("button", name="Load more").evaluate("button => { button.click(); button.click(); }")
    expect(visitor.rows.nth(50)).to_be_attached()
    visitor.page.wait_for_load_state("networkidle")
    load_all(visitor)
    check_list_is_complete(visitor)


def test_filters_are_in_the_address_and_a_shared_link_shows_the_same(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h")
    visitor.field("App").select_option("support-bot")
    visitor.field("Criterion").select_option("groundedness")
    visitor.page.get_by_label("to", exact=True).fill("0.5")
    visitor.page.get_by_label("to", exact=True).press("Enter")
    expect(visitor.page).to_have_url(re.compile(r"app=support-bot&criterion=groundedness&max=0\.5"))
    expect(visitor.page.locator(".chips li")).to_have_count(4)
    expect(visitor.page.locator("table.answers td.app-column").first).to_contain_text("support-bot")
    wanted = visitor.fetch("/api/answers", app="support-bot", criterion="groundedness", max="0.5")["answers"]
    expect(visitor.rows).to_have_count(len(wanted[:50]))
    links = [link.get_attribute("href") for link in visitor.rows.all()]
    assert [link.split("/")[-1].split("?")[0] for link in links if link] == [answer["id"] for answer in wanted[:50]]
    visitor.go(visitor.page.url.partition("/#")[2].join(("#", "")))
    expect(visitor.rows).to_have_count(len(links))
    assert [link.get_attribute("href") for link in visitor.rows.all()] == links


@pytest.mark.parametrize(
    ("label", "value", "parameter"),
    [("Model", "boreal-8b", "model"), ("Tenant", "nordwind", "tenant"), ("Status", "unsafe", "status")],
)
def test_a_filter_keeps_only_the_answers_that_match(visitor: Visitor, label: str, value: str, parameter: str) -> None:
    visitor.go("#/answers?range=24h")
    visitor.field(label).select_option(value)
    expect(visitor.page).to_have_url(re.compile(f"{parameter}={value}"))
    wanted = visitor.fetch("/api/answers", **{parameter: value})["answers"]
    expect(visitor.rows).to_have_count(len(wanted))
    assert all(answer[parameter] == value for answer in wanted)
    visitor.page.get_by_role("button", name=f"Remove the filter {parameter}: {value}").click()
    expect(visitor.page).not_to_have_url(re.compile(parameter))


def test_a_tag_of_an_answer_leads_to_the_answers_with_it(visitor: Visitor) -> None:
    visitor.go(f"#/answers/{visitor.installation.emoji_answer}")
    visitor.page.get_by_role("link", name="wanted:emoji").click()
    expect(visitor.rows).to_have_count(1)


def test_text_is_searched_while_it_is_typed(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h")
    visitor.page.keyboard.press("/")
    visitor.page.keyboard.type("zanzibar")
    expect(visitor.rows).to_have_count(1)
    expect(visitor.page.get_by_role("searchbox")).to_be_focused()
    visitor.page.keyboard.type(" nowhere")
    expect(visitor.page.get_by_role("heading", name="No answers match")).to_be_visible()
    visitor.page.get_by_role("button", name="Clear all filters").click()
    expect(visitor.rows.nth(10)).to_be_attached()


# One answer


def test_marks_are_where_the_judge_put_them_counted_in_code_points(visitor: Visitor) -> None:
    visitor.go(f"#/answers/{visitor.installation.emoji_answer}")
    data = visitor.fetch(f"/api/answers/{visitor.installation.emoji_answer}")
    text, spans = data["texts"]["answer"], data["spans"]
    assert "😀" in text[: spans[-1]["start"]]
    named = [text[span["start"] : span["start"] + span["length"]] for span in spans if span["verdict"] != "no_claim"]
    own_text = "mark => [...mark.childNodes].filter(node => node.nodeType === 3).map(node => node.data).join('')"
    assert visitor.page.locator("mark.claim").evaluate_all(f"marks => marks.map({own_text})") == named
    assert (
        visitor.page.locator(".answer-text").evaluate("box => [...box.children].map(" + own_text + ").join('')") == text
    )


def test_a_marked_sentence_shows_what_it_means_and_the_contexts_it_rests_on(visitor: Visitor) -> None:
    visitor.go(f"#/answers/{visitor.installation.emoji_answer}")
    supported = visitor.page.locator("mark.supported").first
    supported.hover()
    expect(visitor.page.get_by_role("tooltip")).to_contain_text("Supported by the contexts")
    expect(visitor.page.locator(".context.linked")).to_have_count(1)
    unsupported = visitor.page.locator("mark.unsupported").first
    unsupported.focus()
    expect(visitor.page.get_by_role("tooltip")).to_contain_text("Unsupported: no context says this")
    expect(visitor.page.locator(".span-legend")).to_contain_text("unsupported")


def test_an_answer_shows_every_verdict_the_composite_and_how_it_was_sampled(visitor: Visitor) -> None:
    answer = visitor.fetch("/api/answers", app="support-bot")["answers"][0]
    data = visitor.fetch(f"/api/answers/{answer['id']}")
    visitor.go(f"#/answers/{answer['id']}")
    main = visitor.page.locator("main")
    for name, dimension in data["evaluation"]["dimensions"].items():
        block = main.locator(".criteria details").filter(
            has=visitor.page.get_by_text(name.replace("_", " "), exact=True)
        )
        for verdict in dimension["judges"]:
            expect(block).to_contain_text(verdict["judge"])
            expect(block).to_contain_text(verdict["explanation"])
    assert [row.inner_text() for row in main.locator(".terms tbody th").all()] != []
    expect(main.locator(".terms tbody tr")).to_have_count(len(data["composite_terms"]))
    expect(main).to_contain_text(f"rule {data['evaluation']['sampling']['rule']}")
    expect(main.get_by_role("link", name="Open the trace")).to_have_attribute("href", data["trace_url"])
    expect(main.get_by_role("link", name="Open the trace")).to_have_attribute("rel", "noopener noreferrer")


def test_previous_and_next_follow_the_list_and_going_back_returns_to_the_row(visitor: Visitor) -> None:
    visitor.go("#/answers?range=24h&app=support-bot")
    links = [link.get_attribute("href") for link in visitor.rows.all()]
    visitor.follow(visitor.rows.nth(1))
    visitor.page.get_by_role("link", name="Next").click()
    expect(visitor.page).to_have_url(re.compile(re.escape(str(links[2]).split("?")[0])))
    visitor.page.get_by_role("link", name="Previous").click()
    expect(visitor.page).to_have_url(re.compile(re.escape(str(links[1]).split("?")[0])))
    visitor.page.keyboard.press("Escape")
    expect(visitor.rows.nth(1)).to_be_focused()


def test_an_answer_that_is_gone_says_so(visitor: Visitor) -> None:
    visitor.go("#/answers/no-such-answer")
    expect(visitor.page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(visitor.page.get_by_role("button", name="Try again")).to_be_visible()


# Alerts, judges, pipeline


def test_an_alert_leads_from_its_summary_to_the_worst_answers_in_it(visitor: Visitor) -> None:
    visitor.go("#/alerts")
    expect(visitor.page.get_by_role("table", name="Open alerts")).to_contain_text("has dropped below its target")
    expect(visitor.page.get_by_role("table", name="Closed alerts")).to_contain_text("has recovered")
    visitor.follow(visitor.page.get_by_role("table", name="Open alerts").locator(".row-link").first)
    expect(visitor.page.locator("figure.chart .onset").first).to_be_attached()
    expect(visitor.page.get_by_role("heading", name="What moved")).to_be_visible()
    scores = scores_in(visitor)
    assert scores
    assert scores == sorted(scores)
    alert = visitor.page.url
    visitor.follow(visitor.page.get_by_role("table", name="Worst answers in this alert").locator(".row-link").first)
    visitor.page.keyboard.press("Escape")
    expect(visitor.page).to_have_url(alert)


def test_judges_show_verdicts_latency_and_failures(visitor: Visitor) -> None:
    visitor.go("#/judges?range=24h")
    [judge] = visitor.fetch("/api/judges")["judges"]
    row = visitor.page.get_by_role("table", name="Judges", exact=True).get_by_role("row").filter(has_text="local")
    expect(row).to_contain_text(f"{judge['n']:,}")
    expect(row).to_contain_text("ms")
    table = visitor.page.get_by_role("table", name="Mean score by criterion")
    expect(table.locator("tbody tr")).to_have_count(len(judge["criteria"]))


def test_the_pipeline_shows_the_funnel_and_the_bytes_of_dead_letters(visitor: Visitor) -> None:
    visitor.go("#/pipeline")
    state = visitor.fetch("/api/pipeline")
    for step in state["funnel"]:
        expect(visitor.page.locator(".funnel")).to_contain_text(f"{step['records']:,}")
    letter = visitor.page.locator("table.letters details").first
    letter.locator("summary").click()
    expect(letter.locator("pre")).to_be_visible()


def test_an_operator_replays_dead_letters_after_a_question(visitor: Visitor) -> None:
    visitor.go("#/pipeline")
    visitor.page.get_by_role("checkbox").first.check()
    visitor.page.get_by_role("button", name="Replay 1 selected").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert not any("replay" in request for request in visitor.requests)
    visitor.page.get_by_role("button", name="Replay 1 selected").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Replay", exact=True).click()
    expect(visitor.page.get_by_role("status").filter(has_text="1 dead letter replayed")).to_be_visible()
    visitor.go("#/log")
    expect(visitor.page.get_by_role("table", name="Audit log").locator("tbody tr").first).to_contain_text("replay")


def test_there_is_no_such_page_is_said_with_a_way_out(visitor: Visitor) -> None:
    visitor.go("#/nowhere")
    expect(visitor.page.get_by_role("heading", name="There is no such page")).to_be_visible()


def test_the_terms_of_a_composite_add_up_to_it(visitor: Visitor) -> None:
    answer = visitor.fetch("/api/answers", app="support-bot", status="ok")["answers"][0]
    data = visitor.fetch(f"/api/answers/{answer['id']}")
    visitor.go(f"#/answers/{answer['id']}")
    shares = visitor.page.locator(".terms tbody tr td:last-child").all_inner_texts()
    assert sum(float(text) for text in shares if text != "–") == pytest.approx(answer["composite"], abs=0.005)
    assert len(shares) == len(data["composite_terms"])
