"""Summaries of results."""

from collections import Counter
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import CompositeStatus, Reason, SafetyStatus, Status, Tokens
from sinks.reports import summary as module
from sinks.reports.results_schema import Row, RowError, Run
from sinks.reports.summary import Band, IssueKind, Summariser, Summary, band_of
from tests.sinks.reports.invented import criterion, dimension, row, run, verdict


def summary_of(*rows: Row, about: Run | None = None) -> Summary:
    summariser = Summariser(about or run())
    for result in rows:
        summariser.add(result)
    return summariser.result()


def unread(number: int, kind: str = "invalid_row", message: str = "no answer") -> Row:
    return Row(row=number, source={}, error=RowError(kind=kind, message=message))


def issue(summary: Summary, kind: IssueKind) -> tuple[int, list[int]]:
    [match] = [issue for issue in summary.issues if issue.kind is kind]
    return match.count, [result.row for result in match.rows]


@given(st.lists(st.one_of(st.none(), st.floats(0.0, 1.0)), max_size=40), st.integers(0, 5))
def test_overall_figures_are_those_of_the_plain_formulas(composites: list[float | None], broken: int) -> None:
    rows = [row(number, score) for number, score in enumerate(composites, start=1)]
    summary = summary_of(*rows, *(unread(100 + number) for number in range(broken)))
    scored = [score for score in composites if score is not None]
    assert (summary.rows, summary.judged) == (len(composites) + broken, len(composites))
    assert summary.scored == len(scored) == sum(summary.bands.values()) == sum(summary.histogram)
    assert summary.composite.mean == (pytest.approx(fmean(scored), abs=1e-9) if scored else None)
    assert summary.composite.deviation == (pytest.approx(pstdev(scored), abs=1e-6) if scored else None)
    coverage = pytest.approx(len(scored) / summary.rows) if summary.rows else None
    assert summary.composite.estimate.coverage == coverage
    assert sum(summary.statuses.values()) + sum(summary.errors.values()) == summary.rows
    assert issue(summary, IssueKind.LOW)[0] == sum(round(score, 9) < 0.3 for score in scored)
    assert len(summary.failures) == min(module.MAX_ERRORS, summary.rows - summary.scored)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_a_dimension_is_reported_on_its_own_scale_and_on_0_to_1(levels: list[tuple[int, int]]) -> None:
    rows = [
        row(number, dimensions={"groundedness": dimension(verdict("one", one), verdict("two", two))})
        for number, (one, two) in enumerate(levels, start=1)
    ]
    summary = summary_of(*rows)
    summarised = summary.dimensions[0]
    raw = [(one + two) / 2 for one, two in levels]
    assert summarised.raw is not None
    assert summarised.raw.mean == pytest.approx(fmean(raw))
    assert summarised.raw.deviation == pytest.approx(pstdev(raw), abs=1e-9)
    assert summarised.normalised.mean == pytest.approx(fmean(raw) / 2)
    assert dict(summarised.choices) == {"none": 0, "some": 0, "all": 0} | Counter(
        ("none", "some", "all")[int(value)] for value in raw
    )
    [pair] = summary.agreement
    assert (pair.dimension, pair.judges, pair.count) == ("groundedness", ("one", "two"), len(levels))
    assert pair.equal == pytest.approx(fmean(one == two for one, two in levels))
    assert pair.difference == pytest.approx(fmean(abs(one - two) / 2 for one, two in levels))


def test_means_are_weighted_by_inverse_probability() -> None:
    """A row chosen with probability 0.1 stands for ten, on either scale."""
    dimensions = {"groundedness": dimension(verdict("one", 2))}
    missed = {"groundedness": dimension(verdict("one", 0))}
    summary = summary_of(row(1, 1.0, dimensions=dimensions, probability=0.1), row(2, 0.0, dimensions=missed))
    assert summary.composite.mean == pytest.approx(10 / 11)
    assert summary.dimensions[0].normalised.mean == pytest.approx(10 / 11)
    assert summary.dimensions[0].raw is not None
    assert summary.dimensions[0].raw.mean == pytest.approx(20 / 11)
    assert summary.sampled
    assert not summary_of(row(1)).sampled


@pytest.mark.parametrize(
    ("score", "band"),
    [
        (1.0, Band.EXCELLENT),
        (0.9, Band.EXCELLENT),
        (0.1 + 0.2 + 0.6 - 1e-13, Band.EXCELLENT),
        (0.8999, Band.GOOD),
        (0.75, Band.GOOD),
        (0.7499, Band.FAIR),
        (0.5, Band.FAIR),
        (0.4999, Band.POOR),
        (0.3, Band.POOR),
        (0.1 * 3, Band.POOR),
        (0.2999, Band.BAD),
        (0.0, Band.BAD),
    ],
)
def test_bands_begin_at_their_floor_whatever_rounding_does(score: float, band: Band) -> None:
    assert band_of(score) is band


def test_the_best_and_the_worst_dimension_are_chosen_by_normalised_scores() -> None:
    """On the dimension's own scale the larger number may be the worse one."""
    wide = criterion("completeness", bounds=(0.0, 10.0), choices=())
    about = run(criteria=(criterion("groundedness"), wide, criterion("clarity")))
    dimensions = {
        "groundedness": dimension(verdict("one", 2)),
        "completeness": dimension(verdict("one", 1), value=5.0, level=None),
    }
    summary = summary_of(row(1, dimensions=dimensions), about=about)
    assert (summary.best, summary.worst) == ("groundedness", "completeness")
    lone = summary_of(row(1, dimensions={"clarity": dimensions["groundedness"]}), about=about)
    assert (lone.best, lone.worst) == (None, None)


def test_issues_name_their_rows() -> None:
    def dimensions(grounded: int | None, complete: int | None) -> dict[str, Any]:
        return {
            "groundedness": dimension(verdict("one", grounded)),
            "completeness": dimension(verdict("one", complete)),
        }

    summary = summary_of(
        row(1, 1.0, dimensions=dimensions(2, 2)),
        row(2, 0.2, dimensions=dimensions(0, 1)),
        row(3, 0.6, dimensions=dimensions(1, 0)),
        row(4, 0.0, dimensions=dimensions(None, None), safety=SafetyStatus.UNSAFE, status=CompositeStatus.UNSAFE),
        row(5, None, dimensions=dimensions(0, None)),
    )
    assert issue(summary, IssueKind.UNGROUNDED) == (2, [2, 5])
    assert issue(summary, IssueKind.INCOMPLETE) == (1, [3])
    assert issue(summary, IssueKind.UNSAFE) == (1, [4])
    assert issue(summary, IssueKind.LOW) == (2, [2, 4])


def test_a_fault_that_no_criterion_looks_for_is_not_reported_as_absent() -> None:
    summary = summary_of(row(1), about=run(criteria=(criterion("politeness"),)))
    assert [issue.kind for issue in summary.issues] == [IssueKind.UNSAFE, IssueKind.LOW]


def test_a_long_list_is_cut_and_still_counted() -> None:
    summary = summary_of(*(row(number, 0.0) for number in range(1, module.MAX_LISTED + 51)))
    count, rows = issue(summary, IssueKind.LOW)
    assert count == module.MAX_LISTED + 50
    assert rows == list(range(1, module.MAX_LISTED + 1))


def test_rows_without_a_composite_say_why() -> None:
    late = dimension(verdict("one", None, reason=Reason.TIMEOUT, detail="after 60 s"), reason=Reason.TIMEOUT)
    summary = summary_of(unread(1), row(2, None, dimensions={"groundedness": late}), row(3))
    failures = [(failure.row, failure.kind, failure.message) for failure in summary.failures]
    assert failures == [(1, "invalid_row", "no answer"), (2, "safety_unknown", "timeout: after 60 s")]
    assert summary.errors == {"invalid_row": 1}
    assert summary.dimensions[0].reasons == {Reason.TIMEOUT: 1}
    assert summary.dimensions[0].statuses[Status.INSUFFICIENT] == 1


def test_not_applicable_rows_do_not_lower_the_coverage_of_a_dimension() -> None:
    nothing = dimension(status=Status.NOT_APPLICABLE, reason=Reason.NOTHING_TO_JUDGE)
    scored = dimension(verdict("one", 2))
    failed = dimension(verdict("one", None))
    rows = [
        row(number, dimensions={"groundedness": finding})
        for number, finding in enumerate((nothing, scored, scored, failed))
        if number
    ]
    summarised = summary_of(row(9, dimensions={"groundedness": nothing}), *rows).dimensions[0]
    assert summarised.normalised.estimate.coverage == pytest.approx(2 / 3)
    assert summarised.statuses == {Status.SCORED: 2, Status.NOT_APPLICABLE: 1, Status.INSUFFICIENT: 1}


def test_kinds_of_errors_come_from_files_and_are_limited_in_number() -> None:
    summary = summary_of(*(unread(number, kind=f"kind {number}") for number in range(1, 200)))
    assert len(summary.errors) == module.MAX_NAMES + 1
    assert sum(summary.errors.values()) == 199


def test_judges_are_reported_with_their_cost() -> None:
    paid = {"tokens": Tokens(prompt=100, completion=10), "cost_usd": 0.25, "latency_ms": 200.0}
    finding = dimension(verdict("one", 2, **paid), verdict("two", 2, cached=True, latency_ms=0.0))
    summary = summary_of(*(row(number, dimensions={"groundedness": finding}, cost_usd=0.25) for number in (1, 2)))
    one, two = summary.judges
    assert (one.judge, one.tokens, one.cost_usd, one.cached) == ("one", (200, 20), 0.5, 0)
    assert one.latency is not None
    assert one.latency.half == pytest.approx(200.0, rel=0.01)
    assert (two.judge, two.tokens, two.cost_usd, two.cached, two.latency) == ("two", None, None, 2, None)
    assert summary.cost_usd == 0.5
    assert summary_of(row(1)).cost_usd is None


def test_a_judge_that_was_not_announced_is_reported_too() -> None:
    """Such as a fallback judge."""
    summary = summary_of(row(1, dimensions={"groundedness": dimension(verdict("reserve", 2))}))
    assert [judge_summary.judge for judge_summary in summary.judges] == ["one", "two", "reserve"]


def test_judges_of_different_languages_agree_on_the_same_option() -> None:
    options = criterion("groundedness", choices=(("No", 0.0), ("Yes", 1.0)), bounds=(0.0, 1.0))
    english = verdict("one", None, status=Status.SCORED, option="yes ", value=1.0, score=1.0)
    russian = verdict("two", None, status=Status.SCORED, option="Да", value=1.0, score=1.0)
    summary = summary_of(
        row(1, dimensions={"groundedness": dimension(english, russian)}), about=run(criteria=(options,))
    )
    assert summary.agreement[0].equal == 1.0
    assert summary.agreement[0].kappa is None, "both always said the same one thing"


def test_numbers_of_a_range_are_near_or_far_and_not_equal() -> None:
    numbers = criterion("groundedness", choices=(), bounds=(0.0, 10.0))
    pair = [
        verdict(name, None, status=Status.SCORED, value=value, score=value / 10)
        for name, value in (("one", 4.0), ("two", 6.0))
    ]
    summary = summary_of(
        row(1, dimensions={"groundedness": dimension(*pair, level=None)}), about=run(criteria=(numbers,))
    )
    [agreement] = summary.agreement
    assert (agreement.equal, agreement.kappa) == (None, None)
    assert agreement.difference == pytest.approx(0.2)
    assert summary.dimensions[0].choices == ()


def test_a_summary_can_be_empty() -> None:
    summary = summary_of()
    assert (summary.rows, summary.composite.mean, summary.median, summary.latency) == (0, None, None, None)
    assert set(summary.bands.values()) == {0}
