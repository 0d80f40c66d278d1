"""Spans of several judges become one list."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from judges.values.spans import AnswerSpan, SpanVerdict, combine_spans

SEVERITY = list(SpanVerdict)


def span(start: int, end: int, verdict: str, *contexts: int) -> AnswerSpan:
    return AnswerSpan(start=start, length=end - start, verdict=SpanVerdict(verdict), contexts=contexts)


def test_the_worst_verdict_on_a_sentence_counts_with_its_contexts() -> None:
    one = [span(0, 10, "supported", 0), span(11, 20, "unsupported")]
    two = [span(0, 10, "contradicted", 2), span(11, 20, "supported", 1)]
    assert combine_spans([one, None, two]) == (span(0, 10, "contradicted", 2), span(11, 20, "unsupported"))


def test_judges_that_agree_add_their_contexts() -> None:
    combined = combine_spans([[span(0, 10, "supported", 2)], [span(0, 10, "supported", 0, 2)]])
    assert combined == (span(0, 10, "supported", 0, 2),)


def test_a_claim_that_one_judge_found_is_a_claim() -> None:
    assert combine_spans([[span(0, 5, "no_claim")], [span(0, 5, "supported", 1)]]) == (span(0, 5, "supported", 1),)


def test_without_spans_there_are_none() -> None:
    assert combine_spans([None, None]) is None
    assert combine_spans([None, []]) == ()


@st.composite
def spans_of_a_judge(draw: st.DrawFn) -> list[AnswerSpan]:
    cuts = sorted(draw(st.sets(st.integers(0, 30), max_size=8)))
    verdicts = draw(st.lists(st.sampled_from(SEVERITY), min_size=len(cuts), max_size=len(cuts)))
    pairs = zip(cuts, cuts[1:], verdicts, strict=False)
    return [AnswerSpan(start=start, length=end - start, verdict=verdict) for start, end, verdict in pairs]


@given(st.lists(st.none() | spans_of_a_judge(), max_size=4))
def test_however_judges_split_an_answer_the_result_is_sorted_and_without_overlaps(
    by_judge: Sequence[Sequence[AnswerSpan] | None],
) -> None:
    combined = combine_spans(by_judge)
    given_spans = [item for spans in by_judge for item in spans or ()]
    if combined is None:
        assert all(spans is None for spans in by_judge)
        return
    assert all(one.end <= other.start for one, other in pairwise(combined))
    assert all(item in given_spans for item in combined)
    for item in given_spans:
        over = [other for other in combined if other.start < item.end and item.start < other.end]
        assert over, "a sentence that a judge names is named"
        assert max(SEVERITY.index(other.verdict) for other in over) >= SEVERITY.index(item.verdict)


def test_the_best_verdict_on_a_sentence_can_be_kept_instead() -> None:
    one = [AnswerSpan(start=0, length=5, verdict=SpanVerdict.UNSUPPORTED)]
    other = [AnswerSpan(start=0, length=5, verdict=SpanVerdict.SUPPORTED, contexts=(1,))]
    assert combine_spans([one, other]) == tuple(one)
    assert combine_spans([one, other], keep="best") == tuple(other)
