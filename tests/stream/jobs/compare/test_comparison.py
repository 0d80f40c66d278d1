"""The comparison of two sides, and of a side with labels."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import CompositeStatus, EvaluatorInfo, Status
from sinks.reports.results_schema import CriterionInfo, Row, Run
from stream.jobs.compare import Side, SideComparison, compare, load_side, meet, on_scales, read_labels
from stream.jobs.compare.comparison import LabelAgreement, SideAgreement
from stream.jobs.compare.scales import Scale
from stream.jobs.compare.sides import CriterionResult, Key, RowVerdicts
from tests.stream.jobs.compare.files import (
    AT,
    CLARITY,
    ERRORS,
    GROUNDED,
    TOPIC,
    falling,
    level,
    option,
    row,
    unscored_dimension,
    write,
)

SCALE = Scale.of(CLARITY)
RUN = Run(
    name="rows.csv",
    started_at=AT,
    evaluator=EvaluatorInfo(fingerprint="f", criteria=("clarity",), judges=("local",), version="1"),
    criteria=(CLARITY,),
    parameters={},
)


def sides(folder: Path, a: Sequence[Row], b: Sequence[Row], *criteria: CriterionInfo) -> tuple[Side, Side]:
    return load_side(write(folder / "a.jsonl", a, criteria)), load_side(write(folder / "b.jsonl", b, criteria))


def agreement_on(comparison: SideComparison, name: str) -> SideAgreement:
    [agreement] = [candidate for candidate in comparison.criteria if candidate.name == name]
    return agreement


def clarity_rows(*levels: int | None) -> list[Row]:
    return [
        row(number, {"clarity": unscored_dimension() if value is None else level(CLARITY, value)})
        for number, value in enumerate(levels, start=1)
    ]


# Two sides


def test_rows_that_only_one_side_has_are_named(tmp_path: Path) -> None:
    comparison = compare(*sides(tmp_path, clarity_rows(1, 2, 3)[:2], clarity_rows(1, 2, 3)[1:], CLARITY))
    assert (comparison.rows, comparison.only_first, comparison.only_second) == (1, ("r-1",), ("r-3",))


def test_agreement_is_over_the_rows_that_both_could_judge(tmp_path: Path) -> None:
    agreement = agreement_on(
        compare(*sides(tmp_path, clarity_rows(0, 1, None, 3, None), clarity_rows(0, 2, 4, None, None), CLARITY)),
        "clarity",
    )
    assert (agreement.rows, agreement.only_first, agreement.only_second, agreement.neither) == (2, 1, 1, 1)
    assert agreement.same.value == 0.5
    assert agreement.difference.mean == pytest.approx(0.125)


def test_the_difference_is_the_second_less_the_first(tmp_path: Path) -> None:
    agreement = agreement_on(
        compare(*sides(tmp_path, clarity_rows(0, 1, 2), clarity_rows(1, 2, 4), CLARITY)), "clarity"
    )
    assert agreement.difference.mean == pytest.approx((0.25 + 0.25 + 0.5) / 3)
    assert agreement.first_mean == pytest.approx(0.25)
    assert agreement.second_mean == pytest.approx(7 / 12)


def test_a_range_has_a_correlation_and_no_kappa(tmp_path: Path) -> None:
    a = [row(number, {"errors": falling(number)}) for number in range(1, 5)]
    b = [row(number, {"errors": falling(number + 1)}) for number in range(1, 5)]
    agreement = agreement_on(compare(*sides(tmp_path, a, b, ERRORS)), "errors")
    assert agreement.kappa.reason == agreement.linear.reason == "a range has no classes"
    assert agreement.spearman.value == 1.0


def test_options_without_scores_have_a_kappa_and_no_statistic_that_needs_an_order(tmp_path: Path) -> None:
    a = [row(n, {"topic": option(name)}) for n, name in enumerate(["prices", "delivery", "other"], start=1)]
    agreement = agreement_on(compare(*sides(tmp_path, a, a, TOPIC)), "topic")
    assert agreement.kappa.value == 1.0
    assert agreement.linear.reason == "its options have no scores, and so no order"
    assert agreement.spearman.reason == "no scores to compare"


def test_scales_of_different_classes_are_compared_by_their_scores_only(tmp_path: Path) -> None:
    coarse = GROUNDED.model_copy(update={"name": "clarity"})
    a = write(tmp_path / "a.jsonl", clarity_rows(0, 2, 4), [CLARITY])
    b = write(tmp_path / "b.jsonl", [row(n, {"clarity": level(coarse, n - 1)}) for n in (1, 2, 3)], [coarse])
    agreement = agreement_on(compare(load_side(a), load_side(b)), "clarity")
    assert agreement.kappa.reason == agreement.quadratic.reason == "the two scales have different classes"
    assert agreement.spearman.value == 1.0
    assert agreement.difference.mean == 0.0


def test_criteria_on_one_side_only_are_not_compared_and_change_no_row(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", clarity_rows(1), [CLARITY])
    b = write(tmp_path / "b.jsonl", [row(1, {"groundedness": level(GROUNDED, 1)})], [GROUNDED])
    comparison = compare(load_side(a), load_side(b))
    assert (comparison.criteria, comparison.changed) == ((), 0)


def test_the_composite_is_compared_by_its_status_and_by_its_score(tmp_path: Path) -> None:
    dimensions = {"clarity": level(CLARITY, 2)}
    a = [row(1, dimensions, composite=0.5), row(2, dimensions, composite=0.7), row(3, dimensions, composite=0.9)]
    b = [
        row(1, dimensions, composite=0.6),
        row(2, dimensions, composite=None, status=CompositeStatus.SAFETY_UNKNOWN),
        row(3, dimensions, composite=0.0, status=CompositeStatus.UNSAFE),
    ]
    comparison = compare(*sides(tmp_path, a, b, CLARITY))
    assert comparison.composite is not None
    assert (comparison.composite.rows, comparison.composite.only_first, comparison.composite.classed) == (2, 1, 3)
    assert comparison.composite.same.value == pytest.approx(1 / 3)
    assert comparison.composite.linear.reason == "statuses have no order"
    assert comparison.composite.difference.mean == pytest.approx((0.1 - 0.9) / 2)
    assert comparison.statuses == {("ok", "ok"): 1, ("ok", "safety_unknown"): 1, ("ok", "unsafe"): 1}


def test_rows_that_changed_most_come_first_and_equal_ones_are_left_out(tmp_path: Path) -> None:
    a = [row(n, {"clarity": level(CLARITY, 4)}, composite=1.0) for n in range(1, 5)]
    b = [
        row(n, {"clarity": level(CLARITY, value)}, composite=value / 4) for n, value in enumerate((3, 4, 0, 2), start=1)
    ]
    comparison = compare(*sides(tmp_path, a, b, CLARITY), most=2)
    assert comparison.changed == 3
    assert [change.number for change in comparison.most] == [3, 4]
    assert comparison.most[0].scores == {"clarity": (1.0, 0.0)}
    assert comparison.most[0].size == 1.0


def test_without_a_composite_the_criteria_determine_how_far_a_row_changed(tmp_path: Path) -> None:
    a = [row(1, {"clarity": level(CLARITY, 4), "groundedness": level(GROUNDED, 2)}, composite=1.0)]
    b = [
        row(
            1,
            {"clarity": level(CLARITY, 0), "groundedness": unscored_dimension()},
            composite=None,
            status=CompositeStatus.INCOMPLETE,
        )
    ]
    [change] = compare(*sides(tmp_path, a, b, CLARITY, GROUNDED)).most
    assert change.size == 1.0
    assert change.scores == {"clarity": (1.0, 0.0), "groundedness": (1.0, None)}


def test_options_without_scores_are_reported_by_their_labels(tmp_path: Path) -> None:
    comparison = compare(
        *sides(tmp_path, [row(1, {"topic": option("prices")})], [row(1, {"topic": option("other")})], TOPIC)
    )
    assert comparison.most[0].options == {"topic": ("prices", "other")}


def test_cost_and_latency_are_of_the_rows_that_both_have(tmp_path: Path) -> None:
    dimensions = {"clarity": level(CLARITY, 2)}
    a = [row(1, dimensions, cost=1.0, ms=10), row(2, dimensions, cost=3.0, ms=30), row(3, dimensions, cost=500.0)]
    b = [row(1, dimensions, cost=None, ms=20), row(2, dimensions, cost=2.0, ms=20)]
    first, second = compare(*sides(tmp_path, a, b, CLARITY)).expenses
    assert (first.cost_usd.total, first.cost_usd.mean, first.latency_ms.p50, first.unpriced) == (4.0, 2.0, 20, 0)
    assert (second.cost_usd.total, second.unpriced, second.latency_ms.p95) == (2.0, 1, 20)


scores = st.one_of(st.none(), st.integers(0, 4))


@given(st.lists(st.tuples(scores, scores), max_size=30))
def test_swapping_the_sides_mirrors_the_comparison(levels: list[tuple[int | None, int | None]]) -> None:
    """Symmetric figures stay the same; those that depend on the order of the sides are mirrored."""
    one, other = (side_of([pair[index] for pair in levels]) for index in (0, 1))
    forward, backward = compare(one, other), compare(other, one)
    assert [change.number for change in forward.most] == [change.number for change in backward.most]
    for a, b in zip(forward.criteria, backward.criteria, strict=True):
        assert (a.rows, a.neither, a.same, a.kappa, a.linear, a.quadratic, a.spearman) == (
            b.rows,
            b.neither,
            b.same,
            b.kappa,
            b.linear,
            b.quadratic,
            b.spearman,
        )
        assert (a.only_first, a.only_second) == (b.only_second, b.only_first)
        assert (a.difference.mean is None) == (b.difference.mean is None)
        assert a.difference.mean == pytest.approx(None if b.difference.mean is None else -b.difference.mean, abs=1e-12)


def side_of(levels: Sequence[int | None]) -> Side:
    """Return a side in memory with one criterion."""
    findings = [
        CriterionResult(Status.INSUFFICIENT) if value is None else CriterionResult(Status.SCORED, value / 4, value)
        for value in levels
    ]
    side = Side(name="x", path=Path("x"), run=RUN, finished=True)
    side.scales = {"clarity": SCALE}
    for number, finding in enumerate(findings, start=1):
        side.judged[Key(str(number))] = RowVerdicts(
            number=number, question="", findings={"clarity": finding}, composite=finding.score, status="ok"
        )
    return side


# Labels


def label_agreements(
    folder: Path, rows: Sequence[Row], labels: str, *criteria: CriterionInfo
) -> dict[str, LabelAgreement]:
    side = load_side(write(folder / "results.jsonl", rows, criteria))
    path = folder / "labels.csv"
    path.write_text(labels, "utf-8")
    labels_read = read_labels(path, side.scales)
    return {agreement.name: agreement for agreement in meet(side, on_scales(labels_read, side)).hits}


def test_levels_are_compared_with_labels_by_value_or_by_name(tmp_path: Path) -> None:
    agreements = label_agreements(
        tmp_path, clarity_rows(0, 1, 2, 4), "id,clarity\nr-1,0\nr-2,Very Clear\nr-3,2.0\nr-4, very clear \n", CLARITY
    )
    agreement = agreements["clarity"]
    assert agreement.accuracy.value == 0.75
    assert agreement.balanced_accuracy.value == pytest.approx((1 + 1 + 0.5) / 3)
    assert agreement.agreement.kappa.value == pytest.approx(2 / 3)
    assert agreement.agreement.difference.mean == pytest.approx(-0.75 / 4)


def test_bad_rows_have_a_separate_f1(tmp_path: Path) -> None:
    """Levels 0 and 1 of 4 are bad: two rows are labelled bad, and the judge finds one of them and one more."""
    agreement = label_agreements(
        tmp_path, clarity_rows(0, 3, 1, 4), "id,clarity\nr-1,1\nr-2,0\nr-3,3\nr-4,4\n", CLARITY
    )["clarity"]
    assert agreement.bad == 2
    assert agreement.bad_f1.value == 0.5
    assert agreement.accuracy.value == 0.25


def test_labels_of_a_range_are_numbers_and_bad_by_their_score(tmp_path: Path) -> None:
    rows = [row(n, {"errors": falling(value)}) for n, value in enumerate((0, 9, 2), start=1)]
    agreement = label_agreements(tmp_path, rows, "row,errors\n1,1\n2,8.5\n3,7\n", ERRORS)["errors"]
    assert agreement.accuracy.reason == "a range has no classes"
    assert agreement.bad == 2
    assert agreement.bad_f1.value == pytest.approx(2 / 3)
    assert agreement.agreement.difference.mean == pytest.approx((0.1 - 0.05 + 0.5) / 3)


def test_calibration_compares_scores_with_labels(tmp_path: Path) -> None:
    agreement = label_agreements(tmp_path, clarity_rows(4, 4, 0), "id,clarity\nr-1,4\nr-2,0\nr-3,0\n", CLARITY)[
        "clarity"
    ]
    assert [
        (calibration_bin.count, calibration_bin.found, calibration_bin.said)
        for calibration_bin in agreement.calibration.bins
    ] == [(1, 0.0, 0.0), (2, 1.0, 0.5)]
    assert agreement.calibration.error.value == pytest.approx(1 / 3)


def test_the_composite_is_labelled_by_its_status(tmp_path: Path) -> None:
    dimensions = {"clarity": level(CLARITY, 2)}
    rows = [
        row(1, dimensions),
        row(2, dimensions, composite=None, status=CompositeStatus.SAFETY_UNKNOWN),
        row(3, dimensions, status=CompositeStatus.UNSAFE, composite=0.0),
    ]
    agreement = label_agreements(tmp_path, rows, "id,composite\nr-1,OK\nr-2,unsafe\nr-3,unsafe\n", CLARITY)["composite"]
    assert agreement.accuracy.value == pytest.approx(2 / 3)
    assert (agreement.bad, agreement.bad_f1.value, agreement.unscored) == (2, 1.0, 0)


def test_the_composite_is_labelled_by_its_score(tmp_path: Path) -> None:
    dimensions = {"clarity": level(CLARITY, 2)}
    rows = [
        row(1, dimensions, composite=0.4),
        row(2, dimensions, composite=0.9),
        row(3, dimensions, composite=None, status=CompositeStatus.INCOMPLETE),
    ]
    agreement = label_agreements(tmp_path, rows, "id,composite\nr-1,0.2\nr-2,1\nr-3,0.5\n", CLARITY)["composite"]
    assert (agreement.labelled, agreement.unscored, agreement.agreement.rows) == (3, 1, 2)
    assert agreement.accuracy.reason == "a range has no classes"
    assert agreement.agreement.difference.mean == pytest.approx((0.2 - 0.1) / 2)
    assert agreement.bad_f1.value == 1.0


def test_rows_without_a_verdict_or_a_label_are_counted_and_not_compared(tmp_path: Path) -> None:
    labels = "id,clarity\nr-1,2\nr-2,3\nr-3,not applicable\nr-4,\n"
    agreement = label_agreements(tmp_path, clarity_rows(2, None, 2, 2), labels, CLARITY)["clarity"]
    assert (agreement.labelled, agreement.unscored, agreement.not_applicable) == (3, 1, 1)
    assert (agreement.accuracy.value, agreement.agreement.rows) == (1.0, 1)


def test_rows_that_were_labelled_and_not_judged_are_named(tmp_path: Path) -> None:
    side = load_side(write(tmp_path / "results.jsonl", clarity_rows(1), [CLARITY]))
    path = tmp_path / "labels.csv"
    path.write_text("id,clarity\nr-1,1\nr-77,2\n", "utf-8")
    meeting = meet(side, on_scales(read_labels(path, side.scales), side))
    assert (meeting.rows, meeting.unmatched) == (1, ("r-77",))


def test_labels_of_rows_chosen_at_random_correct_the_mean_of_all_rows(tmp_path: Path) -> None:
    """Judges give one level too many to all rows; half of the rows of each level are labelled."""
    truths = [number % 4 for number in range(80)]
    labels = "".join(f"r-{number},{truth},0.5\n" for number, truth in enumerate(truths, start=1) if number % 8 < 4)
    rows = clarity_rows(*(truth + 1 for truth in truths))
    corrected = label_agreements(tmp_path, rows, f"id,clarity,probability\n{labels}", CLARITY)["clarity"].corrected
    assert corrected is not None
    assert (corrected.judged, corrected.labels) == (80, 40)
    assert corrected.judge_mean == pytest.approx(0.625)
    assert corrected.bias == pytest.approx(0.25)
    assert corrected.corrected is not None
    assert corrected.labels_alone is not None
    assert corrected.corrected.low < fmean(truths) / 4 < corrected.corrected.high
    assert corrected.corrected.width < corrected.labels_alone.width


def test_labels_of_rows_that_somebody_picked_correct_nothing(tmp_path: Path) -> None:
    labels = "".join(f"r-{number},2\n" for number in range(1, 41))
    assert (
        label_agreements(tmp_path, clarity_rows(*[3] * 40), f"id,clarity\n{labels}", CLARITY)["clarity"].corrected
        is None
    )
