"""The generated traffic: a realistic corpus, regimes true to their names, and the same bytes for the same seed."""

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.cli.demo import (
    MODELS,
    PLAN_NAMES,
    TENANTS,
    Corpus,
    CorpusError,
    Malformation,
    Plan,
    QuestionGroup,
    Regime,
    TrafficRecord,
    generate,
    load_corpus,
    make_record,
    plan,
)
from stream.cli.demo.corpus import Language
from stream.cli.demo.interaction import build
from stream.cli.demo.malformed import corrupt
from stream.cli.demo.regimes import DEGRADED_MIX, HEALTHY_MIX, SCENARIO

NOW = datetime(2026, 3, 14, 15, 9, 26, 535000, tzinfo=UTC)
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
WORD = re.compile(r"\w+")
VALID_REGIMES = [regime for regime in Regime if regime is not Regime.MALFORMED]
SEEDS = st.integers(min_value=0, max_value=2**64)

# Stems that a careless harm filter would act on.
ALARMING = re.compile(
    r"\b(kill|attack|dead|poison|hack|threat|weapon|fraud|danger|взлом|убить|убива|атак|насили|оружи|злоумышл|мошенн)",
    re.I,
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


def sources(group: QuestionGroup) -> str:
    return " ".join([group.question, *(passage.text for passage in group.contexts)])


def numbers(text: str) -> set[str]:
    return set(NUMBER.findall(text))


def stems(text: str) -> set[str]:
    """Return the first letters of the longer words, to match a word across English and Russian endings."""
    return {word.lower().replace("ё", "е")[:5] for word in WORD.findall(text) if len(word) >= 4}


def overlap(text: str, source: str) -> float:
    return len(stems(text) & stems(source)) / len(stems(text))


def factual_groups(corpus: Corpus) -> list[QuestionGroup]:
    return [group for group in corpus.groups if not group.smalltalk]


def answer_of(record: TrafficRecord) -> str:
    return str(json.loads(record.value)["answer"])


def make(corpus: Corpus, group: QuestionGroup, regime: Regime, seed: int) -> TrafficRecord:
    return make_record(corpus, group, regime, Random(seed), NOW)


def is_interaction(value: bytes) -> bool:
    try:
        parsed = json.loads(value)
    except ValueError:
        return False
    return isinstance(parsed, dict) and all(
        isinstance(parsed.get(name), str) and parsed[name] for name in ("id", "question", "answer")
    )


class TestCorpus:
    def test_covers_three_apps_and_two_languages_in_every_app(self, corpus: Corpus) -> None:
        assert corpus.apps == ("docs-search", "hr-assistant", "support-bot")
        assert len(corpus.groups) >= 48
        russian = Counter(group.app for group in corpus.groups if group.language == "ru")
        assert russian.total() >= 18
        assert min(russian[app] for app in corpus.apps) >= 5

    def test_ids_questions_and_answers_are_all_different(self, corpus: Corpus) -> None:
        for texts in (
            [group.id for group in corpus.groups],
            [group.question for group in corpus.groups],
            [group.answer for group in corpus.groups] + [group.hallucinated for group in corpus.groups],
        ):
            assert len(set(texts)) == len(texts)

    def test_texts_have_realistic_lengths(self, corpus: Corpus) -> None:
        for group in corpus.groups:
            assert 2 <= len(group.contexts) <= 4, group.id
            for passage in group.contexts:
                assert 40 <= len(passage.text.split()) <= 90, passage.id
        for group in factual_groups(corpus):
            assert 30 <= len(group.answer.split()) <= 80, group.id
            assert 30 <= len(group.hallucinated.split()) <= 80, group.id

    def test_about_a_third_of_the_questions_continue_a_conversation(self, corpus: Corpus) -> None:
        with_history = [group for group in corpus.groups if group.history]
        assert 0.25 <= len(with_history) / len(corpus.groups) <= 0.45

    def test_at_most_three_groups_are_smalltalk(self, corpus: Corpus) -> None:
        assert 1 <= len(corpus.groups) - len(factual_groups(corpus)) <= 3

    def test_language_is_the_language_of_the_text(self, corpus: Corpus) -> None:
        for group in corpus.groups:
            for text in (group.question, group.answer, group.hallucinated):
                assert bool(re.search("[а-яё]", text)) is (group.language == "ru"), group.id

    def test_every_number_in_a_good_answer_is_in_its_sources(self, corpus: Corpus) -> None:
        for group in corpus.groups:
            assert numbers(group.answer) <= numbers(sources(group)), group.id

    def test_hallucinated_answers_have_numbers_that_are_in_no_source(self, corpus: Corpus) -> None:
        for group in corpus.groups:
            invented = numbers(group.hallucinated)
            assert invented, group.id
            assert len(invented - numbers(sources(group))) / len(invented) > 0.5, group.id

    def test_good_answers_use_the_words_of_their_passages_and_hallucinated_ones_do_not(self, corpus: Corpus) -> None:
        for group in factual_groups(corpus):
            grounded, invented = overlap(group.answer, sources(group)), overlap(group.hallucinated, sources(group))
            assert grounded >= 0.6, group.id
            assert invented <= 0.35, group.id

    def test_good_answers_are_not_copied_from_one_passage(self, corpus: Corpus) -> None:
        for group in factual_groups(corpus):
            words = WORD.findall(group.answer.lower())
            runs = [" ".join(words[start : start + 4]) for start in range(len(words) - 3)]
            passages = " ".join(WORD.findall(" | ".join(passage.text for passage in group.contexts).lower()))
            assert sum(run in passages for run in runs) / len(runs) <= 0.5, group.id

    def test_harmless_answers_contain_words_that_sound_alarming(self, corpus: Corpus) -> None:
        alarming = [group for group in corpus.groups if ALARMING.search(group.answer)]
        assert len(alarming) >= 10
        assert {group.language for group in alarming} == {"en", "ru"}
        assert {group.app for group in alarming} == set(corpus.apps)

    @pytest.mark.parametrize("language", ["en", "ru"])
    def test_one_language_alone_has_questions_for_every_app(self, corpus: Corpus, language: Language) -> None:
        selection = corpus.in_language(language)
        assert {group.language for group in selection.groups} == {language}
        assert selection.apps == corpus.apps
        assert corpus.in_language("mixed").groups == corpus.groups

    def test_unsafe_texts_cover_every_category_in_both_languages(self, corpus: Corpus) -> None:
        categories = {"fraud", "malware", "medical", "privacy"}
        for phrases in corpus.phrases.values():
            assert len({text.text for text in phrases.unsafe}) >= 9
            assert {text.category for text in phrases.unsafe} == categories

    def test_phrases_around_an_answer_state_no_numbers(self, corpus: Corpus) -> None:
        for phrases in corpus.phrases.values():
            for text in (*phrases.openers, *phrases.closers, *phrases.padding, *phrases.repeats, *phrases.restatements):
                assert not numbers(text)


class TestLoader:
    GROUP: dict[str, Any] = {  # noqa: RUF012 copied before every change
        "id": "one",
        "app": "shop",
        "language": "en",
        "question": "Why?",
        "contexts": [{"id": "a", "text": "Because."}, {"id": "b", "text": "Therefore."}],
        "answer": "Because.",
        "hallucinated": "Never.",
    }

    def load(self, root: Path, groups: Any, file: str = "shop.yaml") -> Corpus:
        (root / "corpus").mkdir()
        (root / "corpus" / file).write_text(yaml.safe_dump(groups), encoding="utf-8")
        phrases = {name: ["x"] for name in ("openers", "closers", "restatements", "repeats", "padding")}
        section = {**phrases, "unsafe": [{"category": "fraud", "text": "x"}]}
        (root / "phrases.yaml").write_text(yaml.safe_dump({"en": section, "ru": section}), encoding="utf-8")
        return load_corpus(root)

    def test_a_correct_file_is_read(self, tmp_path: Path) -> None:
        loaded = self.load(tmp_path, [self.GROUP])
        assert [group.id for group in loaded.groups] == ["one"]
        assert loaded.groups[0].history == []

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"answr": "typo"}, "answr: Extra inputs are not permitted"),
            ({"language": "de"}, "language: Input should be 'en' or 'ru'"),
            ({"answer": " "}, "answer: String should match pattern"),
            ({"answer": 17}, "answer: Input should be a valid string"),
            ({"contexts": []}, "contexts: List should have at least 2 items"),
            ({"contexts": [{"id": "a"}, {"id": "b", "text": "t"}]}, r"contexts\.0\.text: Field required"),
            ({"history": [{"role": "system", "text": "t"}]}, r"history\.0\.role: Input should be"),
            ({"app": "other"}, r"app: 'other' belongs in other\.yaml"),
        ],
    )
    def test_an_error_is_reported_with_file_and_group(
        self, tmp_path: Path, change: dict[str, Any], complaint: str
    ) -> None:
        with pytest.raises(CorpusError, match=rf"^shop\.yaml: group one: .*{complaint}"):
            self.load(tmp_path, [{**self.GROUP, **change}])

    def test_a_group_without_id_is_named_by_its_position(self, tmp_path: Path) -> None:
        nameless = {name: value for name, value in self.GROUP.items() if name != "id"}
        with pytest.raises(CorpusError, match=r"^shop\.yaml: group number 2: id: Field required"):
            self.load(tmp_path, [self.GROUP, nameless])

    @pytest.mark.parametrize("field", ["id", "question"])
    def test_two_groups_may_not_share_an_id_or_a_question(self, tmp_path: Path, field: str) -> None:
        second = {**self.GROUP, "id": "two", "question": "How?", field: self.GROUP[field]}
        with pytest.raises(CorpusError, match=rf"group {second['id']}: {field}: "):
            self.load(tmp_path, [self.GROUP, second])

    @pytest.mark.parametrize("content", ["just text", {"id": "one"}, ["text"]])
    def test_anything_but_a_list_of_groups_is_refused(self, tmp_path: Path, content: Any) -> None:
        with pytest.raises(CorpusError, match=r"^shop\.yaml: "):
            self.load(tmp_path, content)

    def test_a_file_that_is_not_yaml_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "corpus").mkdir()
        (tmp_path / "corpus" / "shop.yaml").write_text("a: [1, 2", encoding="utf-8")
        with pytest.raises(CorpusError, match=r"^shop\.yaml: not YAML"):
            load_corpus(tmp_path)


class TestRecord:
    @pytest.mark.parametrize("regime", VALID_REGIMES)
    def test_the_value_is_an_interaction_labelled_with_its_regime(self, corpus: Corpus, regime: Regime) -> None:
        for seed, group in enumerate(corpus.groups):
            record = make(corpus, group, regime, seed)
            parsed = json.loads(record.value)
            assert is_interaction(record.value)
            assert record.key.decode() == parsed["id"]
            assert re.fullmatch(r"sj-[0-9a-f]{16}", parsed["id"])
            assert parsed["app"] == group.app
            assert parsed["question"] == group.question
            assert parsed["history"] == [turn.model_dump() for turn in group.history]
            assert parsed["tags"] == {"regime": regime.value, "language": group.language, "group": group.id}
            assert record.regime is regime
            assert record.headers == (("regime", regime.value.encode()),)

    def test_the_time_is_rfc_3339_in_utc(self, corpus: Corpus) -> None:
        elsewhere = NOW.astimezone(timezone(timedelta(hours=3)))
        for now in (NOW, elsewhere):
            record = make_record(corpus, corpus.groups[0], Regime.HEALTHY, Random(1), now)
            assert json.loads(record.value)["timestamp"] == "2026-03-14T15:09:26.535Z"

    def test_a_time_without_zone_is_refused(self, corpus: Corpus) -> None:
        with pytest.raises(ValueError, match="time zone"):
            make_record(corpus, corpus.groups[0], Regime.HEALTHY, Random(1), NOW.replace(tzinfo=None))

    @given(seed=SEEDS)
    def test_the_traceparent_is_valid(self, corpus: Corpus, seed: int) -> None:
        traceparent = json.loads(make(corpus, corpus.groups[0], Regime.HEALTHY, seed).value)["traceparent"]
        match = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01", traceparent)
        assert match
        assert all(int(part, 16) for part in match.groups())

    @given(seed=SEEDS)
    def test_contexts_are_the_passages_of_the_group_with_the_best_score_first(self, corpus: Corpus, seed: int) -> None:
        group = corpus.groups[seed % len(corpus.groups)]
        contexts = json.loads(make(corpus, group, Regime.HEALTHY, seed).value)["contexts"]
        assert {(context["id"], context["text"]) for context in contexts} == {(p.id, p.text) for p in group.contexts}
        scores = [context["score"] for context in contexts]
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score < 1 for score in scores)


class TestRegimes:
    def test_healthy_answers_are_the_good_answer_with_small_variations(self, corpus: Corpus) -> None:
        for group in corpus.groups:
            answers = {answer_of(make(corpus, group, Regime.HEALTHY, seed)) for seed in range(40)}
            assert all(group.answer in answer for answer in answers)
            assert max(len(answer) for answer in answers) <= len(group.answer) + 80
            assert answers == {group.answer} if group.smalltalk else len(answers) >= 8

    def test_hallucinating_answers_are_the_hallucinated_one(self, corpus: Corpus) -> None:
        for group in corpus.groups:
            assert answer_of(make(corpus, group, Regime.HALLUCINATING, 1)) == group.hallucinated != group.answer

    @given(seed=SEEDS)
    @settings(deadline=None, max_examples=25)
    def test_verbose_answers_bury_the_good_one_in_four_to_eight_times_its_length(
        self, corpus: Corpus, seed: int
    ) -> None:
        for group in corpus.groups:
            answer = answer_of(make(corpus, group, Regime.VERBOSE, seed))
            assert 4 <= len(answer) / len(group.answer) <= 8, group.id
            assert group.answer in answer
            assert group.question in answer
            assert "{" not in answer.replace(group.question, "").replace(group.answer, "")

    @given(seed=SEEDS)
    @settings(deadline=None, max_examples=25)
    def test_off_topic_answers_belong_to_another_app_in_the_same_language(self, corpus: Corpus, seed: int) -> None:
        owners = {group.answer: group for group in corpus.groups}
        for group in corpus.groups:
            owner = owners[answer_of(make(corpus, group, Regime.OFF_TOPIC, seed))]
            assert owner.id != group.id
            assert owner.app != group.app
            assert owner.language == group.language
            assert not owner.smalltalk

    def test_unsafe_answers_end_in_harm_and_some_begin_harmlessly(self, corpus: Corpus) -> None:
        for group in corpus.groups:
            harm = tuple(text.text for text in corpus.phrases[group.language].unsafe)
            answers = [answer_of(make(corpus, group, Regime.UNSAFE, seed)) for seed in range(60)]
            assert all(answer.endswith(harm) for answer in answers)
            assert 0 < sum(answer.startswith(group.answer) for answer in answers) < len(answers) / 2

    @pytest.mark.parametrize("kind", Malformation)
    def test_no_malformed_value_is_an_interaction(self, corpus: Corpus, kind: Malformation) -> None:
        for seed in range(100):
            rng = Random(seed)
            group = rng.choice(corpus.groups)
            intact = build(group, group.answer, Regime.MALFORMED.value, rng, NOW)
            assert not is_interaction(corrupt(intact, kind, rng))

    def test_malformed_values_are_broken_in_the_way_their_header_says(self, corpus: Corpus) -> None:
        values: dict[str, bytes] = {}
        for seed in range(200):
            record = make(corpus, corpus.groups[0], Regime.MALFORMED, seed)
            headers = dict(record.headers)
            assert headers["regime"] == b"malformed"
            values[headers["malformation"].decode()] = record.value
        assert set(values) == set(Malformation)
        assert values["empty"] == b""
        assert isinstance(json.loads(values["array"]), list)
        assert "id" not in json.loads(values["missing-id"])
        assert "question" not in json.loads(values["missing-question"])
        assert not isinstance(json.loads(values["wrong-type"])["answer"], str)
        assert values["duplicate-key"].count(b'"id":"sj-') == 1
        assert b"[" * 200 in values["deep-nesting"]
        assert b"INFO" in values["log-line"]
        assert values["truncated"].startswith(b"{")
        with pytest.raises(UnicodeDecodeError):
            values["broken-utf8"].decode()


class TestPlan:
    def test_there_is_a_plan_for_each_regime_and_the_scenario(self) -> None:
        assert PLAN_NAMES == (
            "healthy",
            "hallucinating",
            "verbose",
            "off-topic",
            "unsafe",
            "bad-retrieval",
            "malformed",
            "scenario",
        )

    def test_mixes_and_phases_add_up_to_one(self) -> None:
        for mix in (HEALTHY_MIX, DEGRADED_MIX):
            assert sum(mix.values()) == pytest.approx(1)
            assert set(mix) == set(Regime) - {Regime.BAD_RETRIEVAL}
        assert sum(phase.share for phase in SCENARIO) == pytest.approx(1)

    @pytest.mark.parametrize("regime", Regime)
    def test_the_plan_of_a_regime_has_only_that_regime(self, regime: Regime) -> None:
        rng = Random(1)
        single = plan(regime.value, seconds=10)
        assert {single.regime_at(t / 7, "support-bot", rng) for t in range(200)} == {regime}

    @pytest.mark.parametrize(
        ("elapsed", "phase"),
        [
            (0, "healthy"),
            (39.9, "healthy"),
            (40, "drop"),
            (69.9, "drop"),
            (70, "recovery"),
            (99.9, "recovery"),
            (100, "healthy"),
            (145, "drop"),
            (1_000_070, "recovery"),
        ],
    )
    def test_the_scenario_is_healthy_then_drops_then_recovers_and_repeats(self, elapsed: float, phase: str) -> None:
        assert plan("scenario", seconds=100).phase_at(elapsed).name == phase

    @given(elapsed=st.floats(allow_nan=False, allow_infinity=False), seconds=st.floats(1e-3, 1e9), seed=SEEDS)
    def test_every_moment_has_a_regime(self, elapsed: float, seconds: float, seed: int) -> None:
        assert plan("scenario", seconds=seconds).regime_at(elapsed, "docs-search", Random(seed)) in set(Regime)

    def test_the_drop_affects_the_support_bot_only(self) -> None:
        for phase in SCENARIO:
            for app in ("docs-search", "hr-assistant", "support-bot"):
                degraded = phase.name == "drop" and app == "support-bot"
                assert phase.mix_for(app) == (DEGRADED_MIX if degraded else HEALTHY_MIX)

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
    def test_an_invalid_period_is_refused(self, seconds: float) -> None:
        with pytest.raises(ValueError, match="seconds"):
            plan("scenario", seconds=seconds)

    def test_an_unknown_plan_is_refused_with_the_known_names(self) -> None:
        with pytest.raises(ValueError, match=r"'helthy'.*healthy, hallucinating.*scenario"):
            plan("helthy", seconds=10)


def run(corpus: Corpus, chosen: Plan, seed: int, count: int, step: float = 1.0) -> list[TrafficRecord]:
    traffic = generate(corpus, chosen, seed=seed)
    return [traffic.record(i * step, NOW + timedelta(seconds=i * step)) for i in range(count)]


class TestTraffic:
    @given(seed=SEEDS, name=st.sampled_from(PLAN_NAMES))
    @settings(deadline=None, max_examples=40)
    def test_the_same_seed_and_times_give_the_same_bytes(self, corpus: Corpus, seed: int, name: str) -> None:
        chosen = plan(name, seconds=20)
        assert run(corpus, chosen, seed, 20) == run(deep_copy(corpus), chosen, seed, 20)

    @given(seed=SEEDS)
    @settings(deadline=None, max_examples=20)
    def test_another_seed_gives_other_records(self, corpus: Corpus, seed: int) -> None:
        chosen = plan("healthy", seconds=20)
        assert not {r.key for r in run(corpus, chosen, seed, 5)} & {r.key for r in run(corpus, chosen, seed + 1, 5)}

    def test_a_long_run_uses_every_group_model_and_tenant_and_repeats_no_id(self, corpus: Corpus) -> None:
        records = run(corpus, plan("healthy", seconds=60), seed=7, count=1500)
        parsed = [json.loads(record.value) for record in records]
        assert {record["tags"]["group"] for record in parsed} == {group.id for group in corpus.groups}
        assert {record["model"] for record in parsed} == set(MODELS)
        assert {record["tenant"] for record in parsed} == set(TENANTS)
        assert (len(MODELS), len(TENANTS)) == (3, 4)
        assert len({record.key for record in records}) == len(records)

    def test_the_scenario_degrades_the_support_bot_in_the_drop_and_nothing_else(self, corpus: Corpus) -> None:
        traffic = generate(corpus, plan("scenario", seconds=100), seed=3)
        bad: Counter[tuple[str, bool]] = Counter()
        total: Counter[tuple[str, bool]] = Counter()
        for i in range(4000):
            record = traffic.record(i / 40, NOW)
            if record.regime is not Regime.MALFORMED:
                series = (json.loads(record.value)["app"], 40 <= i / 40 < 70)
                total[series] += 1
                bad[series] += record.regime is not Regime.HEALTHY
        shares = {series: bad[series] / count for series, count in total.items()}
        assert len(shares) == 6
        assert shares.pop(("support-bot", True)) > 0.7
        assert max(shares.values()) < 0.2


def deep_copy(corpus: Corpus) -> Corpus:
    """Return an equal corpus made of other objects, so that no result depends on identity or leftover state."""
    return Corpus(groups=tuple(g.model_copy(deep=True) for g in corpus.groups), phrases=dict(corpus.phrases))
