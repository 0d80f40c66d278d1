"""Labels and answers in the monitor: joined in any order, once, and the same after any restart."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.values.evaluation import Evaluation, Excerpt
from judges.values.label import Label
from sinks.statistics.anytime import WeightedTally
from sinks.statistics.corrected import MeanInterval
from sinks.statistics.corrected_anytime import FixedGaps, fixed_interval
from sinks.statistics.judge_quality import JudgeQuality
from sinks.statistics.labelled_answers import label_names
from sinks.statistics.measured_judges import ATTRIBUTES, measure_judges
from stream.config.model import Config
from stream.errors import RecordError
from stream.jobs.labels.joining import SeriesKey, join
from stream.jobs.labels.report import estimate_all
from stream.monitor.alerts.labels import ring as ring_module
from stream.monitor.alerts.labels.agreement import MIN_SLICE_LABELS
from stream.monitor.alerts.labels.corrections import collect_labels
from stream.monitor.alerts.labels.judged_days import day_of
from stream.monitor.alerts.labels.label_record import label_message, read_label
from stream.monitor.alerts.labels.memory import JoinedLabel, LabelMemory, is_chunk_key
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord, Source
from stream.monitor.alerts.watch.partition import PartitionWatch
from tests.sinks.metrics.measured import dimension, evaluation, verdict
from tests.stream.monitor.alerts.traffic import plan_of

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e47{:02d}"
MODELS = ("gpt-4o", "qwen2.5:7b", None)
EXCERPTS = (
    Excerpt(question="Is it open?", answer="Yes."),
    Excerpt(question="Открыто ли сейчас отделение банка?", answer="Да."),
    None,
)
Step = Evaluation | Label


def judged(number: int, app: str = "shop", score: float = 0.5) -> Evaluation:
    return evaluation(
        0.7,
        app=app,
        probability=0.5,
        evaluation_id=f"e-{number}",
        interaction_id=f"i-{number}",
        traceparent=f"00-{TRACE.format(number)}-00f067aa0ba902b7-01",
        dimensions={
            "clarity": dimension(score, verdict("local", score=score), verdict("large", score=1.0 - score / 2))
        },
        evaluated_at=NOW - timedelta(hours=number),
        model=MODELS[number % 4 % 3],
        excerpt=EXCERPTS[number % 5 % 3],
    )


def label(number: int, score: float | None = 1.0, **more: Any) -> Label:
    fields: dict[str, Any] = {
        "label_id": f"l-{number}",
        "interaction_id": f"i-{number}",
        "criterion": "clarity",
        "score": score,
        "who": "ada",
        "labelled_at": NOW,
        "probability": 0.25,
        "comment": "a remark",
    }
    return Label(**{**fields, **more})


EVALUATIONS = [judged(number, "shop" if number % 3 else "bank", (number % 5) / 4) for number in range(40)]
LABELS = [
    *(label(number, (number % 3) / 2) for number in range(35)),
    label(100, 0.0, interaction_id="i-1", who="bob"),
    label(101, 0.5, interaction_id="i-2", labelled_at=NOW + timedelta(seconds=1)),
    label(102, None, interaction_id="i-4", retracts="l-4"),
    label(103, 0.0, interaction_id="i-5", probability=None, who="eve"),
    label(104, 0.0, interaction_id=TRACE.format(36)),
    label(105, 1.0, interaction_id="i-7", kind="feedback", criterion="thumbs"),
    label(106, 0.0, interaction_id=TRACE.format(7), kind="feedback", criterion="thumbs"),
    label(107, 1.0, interaction_id="i-999"),
    label(108, 0.5, interaction_id=TRACE.format(8), who="bob"),
]


def feed(watch: PartitionWatch, step: Step, offset: int) -> None:
    if isinstance(step, Label):
        watch.observe_label(step)
    else:
        record = ScoreRecord.of(step, Source(partition=0, offset=offset), now=NOW.timestamp())
        assert record is not None
        watch.observe(record)


def restart(watch: PartitionWatch, stored: dict[str, bytes], plan: WatchPlan | None = None) -> PartitionWatch:
    stored |= {key: value for key, value in watch.take_changes() if value is not None}
    assert all(is_chunk_key(key) or key.startswith("app:") for key in stored)
    successor = PartitionWatch(plan or plan_of(), 0)
    successor.restore(stored)
    assert successor.refused == {}
    return successor


def figures(quality: JudgeQuality) -> list[float | None]:
    """Return the figures of a judge; the order of the labels changes their last digits."""
    shares = (quality.sensitivity, quality.specificity, quality.kappa)
    values = [getattr(share, part) for share in shares for part in ("value", "low", "high")]
    values += [quality.bias.mean, quality.bias.low, quality.bias.high]
    return [quality.labels, *(None if value is None else round(value, 9) for value in values)]


def sliced(watch: PartitionWatch, app: str) -> dict[tuple[str, ...], list[float | None]]:
    labels = collect_labels(watch.labels.labels_of(app), watch.labels.retractions)
    measured = labels.judges.measure_slices(now=NOW.timestamp(), window=7, least=1)
    return {key: figures(quality) for key, quality in measured.items()}


def collected(watch: PartitionWatch, app: str) -> Any:
    labels = collect_labels(watch.labels.labels_of(app), watch.labels.retractions)
    judged_days = watch.apps[app].judged
    now = NOW.timestamp()
    return labels.estimates(judged_days, now=now, window=7), labels.reactions(now=now, window=7)


@settings(max_examples=25, deadline=None)
@given(st.permutations([*EVALUATIONS, *LABELS]), st.sets(st.integers(0, 80), max_size=5), st.booleans())
def test_the_estimates_are_those_of_the_report_in_any_order_and_after_any_restarts(
    steps: list[Step], stops: set[int], repeat: bool
) -> None:
    watch, stored = PartitionWatch(plan_of(), 0), dict[str, bytes]()
    for place, step in enumerate(steps):
        feed(watch, step, place)
        if place in stops:
            watch = restart(watch, stored)
            if repeat:
                for earlier in range(max(0, place - 10), place + 1):
                    feed(watch, steps[earlier], earlier)
    joined = join(EVALUATIONS, LABELS)
    expected = estimate_all(joined)
    for app in ("shop", "bank"):
        estimates, reactions = collected(watch, app)
        assert estimates.keys() == {"clarity"}
        wanted, estimate = expected[SeriesKey(app, "clarity")], estimates["clarity"]
        assert (estimate.judged, estimate.labels) == (wanted.judged, wanted.labels)
        assert estimate.judge_mean == pytest.approx(wanted.judge_mean, abs=1e-12)
        feedback = joined.feedback.get(SeriesKey(app, "thumbs"))
        offline = measure_judges([judged for judged in EVALUATIONS if judged.app == app], LABELS)
        measured = watch.measure_judges(app, now=NOW.timestamp())
        assert {key: figures(quality) for key, quality in measured.items()} == {
            (key.judge, key.criterion): figures(quality) for key, quality in offline.items()
        }
        assert sliced(watch, app) == {
            (key.judge, key.criterion, attribute, key.value): figures(quality)
            for attribute in ATTRIBUTES
            for key, quality in measure_judges(
                [judged for judged in EVALUATIONS if judged.app == app], LABELS, attribute
            ).items()
        }
        assert [reaction.number for reaction in reactions.values()] == ([len(feedback.scores)] if feedback else [])


def test_a_corrected_mean_equals_that_of_the_report() -> None:
    evaluations = [judged(number, score=(number % 5) / 4) for number in range(90)]
    labels = [label(number, (number % 3) / 2) for number in range(60)]
    watch = PartitionWatch(plan_of(), 0)
    for place, step in enumerate([*labels[:30], *evaluations, *labels[30:]]):
        feed(watch, step, place)
    estimate = collected(watch, "shop")[0]["clarity"]
    wanted = estimate_all(join(evaluations, labels))[SeriesKey("shop", "clarity")]
    assert wanted.corrected is not None
    assert estimate.corrected is not None
    for part in ("mean", "low", "high"):
        assert getattr(estimate.corrected, part) == pytest.approx(getattr(wanted.corrected, part), abs=1e-9)


DESIGN = WatchPlan(Config.model_validate({"sampling": {"rate": 0.5}, "page": {"review_rate": 0.5}}))


def anytime(watch: PartitionWatch) -> MeanInterval | None:
    watch.corrected_apps()
    return watch.correct("shop", now=NOW.timestamp())[0]["clarity"].anytime


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(len(EVALUATIONS) + len(LABELS))), st.sets(st.integers(0, 80), max_size=3))
def test_an_interval_for_every_look_is_that_of_the_first_labels_in_any_order_and_after_any_restarts(
    order: list[int], stops: set[int]
) -> None:
    """The order of the labels decides which one of an answer is the first, and a restart does not change it."""
    steps = [[*EVALUATIONS, *LABELS][place] for place in order]
    watch, unstopped, stored = PartitionWatch(DESIGN, 0), PartitionWatch(DESIGN, 0), dict[str, bytes]()
    for place, step in enumerate(steps):
        feed(watch, step, place)
        feed(unstopped, step, place)
        watch = restart(watch, stored, DESIGN) if place in stops else watch
    answers = {name: answer for answer in EVALUATIONS for name in label_names(answer) if answer.app == "shop"}
    firsts = dict[str, Label]()
    for step in steps:
        if not isinstance(step, Label) or step.interaction_id not in answers or step.criterion != "clarity":
            continue
        if step.retracts is None and step.probability is not None:
            firsts.setdefault(answers[step.interaction_id].interaction_id, step)
    gaps, scores = FixedGaps(), WeightedTally()
    for name, answer in answers.items():
        if name == answer.interaction_id:
            scores = scores.plus(answer.dimensions["clarity"].score or 0.0, 1.0)
    for name, first in firsts.items():
        gaps = gaps.plus(answers[name].dimensions["clarity"].score or 0.0, first.score or 0.0, 1.0)
    expected, now = fixed_interval(gaps, scores, 0.05), NOW.timestamp()
    for labelled in (watch, unstopped):
        found = collect_labels(labelled.labels.labels_of("shop"), [])
        days = labelled.apps["shop"].judged
        since = day_of(now) - 6
        interval = found.first.interval(
            "clarity", days.total("clarity", since), since=since, days=days.days, design=DESIGN.label_design("shop")
        )
        assert interval is not None
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_the_labels_of_an_answer_have_the_order_in_which_they_came_before_and_after_a_restart() -> None:
    watch = PartitionWatch(DESIGN, 0)
    for place, step in enumerate([label(1, interaction_id=TRACE.format(8)), label(2, interaction_id="i-8"), judged(8)]):
        feed(watch, step, place)
    for labelled in (watch, restart(watch, {}, DESIGN)):
        assert [joined.label.label_id for joined in labelled.labels.labels_of("shop")] == ["l-1", "l-2"]


def test_later_labels_and_retractions_do_not_take_back_evidence() -> None:
    watch = PartitionWatch(DESIGN, 0)
    steps = [*(judged(number, score=(number % 5) / 4) for number in range(60)), *(label(n, 1.0) for n in range(40))]
    for place, step in enumerate(steps):
        feed(watch, step, place)
    before = anytime(watch)
    assert before is not None
    assert before.low > 0.4
    for number in range(5):
        watch.observe_label(label(200 + number, 0.0, interaction_id=f"i-{number}", who="bob"))
        watch.observe_label(label(300 + number, None, interaction_id=f"i-{number + 10}", retracts=f"l-{number + 10}"))
    assert anytime(watch) == before
    watch.observe_label(label(50, 0.0))
    after = anytime(watch)
    assert after is not None
    assert after.low < before.low


@pytest.mark.parametrize(
    ("sampling", "has_interval"),
    [(0.5, True), (0.51, False), (0.01, True)],
)
def test_there_is_no_interval_for_every_look_if_labels_have_smaller_probabilities_than_the_configuration(
    sampling: float, has_interval: bool
) -> None:
    plan = WatchPlan(Config.model_validate({"sampling": {"rate": sampling}, "page": {"review_rate": 0.5}}))
    watch = PartitionWatch(plan, 0)
    for place, step in enumerate([*(judged(number) for number in range(60)), *(label(n) for n in range(40))]):
        feed(watch, step, place)
    assert (anytime(watch) is not None) == has_interval


THINNING = {"per_day_usd": 1.0, "degrade": [{"step": "sampling", "below": 0.2}]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"sampling": {"rate": 0.2}}, (0.2, 0.01)),
        ({"sampling": {"rate": 0.2}, "labels": {"queue": {"rate": 0.5, "floor": 0.1}}}, (0.2, 0.01)),
        ({"sampling": {"rate": 0.2, "rules": [{"name": "a", "match": {"app": "shop"}, "rate": 0.1}]}}, (0.1, 0.005)),
        ({"sampling": {"rate": 0.2, "rules": [{"name": "a", "match": {"app": "bank"}, "rate": 0.1}]}}, (0.2, 0.01)),
        ({"sampling": {"rate": 0.32}, "budgets": THINNING}, (0.02, 0.001)),
    ],
)
def test_the_smallest_probabilities_follow_from_the_configuration(
    content: dict[str, Any], expected: tuple[float, float]
) -> None:
    assert WatchPlan(Config.model_validate(content)).label_design("shop") == pytest.approx(expected)


def test_an_interval_for_every_look_follows_the_judged_answers_and_the_days() -> None:
    watch = PartitionWatch(DESIGN, 0)
    for place, step in enumerate(
        [*(judged(number, score=1.0) for number in range(60)), *(label(n) for n in range(40))]
    ):
        feed(watch, step, place)
    before = anytime(watch)
    feed(watch, judged(60, score=0.0), 60)
    assert anytime(watch) is before, "an interval of an earlier look stays valid"
    for number in range(61, 90):
        feed(watch, judged(number, score=0.0), number)
    now = anytime(watch)
    assert now != before
    older = watch.correct("shop", now=NOW.timestamp() + 5 * 86400)[0]["clarity"]
    assert older.labels == 37
    assert older.anytime not in (None, now)
    later = watch.correct("shop", now=NOW.timestamp() + 6 * 86400)[0]["clarity"]
    assert (later.labels, later.anytime) == (13, None)


def test_families_and_languages_with_too_few_labels_or_outside_the_window_are_left_out() -> None:
    evaluations = [
        judged(number).model_copy(update={"model": "gpt-4o" if number < MIN_SLICE_LABELS else "qwen2.5:7b"})
        for number in range(2 * MIN_SLICE_LABELS - 1)
    ]
    watch = PartitionWatch(plan_of(), 0)
    for place, step in enumerate([*evaluations, *(label(number) for number in range(len(evaluations)))]):
        feed(watch, step, place)
    families = {key.value for key in watch.measure_slices("shop", now=NOW.timestamp()) if key.attribute == "family"}
    assert families == {"gpt"}
    assert watch.measure_slices("shop", now=NOW.timestamp() + 30 * 86400) == {}


def test_answers_that_an_earlier_version_stored_are_in_no_family_and_no_language() -> None:
    earlier = b'{"v":1,"included":{"count":1},"first":0,"entries":[["i-1",null,"shop",%d,0.5,{},{"clarity":{"a":1}}]]}'
    watch = PartitionWatch(plan_of(), 0)
    watch.restore({"answers:0": earlier % (NOW.timestamp() - 60)})
    assert watch.refused == {}
    feed(watch, label(1), 0)
    feed(watch, judged(2), 1)
    feed(watch, label(2), 2)
    labels = collect_labels(watch.labels.labels_of("shop"), [])
    assert set(labels.judges.measure(now=NOW.timestamp(), window=7)) == {
        (judge, "clarity") for judge in ("a", "local", "large")
    }
    assert {key[0] for key in sliced(watch, "shop")} == {"local", "large"}
    successor = restart(watch, {})
    assert sliced(successor, "shop") == sliced(watch, "shop")


def test_days_outside_the_window_do_not_count() -> None:
    watch = PartitionWatch(plan_of(), 0)
    for place, step in enumerate([judged(0), judged(24 * 3), label(0), label(24 * 3)]):
        feed(watch, step, place)
    labels = collect_labels(watch.labels.labels_of("shop"), [])
    days = watch.apps["shop"].judged
    counts = [labels.estimates(days, now=NOW.timestamp(), window=window)["clarity"] for window in (2, 7)]
    assert [(estimate.judged, estimate.labels) for estimate in counts] == [(1, 1), (2, 2)]
    assert labels.estimates(days, now=NOW.timestamp() + 30 * 86400, window=7) == {}


def test_the_latest_answers_and_labels_are_remembered_and_a_joined_label_keeps_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ring_module, "CHUNKS", 2)
    watch, stored = PartitionWatch(plan_of(), 0), dict[str, bytes]()
    feed(watch, label(0), 0)
    feed(watch, judged(0), 0)
    for number in range(1, 450):
        feed(
            watch, evaluation(0.7, evaluation_id=f"x-{number}", interaction_id=f"x-{number}", evaluated_at=NOW), number
        )
        watch = restart(watch, stored) if number % 90 == 0 else watch
    assert [joined.label.label_id for joined in watch.labels.labels_of("shop")] == ["l-0"]
    for name, is_joined in (("x-10", False), ("x-440", True)):
        watch.observe_label(label(900, label_id=f"l-{name}", interaction_id=name))
        assert (f"l-{name}" in {joined.label.label_id for joined in watch.labels.labels_of("shop")}) == is_joined
    for number in range(1000, 1450):
        watch.observe_label(label(number))
    assert list(watch.labels.labels_of("shop")) == []
    assert len(stored) <= 1 + 2 * 2


def test_a_repeated_label_changes_nothing() -> None:
    memory = LabelMemory()
    memory.add_label(label(1))
    assert len(list(memory.take_changes())) == 1
    memory.add_label(label(1, 0.0))
    assert list(memory.take_changes()) == []


def test_a_label_is_read_back_without_its_comment() -> None:
    message = label_message(label(1), "rag.scores", 3)
    assert (message.partition, message.key) == (3, b"i-1")
    again = read_label(message.value, b"1")
    assert again.comment is None
    assert again.model_copy(update={"comment": "a remark"}) == label(1)


@pytest.mark.parametrize(
    ("value", "schema", "kind"),
    [
        (b"no label", b"1", "invalid_record"),
        (None, b"1", "invalid_record"),
        (label(1).model_dump_json().encode(), b"9", "unsupported_version"),
        (label(1, who="a" * 300).model_dump_json().encode(), b"1", "too_long"),
        (label(1).model_dump_json().replace("0.25", "0.0").encode(), b"1", "invalid_record"),
    ],
)
def test_a_record_that_is_no_label_is_refused(value: bytes | None, schema: bytes, kind: str) -> None:
    with pytest.raises(RecordError) as refused:
        read_label(value, schema)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({}, 0.001 / 16 * 0.001),
        ({"sampling": {"min_probability": 0.01}}, 0.01 / 16 * 0.001),
        ({"page": {"review_rate": 0.0001}}, 0.001 / 16 * 0.0001),
        ({"labels": {"queue": {"rate": 0.001, "floor": 0.1}}}, 0.001 / 16 * 0.0001),
    ],
)
def test_a_label_with_a_probability_below_all_of_the_configuration_is_refused(
    changes: dict[str, Any], least: float
) -> None:
    lowest = Config.model_validate(changes).least_label_probability
    assert lowest == pytest.approx(least)
    with pytest.raises(RecordError) as refused:
        read_label(label(1, probability=lowest / 2).model_dump_json().encode(), b"1", least_probability=lowest)
    assert refused.value.kind == "bad_probability"
    for probability in (lowest, None):
        taken = label(1, probability=probability)
        read_label(taken.model_dump_json().encode(), b"1", least_probability=lowest)


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b'{"v":1,"included":{"count":1},"first":0,"entries":[]}',
        b'{"v":1,"included":{"count":1},"first":50,"entries":[["i",null,"a",1,0.5,{}]]}',
        b'{"v":1,"included":{"count":1},"first":200,"entries":[["i",null,"a",1,0.5,{}]]}',
        b'{"v":1,"included":{"count":1},"first":0,"entries":[["i",null,"a",1,7.5,{}]]}',
    ],
)
def test_a_chunk_that_cannot_be_read_is_refused_and_the_others_are_used(value: bytes) -> None:
    good = b'{"v":1,"included":{"count":1},"first":100,"entries":[["i-1",null,"shop",1,0.5,{"clarity":1.0}]]}'
    watch = PartitionWatch(plan_of(), 0)
    watch.restore({"answers:0": value, "answers:1": good})
    assert watch.refused.keys() == {"answers:0"}
    watch.observe_label(label(1))
    assert [joined.label.label_id for joined in watch.labels.labels_of("shop")] == ["l-1"]


def test_the_means_of_an_app_follow_new_labels_answers_and_retractions() -> None:
    watch = PartitionWatch(plan_of(), 0)
    feed(watch, judged(0), 0)
    assert watch.corrected_apps() == []
    now = NOW.timestamp()

    def count() -> list[tuple[int, int]]:
        assert watch.corrected_apps() == ["shop"]
        return [(estimate.judged, estimate.labels) for estimate in watch.correct("shop", now=now)[0].values()]

    watch.observe_label(label(0))
    assert count() == [(1, 1)]
    feed(watch, judged(1), 1)
    assert count() == [(2, 1)]
    watch.observe_label(label(1))
    assert count() == [(2, 2)]
    watch.observe_label(label(2, None, retracts="l-1", interaction_id="other"))
    assert count() == [(2, 1)]
    watch.observe_label(label(3, None, retracts="l-0"))
    assert count() == []


def stored_labels(first: int, names: list[str]) -> bytes:
    entries = [[label(0, label_id=name).model_dump(mode="json"), None] for name in names]
    return json.dumps({"v": 1, "included": {"count": 5}, "first": first, "entries": entries}).encode()


@pytest.mark.parametrize("chunks", [{0: ["a", "a"]}, {0: ["a"], 1: ["a"]}], ids=["in one chunk", "in two"])
def test_a_stored_label_that_is_repeated_is_forgotten_without_harm(chunks: dict[int, list[str]]) -> None:
    """Only a forged state repeats a label: the monitor takes each once."""
    stored = {f"labels:{place}": stored_labels(place * 100, names) for place, names in chunks.items()}
    last = [f"z{number}" for number in range(100)]
    watch = PartitionWatch(plan_of(), 0)
    watch.restore({**stored, "labels:199": stored_labels(19_900, last)})
    assert watch.refused == {}
    for number in range(250):
        watch.observe_label(label(number))
    assert watch.labels.anchor_scores("i-0") == {}


def test_a_label_of_a_trace_that_its_answer_no_longer_names_waits_after_the_answer_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ring_module, "CHUNKS", 2)
    watch = PartitionWatch(plan_of(), 0)
    first, again = judged(1), judged(0).model_copy(update={"interaction_id": "i-1"})
    assert again.evaluated_at > first.evaluated_at
    others = [
        judged(2).model_copy(
            update={
                "evaluation_id": f"other-{number}",
                "interaction_id": f"other-{number}",
                "traceparent": f"00-{number + 1000:032x}-00f067aa0ba902b7-01",
            }
        )
        for number in range(300)
    ]
    for offset, step in enumerate([first, again, *others]):
        feed(watch, step, offset)
    feed(watch, label(0, interaction_id=TRACE.format(1)), 0)
    assert list(watch.labels.labels_of("shop")) == []


def test_a_label_that_cannot_be_processed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other exception would end the monitor, which would read the label again."""

    def fail(_label: Label) -> list[JoinedLabel]:
        raise KeyError("x")

    watch = PartitionWatch(plan_of(), 0)
    monkeypatch.setattr(watch.labels, "add_label", fail)
    with pytest.raises(RecordError) as caught:
        watch.observe_label(label(0))
    assert caught.value.kind == "internal_error"
