"""The backfill, as far as it goes without a broker: what is chosen, how fast, what it costs, and what is said."""

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


def selection(share: float = 1.0, known: Mapping[bytes, str] | None = None, **config: Any) -> Selection:
    return Selection(Config.model_validate(config), FINGERPRINT, share=share, known=known or {})


def ids_of(taken: Iterable[Selected | None]) -> list[str]:
    return [selected.submission.interaction.id for selected in taken if selected is not None]


def id_of(name: str) -> bytes:
    return uuid.UUID(evaluation_id(name, FINGERPRINT)).bytes


# Which records


def test_a_record_is_judged_in_a_lane_of_its_own_with_the_probability_it_was_chosen_with() -> None:
    selected = selection(0.999).take(message("a", app="shop"))
    assert selected is not None
    submission = selected.submission
    assert (submission.interaction.id, submission.interaction.app) == ("a", "shop")
    sampling = submission.sampling
    assert (sampling.probability, sampling.rule, sampling.lane) == (0.999, "backfill", "backfill")


def test_what_was_judged_under_the_fingerprint_and_what_comes_twice_is_left_out() -> None:
    chosen = selection(known={id_of("old"): UNKNOWN_CONTENT})
    taken = [chosen.take(message(name)) for name in ("old", "new", "new", "old", "other")]
    assert ids_of(taken) == ["new", "other"]
    counts = chosen.counts
    assert (counts.records, counts.chosen, counts.judged_before, counts.repeats) == (5, 2, 2, 1)


def test_another_content_of_the_same_id_is_judged_under_an_id_of_its_own() -> None:
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
    second_run = selection(known=published)
    taken = [second_run.take(message("a", answer=answer)) for answer in (*answers, "Perhaps.")]
    assert (second_run.counts.chosen, second_run.counts.judged_before) == (1, 4)
    assert taken[-1] is not None
    assert taken[-1].submission.interaction.id.startswith("a#")


@pytest.mark.parametrize("name", ["canary:a:1", f"a#{'0' * 32}"])
def test_ids_that_workers_refuse_are_not_judged(name: str) -> None:
    chosen = selection()
    assert chosen.take(message(name)) is None
    assert chosen.counts.bad == {"reserved_id": 1}


@given(st.floats(0.01, 1.0), st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=60))
def test_what_is_chosen_is_what_the_sampler_chooses_at_this_rate(share: float, names: list[str]) -> None:
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
def test_however_long_others_took_no_more_start_than_the_rate_allows(rate: float, delays: list[float]) -> None:
    """In any time, at most one more than the rate times the time, and one that was due before."""
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


def test_nobody_waits_longer_than_the_rate_asks() -> None:
    now = [0.0]
    pace = RateLimiter(4.0, lambda: now[0])
    for number in range(10):
        assert now[0] + pace.seconds == number / 4
        now[0] += pace.seconds
        pace.start()


# What it costs


def interaction(name: str = "a", context: str = "x" * 4000) -> Interaction:
    return Interaction(id=name, question="Is it open?", answer="It is open.", contexts=(Context(text=context),))


def judge(name: str = "large", **more: Any) -> dict[str, Any]:
    return {"kind": "openai", "name": name, "model": "house-model", "base_url": "https://judge.example/v1", **more}


def configured(*judges: dict[str, Any], **more: Any) -> Config:
    return Config.model_validate({"judges": {"panel": list(judges), **more}})


def sampled(number: int = 1, context: str = "x" * 4000) -> SystematicSample:
    sample = SystematicSample()
    for at in range(number):
        sample.add(interaction(str(at), context))
    return sample


def test_judges_without_a_model_cost_nothing() -> None:
    found = estimate(Config(), sampled(10), Paid())
    assert (found.usd, found.unpriced) == (0.0, ())


def usd(config: Config, sample: SystematicSample) -> float:
    found = estimate(config, sample, Paid()).usd
    assert found is not None
    return found


def test_the_estimate_grows_with_texts_samples_and_records_as_the_bill_does() -> None:
    config = configured(judge(price={"prompt": 1.0, "completion": 0.0}))
    base = usd(config, sampled())
    # Three of the six criteria show the contexts; four bytes a token, a dollar a million tokens.
    assert usd(config, sampled(context="x" * 8000)) - base == pytest.approx(3 * 1000 * 1e-6)
    assert usd(config, sampled(1000)) == pytest.approx(1000 * base)
    thrice = configured(judge(price={"prompt": 1.0, "completion": 0.0}, samples=3))
    assert usd(thrice, sampled()) == pytest.approx(3 * base)
    both_orders = configured(judge(price={"prompt": 1.0, "completion": 0.0}, check_position=True))
    assert usd(both_orders, sampled()) == pytest.approx(2 * base)


def test_what_is_written_is_counted_for_every_criterion_that_a_judge_is_kept_for() -> None:
    written = {"prompt": 0.0, "completion": 1000.0}
    assert usd(configured(judge(price=written)), sampled()) == pytest.approx(len(RAG_DIMENSIONS) * 120 * 1e-3)
    kept = configured(judge(price=written, criteria=["clarity"], max_tokens=50), judge("other", price=written))
    assert usd(kept, sampled()) == pytest.approx((50 + len(RAG_DIMENSIONS) * 120) * 1e-3)


def test_a_criterion_that_does_not_apply_is_not_asked_for() -> None:
    config = configured(judge(price={"prompt": 0.0, "completion": 1000.0}))
    bare = SystematicSample()
    bare.add(Interaction(id="a", question="Is it open?", answer="It is."))
    assert usd(config, bare) == pytest.approx((len(RAG_DIMENSIONS) - 1) * 120 * 1e-3)


@pytest.mark.parametrize(
    ("method", "criteria", "asked"),
    [
        ("direct", ["rag"], 6),
        ("two_step", ["rag"], 12),  # an assessment and a choice for each
        ("aspect", ["aspects", "harmfulness"], 5),
        ("rubric", ["rag"], 1),  # clarity alone has five levels
        ("guardian", ["rag"], 1),  # harmfulness alone names a risk
    ],
)
def test_a_judge_is_estimated_by_the_prompts_of_its_method_for_what_it_can_judge(
    method: str, criteria: list[str], asked: int
) -> None:
    panel = [judge(price={"prompt": 1.0, "completion": 1000.0}, method=method), {"kind": "local"}]
    config = Config.model_validate({"judges": {"panel": panel, "quorum": 1}, "criteria": {"use": criteria}})
    written = asked * 120 * 1e-3
    assert written < usd(config, sampled()) < 1.1 * written


def test_a_judge_that_describes_its_persona_first_is_not_asked_for_an_estimate() -> None:
    assert usd(configured(judge(price=PRICED, persona="generate")), sampled()) > 0


def test_a_judge_without_a_price_is_named() -> None:
    found = estimate(configured(judge("paid", price=PRICED), judge("own")), sampled(), Paid())
    assert found.usd is not None
    assert found.unpriced == ("own",)
    assert estimate(configured(judge("own")), sampled(), Paid()).usd is None


def test_the_table_of_prices_is_named_with_its_date() -> None:
    config = configured({"kind": "openai", "name": "mini", "model": "gpt-4o-mini", "preset": "openai"})
    assert "mini 0.15 prompt and 0.6 completion (report as of 2026-04-13)" in estimate(config, sampled(), Paid()).basis


def test_what_was_paid_for_the_same_work_is_worth_more_than_the_texts() -> None:
    paid = Paid()
    for _ in range(19):
        paid.add(0.5)
    paid.add(None)
    config = configured(judge(price=PRICED))
    assert "prompts for" in estimate(config, sampled(10), paid).basis
    paid.add(0.5)
    found = estimate(config, sampled(10), paid)
    assert found.usd == pytest.approx(5.0)
    assert found.basis == "the mean of 20 evaluations with this fingerprint"


@given(st.integers(0, 3000))
def test_a_sample_is_small_and_evenly_spread(number: int) -> None:
    sample = sampled(number, context="")
    kept = [int(found.id) for found in sample.kept]
    assert sample.seen == number
    assert min(number, 100) <= len(kept) <= 200
    assert len({later - earlier for earlier, later in pairwise(kept)}) <= 1


# What is asked for


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0:100-200", (0, range(100, 201))),
        ("7:5-5", (7, range(5, 6))),
        ("1:-9", (1, range(10))),
    ],
)
def test_offsets_are_from_the_first_up_to_and_with_the_last(text: str, found: tuple[int, range]) -> None:
    assert Offsets().convert(text, None, None) == found


def test_offsets_may_be_open() -> None:
    number, found = Offsets().convert("3:17-", None, None)
    assert (number, found.start) == (3, 17)
    assert 2**62 in found


@pytest.mark.parametrize("text", ["", "0", "0:5", "a:1-2", "0:2-1", "-1:0-5", "0:1-2-3", "٣:1-2", "0: 1-2"])
def test_what_are_no_offsets_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"must have the form|ends before it starts"):
        Offsets().convert(text, None, None)


@given(st.dictionaries(st.integers(0, 99), st.tuples(st.integers(0, 10**12), st.integers(1, 10**6)), max_size=5))
def test_offsets_that_are_told_can_be_asked_for(parts: dict[int, tuple[int, int]]) -> None:
    ranges = {number: range(first, first + length) for number, (first, length) in parts.items()}
    told = [Offsets().convert(text, None, None) for text in offsets_text(ranges).split()]
    assert dict(told) == ranges


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
def test_what_makes_no_sense_is_refused_before_anything_is_read(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(main, ["backfill", *arguments])
    assert result.exit_code == 2
    assert problem in result.stderr


def test_help_teaches_with_examples() -> None:
    result = CliRunner().invoke(main, ["backfill", "--help"])
    assert result.exit_code == 0
    assert "  streamjury backfill --config stricter.yaml --since 7d" in result.output
    assert max(map(len, result.output.splitlines())) <= 120


def test_without_a_broker_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5)
    result = CliRunner(env={"STREAMJURY__KAFKA__BOOTSTRAP": "127.0.0.1:1"}).invoke(main, ["backfill", "--since", "1h"])
    assert result.exit_code == 3
    assert "no Kafka broker at 127.0.0.1:1" in result.stderr


# What is said


def survey(**more: Any) -> BackfillSurvey:
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
        **more,
    }
    return BackfillSurvey(**fields)


def test_a_dry_run_tells_records_by_app_cost_with_its_basis_and_time() -> None:
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


def test_limits_and_what_is_gone_are_told_and_apps_beyond_twenty_added_up() -> None:
    apps = Counter({f"app-{number:02}": 1 for number in range(25)})
    lines = list(survey_lines(survey(apps=apps, todo=25, gone=9), rate=10.0))
    assert "           9  offsets no longer on the topic" in lines
    assert "          25  to judge, of 1,200" in lines
    assert "           5    other apps" in lines
    assert sum("app-" in line for line in lines) == 20


def test_a_survey_for_programs_has_the_same() -> None:
    found = survey_object(survey())
    assert json.loads(json.dumps(found)) == found
    assert (found["todo"], found["bad"], found["apps"]["shop"]) == (1200, {"bad_json": 3}, 1150)
    assert found["estimate"] == {"usd": 1.234, "basis": "so and so", "unpriced": ["own"]}


def test_the_end_tells_what_was_judged_and_what_was_not() -> None:
    done = BackfillResult(
        scored=1190,
        unscored=Counter(insufficient=8),
        put_off=Counter(timeout=2),
        failed=Counter(too_large=1),
        cost_usd=0.05,
    )
    assert done.published == 1198
    assert done.records == 1201
    assert list(result_lines(done, Counts(judged_before=40), 75.0)) == [
        "judged 1,198 (1,190 scored, 8 insufficient unscored), 0.05 USD, 1 min 15 s",
        "           2  postponed to the next run: 2 timeout",
        "           1  judged without a result: 1 too_large",
        "          40  already judged with this fingerprint",
    ]


def test_another_configuration_has_another_fingerprint_and_the_same_one_the_same() -> None:
    """Evaluations of both stand beside each other, and a run that is repeated finds its own."""
    live, again = (build_evaluator(Config()).info.fingerprint for _ in range(2))
    other = build_evaluator(Config.model_validate({"composite": {"weights": {"groundedness": 3.0}}})).info.fingerprint
    assert live == again
    assert live != other
    assert evaluation_id("a", live) != evaluation_id("a", other)
