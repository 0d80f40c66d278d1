"""The backfill, as far as it can be tested without a broker: selection, rate, cost and reports."""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Message as KafkaMessage
from hypothesis import given
from hypothesis import strategies as st

from judges.criteria.criterion import RAG_DIMENSIONS
from judges.values.evaluation import evaluation_id
from judges.values.interaction import Context, Interaction
from stream.cli.commands.backfill import Offsets, offsets_text, result_lines, survey_lines, survey_object
from stream.cli.main import main
from stream.cli.support import cluster
from stream.config.model import Config
from stream.jobs.backfill import BackfillResult, BackfillSurvey, CostEstimate, Counts, Selection
from stream.jobs.backfill.backfill import RateLimiter
from stream.jobs.backfill.cost_estimate import Paid, SystematicSample, estimate
from stream.jobs.backfill.selection import Selected
from stream.records.decision import Cohort
from stream.records.envelope import content_in
from stream.records.identity import UNKNOWN_CONTENT
from stream.service.setup.evaluator import build_evaluator

FINGERPRINT = "0123456789abcdef"
PRICED = {"prompt": 1.0, "completion": 10.0}


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


def message(name: str | None = "a", *, offset: int = 0, value: bytes | None = None, **fields: Any) -> KafkaMessage:
    body = json.dumps({"id": name, "question": "Is it open?", "answer": "It is.", **fields}).encode()
    key = None if name is None else name.encode()
    return KafkaMessage(topic="rag.interactions", partition=2, offset=offset, key=key, value=value or body)


def selection(share: float = 1.0, published: Mapping[bytes, str] | None = None, **config: Any) -> Selection:
    return Selection(Config.model_validate(config), FINGERPRINT, share=share, known=published or {})


def ids_of(taken: Iterable[Selected | None]) -> list[str]:
    return [selected.submission.interaction.id for selected in taken if selected is not None]


def id_of(name: str) -> bytes:
    return uuid.UUID(evaluation_id(name, FINGERPRINT)).bytes


# Which records


def test_a_record_is_judged_in_the_backfill_lane_with_its_sampling_probability() -> None:
    selected = selection(0.999).take(message("a", app="shop"))
    assert selected is not None
    submission = selected.submission
    assert (submission.interaction.id, submission.interaction.app) == ("a", "shop")
    sampling = submission.sampling
    assert (sampling.probability, sampling.rule, sampling.lane) == (0.999, "backfill", "backfill")


def test_records_judged_before_under_the_fingerprint_and_repeats_are_left_out() -> None:
    chosen = selection(published={id_of("old"): UNKNOWN_CONTENT})
    taken = [chosen.take(message(name)) for name in ("old", "new", "new", "old", "other")]
    assert ids_of(taken) == ["new", "other"]
    counts = chosen.counts
    assert (counts.records, counts.chosen, counts.judged_before, counts.repeats) == (5, 2, 2, 1)


def test_another_content_of_the_same_id_is_judged_under_another_id() -> None:
    answers = ("It is.", "It is not.", "It is.", "It is not.")
    first_run = selection()
    taken = [first_run.take(message("a", answer=answer)) for answer in answers]
    [first, second] = [selected for selected in taken if selected]
    content = dict(second.headers)["sj-content"] or b""
    assert ids_of(taken) == ["a", f"a#{content.decode()}"]
    assert "sj-logged-id" not in dict(first.headers)
    assert dict(second.headers)["sj-logged-id"] == b"a"
    assert (first_run.counts.chosen, first_run.counts.repeats) == (2, 2)

    published = {
        id_of(selected.submission.interaction.id): content_in(selected.headers) for selected in (first, second)
    }
    second_run = selection(published=published)
    taken = [second_run.take(message("a", answer=answer)) for answer in (*answers, "Perhaps.")]
    assert (second_run.counts.chosen, second_run.counts.judged_before) == (1, 4)
    assert taken[-1] is not None
    assert taken[-1].submission.interaction.id.startswith("a#")


@pytest.mark.parametrize("name", ["canary:a:1", f"a#{'0' * 32}"])
def test_ids_that_workers_refuse_are_not_judged(name: str) -> None:
    chosen = selection()
    assert chosen.take(message(name)) is None
    assert chosen.counts.bad == {"reserved_id": 1}


def test_the_app_that_workers_refuse_is_not_judged() -> None:
    chosen = selection()
    assert chosen.take(message("a", app="canaries")) is None
    assert chosen.counts.bad == {"reserved_app": 1}


@given(st.floats(0.01, 1.0), st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=60))
def test_the_selection_is_what_the_sampler_chooses_at_this_rate(share: float, names: list[str]) -> None:
    names = [name for name in names if name.isprintable()]
    chosen = selection(share, sampling={"salt": "grain"})
    taken = {name for name in names if chosen.take(message(name))}
    assert taken == {name for name in names if Cohort("grain").draw(name) < share}
    assert chosen.counts.sampled_out == len(names) - len(taken)


def test_records_that_cannot_be_read_are_counted_by_kind_and_the_first_are_named() -> None:
    chosen = selection()
    for offset in range(8):
        assert chosen.take(message(None, offset=offset, value=b"{")) is None
    assert chosen.take(message(None, value=b'{"id": "x", "question": "?"}')) is None
    assert chosen.counts.bad == {"bad_json": 8, "invalid_record": 1}
    assert len(chosen.counts.named) == 5
    assert chosen.counts.named[0].startswith("rag.interactions/2/0: bad_json: not JSON")


def test_a_record_that_is_left_out_anyway_is_not_read() -> None:
    name = next(name for name in map(str, range(99)) if Cohort("streamjury").draw(name) > 0.5)
    chosen = selection(0.5)
    chosen.take(message(name, value=b"{"))
    assert (chosen.counts.sampled_out, chosen.counts.bad.total()) == (1, 0)


# How fast


@given(st.floats(0.5, 500.0), st.lists(st.floats(0.0, 3.0), max_size=40))
def test_however_long_others_took_records_start_no_faster_than_the_rate(rate: float, delays: list[float]) -> None:
    """In any interval, at most the rate times its length, plus one, plus one that was due before."""
    now, starts = [0.0], list[float]()
    pace = RateLimiter(rate, lambda: now[0])
    for delay in delays:
        now[0] += delay + pace.seconds
        while pace.seconds:  # the last digit of a sum of floats
            now[0] += pace.seconds + 1e-9
        pace.start()
        starts.append(now[0])
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            assert last - first + 1 <= rate * (starts[last] - starts[first]) + 2 + 1e-6


def test_no_record_waits_longer_than_the_rate_requires() -> None:
    now = [0.0]
    pace = RateLimiter(4.0, lambda: now[0])
    for number in range(10):
        assert now[0] + pace.seconds == number / 4
        now[0] += pace.seconds
        pace.start()


# Cost


def interaction(name: str = "a", context: str = "x" * 4000) -> Interaction:
    return Interaction(id=name, question="Is it open?", answer="It is open.", contexts=(Context(text=context),))


def judge(name: str = "large", **keys: Any) -> dict[str, Any]:
    return {"kind": "openai", "name": name, "model": "house-model", "base_url": "https://judge.example/v1", **keys}


def panel_config(*judges: dict[str, Any], **keys: Any) -> Config:
    return Config.model_validate({"criteria": {"use": ["rag"]}, "judges": {"panel": list(judges), **keys}})


def make_sample(number: int = 1, context: str = "x" * 4000) -> SystematicSample:
    sample = SystematicSample()
    for index in range(number):
        sample.add(interaction(str(index), context))
    return sample


def test_judges_without_a_model_cost_nothing() -> None:
    cost = estimate(Config(), make_sample(10), Paid())
    assert (cost.usd, cost.unpriced) == (0.0, ())


def estimate_usd(config: Config, sample: SystematicSample) -> float:
    cost = estimate(config, sample, Paid()).usd
    assert cost is not None
    return cost


def test_the_estimate_grows_with_texts_samples_and_records() -> None:
    config = panel_config(judge(price={"prompt": 1.0, "completion": 0.0}))
    base = estimate_usd(config, make_sample())
    # Three of the six criteria show the contexts; four bytes a token, a dollar a million tokens.
    assert estimate_usd(config, make_sample(context="x" * 8000)) - base == pytest.approx(3 * 1000 * 1e-6)
    assert estimate_usd(config, make_sample(1000)) == pytest.approx(1000 * base)
    thrice = panel_config(judge(price={"prompt": 1.0, "completion": 0.0}, samples=3))
    assert estimate_usd(thrice, make_sample()) == pytest.approx(3 * base)
    both_orders = panel_config(judge(price={"prompt": 1.0, "completion": 0.0}, check_position=True))
    assert estimate_usd(both_orders, make_sample()) == pytest.approx(2 * base)


def test_completion_tokens_are_counted_for_every_criterion_of_a_judge() -> None:
    price = {"prompt": 0.0, "completion": 1000.0}
    assert estimate_usd(panel_config(judge(price=price)), make_sample()) == pytest.approx(
        len(RAG_DIMENSIONS) * 120 * 1e-3
    )
    restricted = panel_config(judge(price=price, criteria=["clarity"], max_tokens=50), judge("other", price=price))
    assert estimate_usd(restricted, make_sample()) == pytest.approx((50 + len(RAG_DIMENSIONS) * 120) * 1e-3)


def test_a_criterion_that_does_not_apply_is_not_counted() -> None:
    config = panel_config(judge(price={"prompt": 0.0, "completion": 1000.0}))
    bare = SystematicSample()
    bare.add(Interaction(id="a", question="Is it open?", answer="It is."))
    assert estimate_usd(config, bare) == pytest.approx((len(RAG_DIMENSIONS) - 1) * 120 * 1e-3)


@pytest.mark.parametrize(
    ("method", "criteria", "calls"),
    [
        ("direct", ["rag"], 6),
        ("two_step", ["rag"], 12),  # an assessment and a choice for each
        ("aspect", ["aspects", "harmfulness"], 5),
        ("rubric", ["rag"], 1),  # clarity alone has five levels
        ("guardian", ["rag"], 1),  # harmfulness alone names a risk
    ],
)
def test_a_judge_is_estimated_by_the_prompts_of_its_method_for_the_criteria_it_can_judge(
    method: str, criteria: list[str], calls: int
) -> None:
    panel = [judge(price={"prompt": 1.0, "completion": 1000.0}, method=method), {"kind": "local"}]
    config = Config.model_validate({"judges": {"panel": panel, "quorum": 1}, "criteria": {"use": criteria}})
    completion_cost = calls * 120 * 1e-3
    assert completion_cost < estimate_usd(config, make_sample()) < 1.1 * completion_cost


def test_an_estimate_does_not_generate_the_persona_of_a_judge() -> None:
    assert estimate_usd(panel_config(judge(price=PRICED, persona="generate")), make_sample()) > 0


def test_a_judge_without_a_price_is_named() -> None:
    cost = estimate(panel_config(judge("paid", price=PRICED), judge("own")), make_sample(), Paid())
    assert cost.usd is not None
    assert cost.unpriced == ("own",)
    assert estimate(panel_config(judge("own")), make_sample(), Paid()).usd is None


def test_the_price_table_is_named_with_its_date() -> None:
    config = panel_config({"kind": "openai", "name": "mini", "model": "gpt-4o-mini", "preset": "openai"})
    assert (
        "mini 0.15 prompt and 0.6 completion (report as of 2026-04-13)" in estimate(config, make_sample(), Paid()).basis
    )


def test_enough_paid_evaluations_take_precedence_over_an_estimate_from_texts() -> None:
    paid = Paid()
    for _ in range(19):
        paid.add(0.5)
    paid.add(None)
    config = panel_config(judge(price=PRICED))
    assert "prompts for" in estimate(config, make_sample(10), paid).basis
    paid.add(0.5)
    cost = estimate(config, make_sample(10), paid)
    assert cost.usd == pytest.approx(5.0)
    assert cost.basis == "the mean of 20 evaluations with this fingerprint"


@given(st.integers(0, 3000))
def test_a_sample_is_small_and_evenly_spread(number: int) -> None:
    sample = make_sample(number, context="")
    indices = [int(chosen.id) for chosen in sample.kept]
    assert sample.seen == number
    assert min(number, 100) <= len(indices) <= 200
    assert len({later - earlier for earlier, later in pairwise(indices)}) <= 1


# Options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:100-200", (0, range(100, 201))),
        ("7:5-5", (7, range(5, 6))),
        ("1:-9", (1, range(10))),
    ],
)
def test_offsets_include_the_first_and_the_last(text: str, expected: tuple[int, range]) -> None:
    assert Offsets().convert(text, None, None) == expected


def test_offsets_may_be_open() -> None:
    partition, offsets = Offsets().convert("3:17-", None, None)
    assert (partition, offsets.start) == (3, 17)
    assert 2**62 in offsets


@pytest.mark.parametrize("text", ["", "0", "0:5", "a:1-2", "0:2-1", "-1:0-5", "0:1-2-3", "٣:1-2", "0: 1-2"])
def test_invalid_offsets_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"must have the form|ends before it starts"):
        Offsets().convert(text, None, None)


@given(st.dictionaries(st.integers(0, 99), st.tuples(st.integers(0, 10**12), st.integers(1, 10**6)), max_size=5))
def test_printed_offsets_are_valid_options(parts: dict[int, tuple[int, int]]) -> None:
    ranges = {partition: range(first, first + length) for partition, (first, length) in parts.items()}
    parsed = [Offsets().convert(text, None, None) for text in offsets_text(ranges).split()]
    assert dict(parsed) == ranges


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give a range"),
        (["--since", "1h", "--offsets", "0:1-2"], "cannot be combined with"),
        (["--since", "1h", "--until", "2h"], "must be after --since"),
        (["--offsets", "0:1-2", "--offsets", "0:5-6"], "names a partition twice"),
        (["--since", "1h", "--sample", "0"], "--sample"),
        (["--since", "1h", "--rate", "0"], "--rate"),
    ],
)
def test_invalid_options_are_refused_before_any_record_is_read(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(main, ["backfill", *arguments])
    assert result.exit_code == 2
    assert problem in result.stderr


def test_help_has_examples() -> None:
    result = CliRunner().invoke(main, ["backfill", "--help"])
    assert result.exit_code == 0
    assert "  streamjury backfill --config stricter.yaml --since 7d" in result.output
    assert max(map(len, result.output.splitlines())) <= 120


def test_a_missing_broker_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5)
    result = CliRunner(env={"STREAMJURY__KAFKA__BOOTSTRAP": "127.0.0.1:1"}).invoke(main, ["backfill", "--since", "1h"])
    assert result.exit_code == 3
    assert "no Kafka broker at 127.0.0.1:1" in result.stderr


# Reports


def survey(**overrides: Any) -> BackfillSurvey:
    counts = Counts(
        records=1300,
        chosen=1200,
        sampled_out=50,
        judged_before=40,
        repeats=7,
        bad=Counter(bad_json=3),
        named=["a\x1bb"],
    )
    fields: dict[str, Any] = {
        "ranges": {0: range(100, 201), 1: range(5, 5), 2: range(3)},
        "gone": 0,
        "counts": counts,
        "apps": Counter({"shop": 1150, "b\x1b[31mot": 50}),
        "todo": 1200,
        "estimate": CostEstimate(usd=1.234, basis="so and so", unpriced=("own",)),
        **overrides,
    }
    return BackfillSurvey(**fields)


def test_a_dry_run_reports_records_by_app_the_cost_with_its_basis_and_the_time() -> None:
    lines = list(survey_lines(survey(), rate=2.0))
    assert lines == [
        "offsets 0:100-200 2:0-2",
        "       1,300  records",
        "          50  sampled out",
        "          40  already judged with this fingerprint",
        "           7  duplicates of an id",
        "           3  unreadable: 3 bad_json",
        "                a b",
        "       1,200  to judge",
        "       1,150    shop",
        "          50    b [31mot",
        "expected cost about 1.23 USD (an estimate: so and so; without own, whose price is unknown)",
        "at 2 per second this takes at least 10 min 0 s",
    ]


def test_limits_and_deleted_offsets_are_reported_and_apps_beyond_twenty_are_added_up() -> None:
    apps = Counter({f"app-{number:02}": 1 for number in range(25)})
    lines = list(survey_lines(survey(apps=apps, todo=25, gone=9), rate=10.0))
    assert "           9  offsets no longer on the topic" in lines
    assert "          25  to judge, of 1,200" in lines
    assert "           5    other apps" in lines
    assert sum("app-" in line for line in lines) == 20


def test_the_survey_as_json_has_the_same_figures() -> None:
    document = survey_object(survey())
    assert json.loads(json.dumps(document)) == document
    assert (document["todo"], document["bad"], document["apps"]["shop"]) == (1200, {"bad_json": 3}, 1150)
    assert document["estimate"] == {"usd": 1.234, "basis": "so and so", "unpriced": ["own"]}


def test_the_result_reports_judged_and_postponed_records() -> None:
    result = BackfillResult(
        scored=1190,
        unscored=Counter(insufficient=8),
        put_off=Counter(timeout=2),
        failed=Counter(too_large=1),
        cost_usd=0.05,
    )
    assert result.published == 1198
    assert result.records == 1201
    assert list(result_lines(result, Counts(judged_before=40), 75.0)) == [
        "judged 1,198 (1,190 scored, 8 insufficient unscored), 0.05 USD, 1 min 15 s",
        "           2  postponed to the next run: 2 timeout",
        "           1  judged without a result: 1 too_large",
        "          40  already judged with this fingerprint",
    ]


def test_the_fingerprint_depends_on_the_configuration_only() -> None:
    """Evaluations of both configurations coexist, and a repeated run finds its own."""
    live, again = (build_evaluator(Config()).info.fingerprint for _ in range(2))
    other = build_evaluator(Config.model_validate({"composite": {"weights": {"groundedness": 3.0}}})).info.fingerprint
    assert live == again
    assert live != other
    assert evaluation_id("a", live) != evaluation_id("a", other)
