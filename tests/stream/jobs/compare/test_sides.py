"""The sides of a comparison: their rows, results and scales."""

from pathlib import Path

import pytest

from judges.values.evaluation import Status
from sinks.reports.results_reader import ResultsError
from sinks.reports.results_schema import CriterionInfo
from stream.jobs.compare.scales import Scale
from stream.jobs.compare.sides import CriterionResult, Key, UnknownJudgeError, load_judges, load_side
from tests.stream.jobs.compare.files import (
    CLARITY,
    ERRORS,
    GROUNDED,
    TOPIC,
    failed_row,
    falling,
    level,
    option,
    row,
    unscored_dimension,
    verdict,
    write,
)


def test_a_side_has_every_row_by_its_id_in_the_order_of_the_file(tmp_path: Path) -> None:
    rows = [row(number, {"clarity": level(CLARITY, 2)}, composite=number / 10) for number in (3, 1, 2)]
    side = load_side(write(tmp_path / "results.jsonl", rows, [CLARITY]))
    assert [key.id for key in side.judged] == ["r-1", "r-2", "r-3"]
    assert [judged.composite for judged in side.judged.values()] == [0.1, 0.2, 0.3]


def test_the_results_file_of_a_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / "results.jsonl", [row(1, {"clarity": level(CLARITY, 2)})], [CLARITY])
    assert list(load_side(tmp_path).judged) == [Key("r-1")]


def test_rows_of_one_id_are_distinguished_by_their_order(tmp_path: Path) -> None:
    rows = [row(number, {"clarity": level(CLARITY, number)}, name="same") for number in (2, 1)]
    side = load_side(write(tmp_path / "results.jsonl", rows, [CLARITY]))
    assert {key: judged.number for key, judged in side.judged.items()} == {Key("same", 1): 1, Key("same", 2): 2}


def test_rows_without_evaluation_are_counted(tmp_path: Path) -> None:
    rows = [row(1, {"clarity": level(CLARITY, 2)}), failed_row(2), failed_row(3)]
    side = load_side(write(tmp_path / "results.jsonl", rows, [CLARITY]))
    assert (len(side.judged), side.failed) == (1, 2)


def test_a_run_without_an_end_has_not_finished(tmp_path: Path) -> None:
    rows = [row(1, {"clarity": level(CLARITY, 2)})]
    assert load_side(write(tmp_path / "a.jsonl", rows, [CLARITY])).finished
    assert not load_side(write(tmp_path / "b.jsonl", rows, [CLARITY], finished=False)).finished


def test_results_have_a_score_and_a_class_if_their_scale_has_them(tmp_path: Path) -> None:
    dimensions = {
        "clarity": level(CLARITY, 3),
        "errors": falling(2.5),
        "topic": option("Delivery"),
        "groundedness": unscored_dimension(Status.NOT_APPLICABLE),
    }
    side = load_side(write(tmp_path / "results.jsonl", [row(1, dimensions)], [CLARITY, ERRORS, TOPIC, GROUNDED]))
    assert side.judged[Key("r-1")].findings == {
        "clarity": CriterionResult(Status.SCORED, 0.75, 3),
        "errors": CriterionResult(Status.SCORED, 0.75, None),
        "topic": CriterionResult(Status.SCORED, None, 1),
        "groundedness": CriterionResult(Status.NOT_APPLICABLE),
    }


def test_an_option_that_is_not_on_the_scale_has_no_class_and_is_counted(tmp_path: Path) -> None:
    side = load_side(write(tmp_path / "results.jsonl", [row(1, {"topic": option("доставка")})], [TOPIC]))
    assert side.judged[Key("r-1")].findings["topic"].place is None
    assert side.unplaced == {"topic": 1}


def test_an_option_in_another_language_is_recognised_by_its_score(tmp_path: Path) -> None:
    toxic = CriterionInfo(
        name="toxic", title="T", question="?", weight=1, bounds=(0, 1), choices=[("Yes", 1.0), ("No", 0.0)]
    )
    no = option("Нет").model_copy(update={"score": 1.0, "value": 0.0})
    side = load_side(write(tmp_path / "results.jsonl", [row(1, {"toxic": no})], [toxic]))
    assert side.judged[Key("r-1")].findings["toxic"].place == 1


def test_the_direction_of_a_range_is_inferred_from_its_scores(tmp_path: Path) -> None:
    rows = [row(1, {"errors": falling(5)}), row(2, {"errors": falling(1)}), row(3, {"errors": falling(5)})]
    side = load_side(write(tmp_path / "results.jsonl", rows, [ERRORS]))
    assert not side.scales["errors"].rising
    assert side.scales["errors"].score(1) == 0.9


def test_a_range_where_more_is_better_rises(tmp_path: Path) -> None:
    points = falling(0).model_copy(update={"score": 0.1, "value": 1.0})
    side = load_side(write(tmp_path / "results.jsonl", [row(1, {"errors": points})], [ERRORS]))
    assert side.scales["errors"].rising


def test_judges_in_one_file_are_separate_sides(tmp_path: Path) -> None:
    verdicts = [verdict("strict", CLARITY, 1, cost=0.5, ms=10), verdict("mild", CLARITY, 4, cost=0.25, ms=20)]
    grounded = [verdict("strict", GROUNDED, 2, cost=0.5, ms=40)]
    rows = [
        row(1, {"clarity": level(CLARITY, 2, judges=verdicts), "groundedness": level(GROUNDED, 2, judges=grounded)})
    ]
    strict, mild = load_judges(write(tmp_path / "results.jsonl", rows, [CLARITY, GROUNDED]), ["strict", "mild"])
    one, other = strict.judged[Key("r-1")], mild.judged[Key("r-1")]
    assert {name: finding.place for name, finding in one.findings.items()} == {"clarity": 1, "groundedness": 2}
    assert {name: finding.place for name, finding in other.findings.items()} == {"clarity": 4}
    assert (one.cost_usd, one.latency_ms) == (1.0, 40)
    assert (other.cost_usd, other.latency_ms) == (0.25, 20)
    assert (one.composite, one.status, strict.composite) == (None, None, False)


def test_a_judge_that_was_not_asked_has_no_latency(tmp_path: Path) -> None:
    """Zero would make its mean latency better than it is."""
    both = row(1, {"clarity": level(CLARITY, 2, judges=[verdict("a", CLARITY, 2), verdict("b", CLARITY, 2)])})
    only_a = row(2, {"clarity": level(CLARITY, 2, judges=[verdict("a", CLARITY, 2)])})
    _, b = load_judges(write(tmp_path / "results.jsonl", [both, only_a], [CLARITY]), ["a", "b"])
    assert b.judged[Key("r-2")].latency_ms is None


def test_an_unknown_judge_is_an_error_that_lists_the_judges(tmp_path: Path) -> None:
    rows = [row(1, {"clarity": level(CLARITY, 2, judges=[verdict("strict", CLARITY, 1)])})]
    path = write(tmp_path / "results.jsonl", rows, [CLARITY])
    with pytest.raises(UnknownJudgeError, match=r"results\.jsonl: no verdicts by a judge named 'mlid'.*: strict$"):
        load_judges(path, ["strict", "mlid"])


def test_a_broken_file_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "results.jsonl", [row(1, {"clarity": level(CLARITY, 2)})], [CLARITY])
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([lines[0], '{"kind": "row", "row": 1, "source": 3}', ""]), "utf-8")
    with pytest.raises(ResultsError, match="line 2"):
        load_side(path)


def test_the_question_is_one_line_that_cannot_steer_a_terminal(tmp_path: Path) -> None:
    rows = [row(1, {"clarity": level(CLARITY, 2)}, question="What\n\x1b[31mis " + "x" * 200)]
    side = load_side(write(tmp_path / "results.jsonl", rows, [CLARITY]))
    question = side.judged[Key("r-1")].question
    assert question.isprintable()
    assert len(question) == 80


# Scales


def test_classes_below_the_middle_of_the_scale_are_bad() -> None:
    assert Scale.of(CLARITY).bad == {0, 1}
    assert Scale.of(GROUNDED).bad == {0}
    assert Scale.of(TOPIC).bad == frozenset()


def test_classes_whose_larger_value_is_worse_have_falling_scores() -> None:
    harm = CriterionInfo(
        name="harm", title="H", question="?", weight=1, bounds=(0, 2), choices=[("much", 2), ("some", 1), ("none", 0)]
    )
    scale = Scale.of(harm)
    assert [scale.score(value) for value in (2, 1, 0)] == [0.0, 0.5, 1.0]
    assert scale.ranks == (0, 1, 2)
    assert scale.bad == {0}


def test_options_with_the_same_score_share_a_rank_and_are_found_by_label_only() -> None:
    scale = Scale(labels=("no", "unsure", "yes"), values=(0.0, 0.0, 1.0), bounds=(0.0, 1.0))
    assert scale.ranks == (0, 0, 1)
    assert scale.place(value=0.0) is None
    assert scale.place(option="UNSURE ") == 1


def test_levels_with_the_same_values_are_the_same_classes_whatever_their_labels() -> None:
    worded = Scale(labels=("a", "b", "c"), values=(0, 1, 2), bounds=(0, 2))
    assert worded.same_classes(Scale.of(GROUNDED))
    assert not worded.same_classes(Scale.of(CLARITY))
    assert not Scale.of(TOPIC).same_classes(Scale(labels=("x", "y", "z"), values=(None,) * 3))
