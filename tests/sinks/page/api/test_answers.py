"""Answers: the list with its filters and pages, and one answer with all that is known about it."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.values.evaluation import Dimension, Status
from sinks.archive.database import Database
from tests.parts.archive import FINGERPRINT, START, START_MS, Judged, fill
from tests.sinks.page.serving import open_page
from tests.sinks.page.visiting import Browser

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> javascript:alert(1) \x1b[31m \u202e"
TRACE = "0af7651916cd43dd8448eb211c80319c"
RAG = load_catalogue("rag")


def dimension(name: str, level: int) -> dict[str, Any]:
    choice = RAG[name].scale.choices[level]
    value = Dimension(
        status=Status.SCORED, score=RAG[name].score(choice), level=RAG[name].level(choice), option=choice.label.en
    )
    return value.model_dump(mode="json")


def make_record(judged: Judged, *, fingerprint: str = FINGERPRINT) -> bytes:
    """The record of an evaluation with real dimensions and the composite that they give."""
    levels = dict.fromkeys(RAG, 1)
    dimensions = {name: dimension(name, level) for name, level in levels.items()}
    parsed = {name: Dimension.model_validate(one) for name, one in dimensions.items()}
    composite = MultiCriteria.of(RAG.values()).compose(parsed).composite
    dimensions["groundedness"]["judges"] = [
        {
            "judge": name,
            "status": "scored",
            "score": 0.5,
            "samples": {"requested": 1},
            "explanation": HOSTILE,
            "spans": [{"start": 0, "length": 5, "verdict": verdict, "contexts": [1]}],
        }
        for name, verdict in (("local", "unsupported"), ("gpt", "supported"))
    ]
    dimensions["groundedness"]["spans"] = [{"start": 0, "length": 5, "verdict": "unsupported", "contexts": [1]}]
    document = {**judged.document(), "dimensions": dimensions, "composite": composite.model_dump(mode="json")}
    document["evaluator"]["fingerprint"] = fingerprint
    document["excerpt"] = {"question": HOSTILE, "answer": HOSTILE}
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def browser(make_url: Any) -> Iterator[Browser]:
    answers = [
        Judged(
            id=f"e{number}",
            at=START_MS + number * 1000,
            app="shop" if number % 2 else "bank",
            model="m1",
            tenant="acme" if number % 3 else None,
            composite=None if number == 7 else number / 20,
            # Odd ones have sufficient contexts, and the first ten are not grounded.
            scores={
                "clarity": 1 - number / 20,
                **(
                    {"context_sufficiency": float(number % 2), "groundedness": float(number >= 10)}
                    if number < 19
                    else {}
                ),
            },
            tags={"region": "eu"} if number < 3 else {},
            question=f"question {number} {'banana' if number == 5 else ''}",
        )
        for number in range(20)
    ]
    whole = Judged(id="whole", at=START_MS + 500, trace_id=TRACE, question=HOSTILE)
    other = Judged(id="other", at=START_MS - 1000, has_texts=False)
    labels = [
        {
            "label_id": f"l{number}",
            "interaction_id": "i-whole",
            "evaluation_id": evaluation,
            "criterion": "clarity",
            "option": "pass",
            "score": 1.0,
            "who": "rita",
            "at": START_MS + number,
            "probability": 0.1,
            "kind": "review",
            "comment": HOSTILE,
            "retracted": number == 2,
        }
        for number, evaluation in enumerate(["whole", None, "whole", "other"])
    ]
    with Database(make_url()) as database:
        full = replace(whole, record=make_record(whole))
        foreign = replace(other, record=make_record(other, fingerprint="another"))
        fill(database, [*answers, full, foreign], labels=labels)
        with open_page(database) as visitor:
            yield visitor


def ids(reply: Any) -> list[str]:
    return [answer["id"] for answer in reply["answers"]]


def test_the_worst_come_first_in_pages_and_those_without_a_score_last(browser: Browser) -> None:
    first = browser.get_json("/api/answers", app="shop", limit=4)
    assert ids(first) == ["e1", "e3", "e5", "e9"]
    second = browser.get_json("/api/answers", app="shop", limit=100, cursor=first["next"])
    assert ids(second) == ["e11", "e13", "e15", "other", "whole", "e17", "e19", "e7"] or ids(second)[-1] == "e7"
    assert second["next"] is None
    assert "filters" in first
    assert "filters" not in second


def test_an_answer_has_what_a_table_shows(browser: Browser) -> None:
    [answer] = browser.get_json("/api/answers", q="BANANA")["answers"]
    assert answer == {
        "id": "e5",
        "interaction_id": "i-e5",
        "at": "2026-03-01T12:00:05.000Z",
        "app": "shop",
        "model": "m1",
        "tenant": "acme",
        "status": "ok",
        "composite": 0.25,
        "worst_criterion": "groundedness",
        "spread": None,
        "question": "question 5 banana",
        "answer": "It is this.",
    }


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"sort": "newest", "limit": 2}, ["e19", "e18"]),
        ({"criterion": "clarity", "limit": 2}, ["e19", "e18"]),
        ({"criterion": "clarity", "min": "0.9", "max": "0.95"}, ["e2", "e1"]),
        ({"min": "0.94"}, ["e19"]),
        ({"diagnosis": "retrieval", "limit": 2}, ["e0", "e2"]),
        ({"diagnosis": "generation", "criterion": "clarity", "limit": 2}, ["e9", "e7"]),
        ({"diagnosis": "lucky", "sort": "newest", "limit": 2}, ["e18", "e16"]),
        ({"diagnosis": "good", "min": "0.81"}, ["e17"]),
        ({"tag": "region:eu", "tenant": "acme"}, ["e1", "e2"]),
        ({"from": "2026-03-01T12:00:18Z", "to": "2026-03-01T12:00:19Z"}, ["e18"]),
        ({"from": "2026-03-01T13:00:18+01:00", "to": "2026-03-01T12:00:19"}, ["e18"]),
        ({"status": "unsafe"}, []),
        ({"disagreement": "1"}, []),
        ({"lane": "canary"}, []),
    ],
)
def test_filters_and_orders(browser: Browser, parameters: dict[str, str], expected: list[str]) -> None:
    assert ids(browser.get_json("/api/answers", **parameters)) == expected


def test_values_to_filter_by_are_listed(browser: Browser) -> None:
    filters = browser.get_json("/api/answers", limit=1)["filters"]
    assert filters["apps"] == ["bank", "shop"]
    assert (filters["models"], filters["tenants"]) == (["m1"], ["acme"])
    assert filters["criteria"][:2] == ["answer_relevance", "clarity"] or "clarity" in filters["criteria"]
    assert filters["statuses"] == ["ok", "questionable", "unsafe", "safety_unknown", "incomplete", "failed"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": "0"},
        {"limit": "101"},
        {"limit": "x"},
        {"limit": "²"},
        {"sort": "best"},
        {"min": "2"},
        {"max": "nan"},
        {"min": "-1"},
        {"tag": "region"},
        {"tag": ":eu"},
        {"cursor": "x"},
        {"disagreement": "yes"},
        {"q": "a" * 1001},
        {"app": "a\0b"},
        {"app": ["one", "two"]},
    ],
)
def test_wrong_parameters_are_refused_with_a_sentence(browser: Browser, parameters: dict[str, Any]) -> None:
    answer = browser.get("/api/answers", **parameters)
    assert answer.status_code == 400
    assert next(iter(parameters)) in answer.json()["error"]


@pytest.mark.parametrize(
    "text", ['"', "'", "a'; DROP TABLE texts; --", "NEAR(a b)", "question:5", "*", "a*", "%", "ö", "-"]
)
def test_a_search_is_text_and_no_language(browser: Browser, text: str) -> None:
    assert browser.get("/api/answers", q=text).status_code == 200


# One answer


def test_one_answer_has_the_record_as_published_and_its_texts(browser: Browser) -> None:
    answer = browser.get_json("/api/answers/whole")
    assert answer["evaluation"]["evaluation_id"] == "whole"
    assert answer["evaluation"]["excerpt"]["question"] == HOSTILE
    assert answer["texts"]["question"] == HOSTILE
    assert answer["texts_note"] is None
    assert answer["trace_url"] == f"https://traces.example.com/{TRACE}?x=1"


def test_texts_stay_data(browser: Browser) -> None:
    reply = browser.get("/api/answers/whole")
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    reply.content.decode("utf-8", "strict")


def test_the_composite_term_by_term_is_the_published_one(browser: Browser) -> None:
    answer = browser.get_json("/api/answers/whole")
    counted = [(term["weight"], term["score"]) for term in answer["composite_terms"]]
    total = math.fsum(weight for weight, _score in counted)
    assert math.fsum(weight * score for weight, score in counted) / total == answer["evaluation"]["composite"]["score"]
    assert [term["role"] for term in answer["composite_terms"]].count("safety") == 1
    assert answer["composite_note"].startswith("Weighted mean of the criteria")


def test_the_composite_of_another_evaluator_is_not_taken_apart(browser: Browser) -> None:
    answer = browser.get_json("/api/answers/other")
    assert answer["composite_terms"] == []
    assert "fingerprint another" in answer["composite_note"]
    assert answer["texts"] is None
    assert "not in the archive" in answer["texts_note"]
    assert answer["trace_url"] is None


def test_marked_sentences_name_the_judges_that_say_so(browser: Browser) -> None:
    assert browser.get_json("/api/answers/whole")["spans"] == [
        {"start": 0, "length": 5, "verdict": "unsupported", "contexts": [1], "judge": "local"}
    ]


def test_a_redacted_answer_is_not_marked_as_sentences_are_elsewhere_in_it(make_url: Any) -> None:
    original, changed = Judged(id="kept"), Judged(id="changed", answer_is_redacted=True)
    answers = [replace(judged, record=make_record(judged)) for judged in (original, changed)]
    with Database(make_url()) as database:
        fill(database, answers)
        with open_page(database) as browser:
            assert len(browser.get_json("/api/answers/kept")["spans"]) == 1
            assert browser.get_json("/api/answers/changed")["spans"] == []


def test_where_the_panel_marks_nothing_no_judge_does(make_url: Any) -> None:
    """As with truncated contexts, which might support what a judge missed in the rest."""
    judged = Judged(id="truncated")
    document = json.loads(make_record(judged))
    document["dimensions"]["groundedness"]["spans"] = None
    with Database(make_url()) as database:
        fill(database, [replace(judged, record=json.dumps(document).encode())])
        with open_page(database) as browser:
            assert browser.get_json("/api/answers/truncated")["spans"] == []


def test_labels_are_shown_unless_they_were_taken_back(browser: Browser) -> None:
    labels = browser.get_json("/api/answers/whole")["labels"]
    assert [label["label_id"] for label in labels] == ["l1", "l0"]
    assert (labels[0]["who"], labels[0]["at"]) == ("rita", "2026-03-01T12:00:00.001Z")


def test_neighbours_are_those_of_the_same_app_in_time(browser: Browser) -> None:
    assert browser.get_json("/api/answers/whole")["neighbours"] == {"previous": "other", "next": "e1"}
    assert browser.get_json("/api/answers/other")["neighbours"] == {"previous": None, "next": "whole"}
    assert browser.get_json("/api/answers/e19")["neighbours"] == {"previous": "e17", "next": None}


def test_an_unknown_answer_is_not_found(browser: Browser) -> None:
    answer = browser.get("/api/answers/nothing")
    assert (answer.status_code, answer.json()) == (404, {"error": "the archive has no answer with this id"})


def test_the_last_24_hours_are_the_default(browser: Browser) -> None:
    early = browser.get_json("/api/answers", to=(START - timedelta(hours=1)).isoformat())
    assert ids(early) == []
