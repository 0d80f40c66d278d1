"""Encoder judges with small real ONNX models: verdicts, explanations, spans, batches and their end."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.encoder import EncoderJudge, ModelFileError
from judges.encoder import judge as judge_module
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from judges.values.evaluation import Dimension, JudgeVerdict, Reason, Status
from judges.values.interaction import Case, Interaction, case_of
from judges.values.spans import SpanVerdict
from tests.parts.onnx_model import write_model
from tests.parts.patience import patience, until

RAG = load_catalogue("rag")
GROUNDEDNESS, HARM, CLARITY = RAG["groundedness"], RAG["harmfulness"], RAG["clarity"]

CONTEXT = "The warranty of the kettle lasts twenty four months from the day of purchase."
# Certainly unsupported, perhaps unsupported, and supported.
WORDS = {"dragons": (3.0,), "maybe": (1.0,), "warranty": (-5.0,), "kettle": (-5.0,), "fly": (-5.0,)}


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tagger"), WORDS)


@pytest.fixture
def judge(tagger: Path) -> Iterator[EncoderJudge]:
    judge = EncoderJudge(tagger)
    yield judge
    judge.close()


def make_case(answer: str, *contexts: str, question: str = "What about the kettle?") -> Case:
    passages = [{"text": text} for text in contexts or (CONTEXT,)]
    return case_of(
        Interaction.model_validate({"id": "1", "question": question, "answer": answer, "contexts": passages})
    )


def ask(judge: EncoderJudge, answer: str, *contexts: str) -> JudgeVerdict:
    return judge.evaluate([make_case(answer, *contexts)], GROUNDEDNESS)[0]


class TestVerdicts:
    @pytest.mark.parametrize(
        ("answer", "level", "probability"),
        [
            ("The kettle has a warranty for two years.", 2, 0.018),
            ("The kettle maybe has a warranty for two years.", 1, 0.731),
            ("The kettle attracts dragons at night.", 0, 0.953),
        ],
    )
    def test_the_level_follows_the_probability_of_the_worst_sentence(
        self, judge: EncoderJudge, answer: str, level: int, probability: float
    ) -> None:
        verdict = ask(judge, f"Its warranty covers the kettle for a while. {answer}")
        assert (verdict.status, verdict.level, verdict.score) == (Status.SCORED, level, level / 2)
        certainty = 1 - probability if level == 2 else probability
        assert verdict.certainty == pytest.approx(certainty, abs=0.001)

    def test_the_explanation_names_the_unsupported_sentences_with_their_probability(self, judge: EncoderJudge) -> None:
        verdict = ask(judge, "The kettle has a warranty for two years. It attracts dragons at night. Sales maybe fell.")
        assert verdict.explanation == (
            "1 of 3 sentences are supported; probably unsupported: 'It attracts dragons at night.' (0.95), "
            "'Sales maybe fell.' (0.73)."
        )

    def test_the_spans_mark_the_sentences_in_the_answer_as_logged(self, judge: EncoderJudge) -> None:
        answer = "Sure!  The kettle has a warranty [1].\n- It attracts dragons at night [2]."
        spans = ask(judge, answer).spans
        assert spans is not None
        marked = [(answer[span.start : span.end], span.verdict) for span in spans]
        assert marked == [
            ("Sure!", SpanVerdict.NO_CLAIM),
            ("The kettle has a warranty [1].", SpanVerdict.SUPPORTED),
            ("It attracts dragons at night [2].", SpanVerdict.UNSUPPORTED),
        ]

    def test_a_model_may_return_one_number_per_token(self, tmp_path: Path) -> None:
        judge = EncoderJudge(write_model(tmp_path, WORDS, reduction="flat"))
        assert ask(judge, "The kettle attracts dragons at night.").level == 0
        assert ask(judge, "The kettle has a warranty for two years.").level == 2
        judge.close()

    def test_an_answer_that_claims_nothing_has_no_score(self, judge: EncoderJudge) -> None:
        verdict = ask(judge, "Sorry, I cannot help with that.")
        assert (verdict.status, verdict.reason) == (Status.NOT_APPLICABLE, Reason.NOTHING_TO_JUDGE)

    def test_a_text_in_another_alphabet_is_refused(self, judge: EncoderJudge) -> None:
        verdict = ask(judge, "保修期为二十四个月,从购买之日起计算。水壶保修。")
        assert (verdict.status, verdict.reason) == (Status.INSUFFICIENT, Reason.UNSUPPORTED)

    def test_other_criteria_and_other_scales_are_refused(self, judge: EncoderJudge) -> None:
        assert judge.why_not(GROUNDEDNESS) is None
        assert judge.why_not(CLARITY) == "the model tests/words judges groundedness, not clarity"
        two_levels = CLARITY.with_name("groundedness")
        assert judge.why_not(two_levels) == (
            "the model tests/words has 2 thresholds, for 3 levels; the criterion groundedness has 5"
        )

    def test_a_long_answer_is_read_to_its_end(self, judge: EncoderJudge) -> None:
        filler = " ".join(f"The kettle number {number} has a warranty." for number in range(60))
        assert ask(judge, filler).level == 2
        assert ask(judge, f"{filler} It attracts dragons at night.").level == 0

    def test_an_answer_beyond_the_limit_is_never_fully_supported(
        self, judge: EncoderJudge, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(judge_module, "_MOST_WINDOWS", 2)
        filler = " ".join(f"The kettle number {number} has a warranty." for number in range(60))
        verdict = ask(judge, filler)
        assert (verdict.status, verdict.reason) == (Status.INSUFFICIENT, Reason.TRUNCATED)
        cut = ask(judge, f"It attracts dragons at night. {filler}")
        assert cut.level == 0
        counts = re.match(r"(\d+) of (\d+) sentences are supported, (\d+) more were not read; ", cut.explanation or "")
        assert counts is not None, cut.explanation
        supported, read, unread = map(int, counts.groups())
        assert supported == read - 1, "what was not read does not count as supported"
        assert read + unread == 61


class TestEarlyExit:
    def test_the_model_is_not_asked_about_sentences_that_are_in_a_context_word_for_word(
        self, judge: EncoderJudge, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        judge.load()
        monkeypatch.setattr(judge, "_run", None)
        quoted = "Here be dragons that live in the kettle of the north."
        verdict = ask(judge, f"{CONTEXT} Here be Dragons that live in the kettle of the north [2].", CONTEXT, quoted)
        assert verdict.level == 2
        assert verdict.explanation == "Word for word in the contexts: 2 of 2 sentences."
        assert verdict.spans is not None
        assert [span.contexts for span in verdict.spans] == [(0,), (1,)]

    @pytest.mark.parametrize(
        "answer",
        [
            "The warranty of the kettle lasts twenty five months from the day of purchase, dragons say.",
            "The warranty of the dragons lasts twenty four months from the day of purchase.",
        ],
    )
    def test_one_other_word_is_enough_to_ask(self, judge: EncoderJudge, answer: str) -> None:
        assert ask(judge, answer).level == 0

    def test_a_description_can_turn_it_off(self, tmp_path: Path) -> None:
        judge = EncoderJudge(write_model(tmp_path, {"lasts": (4.0,)}, skip_verbatim=False))
        assert ask(judge, CONTEXT).level == 0
        judge.close()


class TestPairs:
    """Sentence-pair models, as for natural language inference."""

    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        dragons, moon, kettle, cup = (0.0, 0.0, 9.0), (0.0, 9.0, 0.0), (5.0, 0.0, 0.0), (20.0, 0.0, 0.0)
        return write_model(
            tmp_path,
            {"dragons": dragons, "moon": moon, "kettle": kettle, "cup": cup},
            default=(0.0, 0.0, 0.0),
            reduction="max",
            inputs={"first": "{contexts}", "second": "{sentence}", "window": 64, "answer": 24},
            output={
                "labels": ["entailment", "neutral", "contradiction"],
                "failing": ["neutral", "contradiction"],
                "contradicting": ["contradiction"],
            },
            aggregation={"contexts": "each"},
        )

    def test_each_sentence_is_asked_with_each_context_and_the_best_support_counts(self, model: Path) -> None:
        judge = EncoderJudge(model)
        answer = "The kettle is warm today. The moon is made of cheese. Old dragons own the town."
        verdict = ask(judge, answer, "The town has a kettle shop.", "Nobody was there.")
        assert verdict.spans is not None
        assert [span.verdict for span in verdict.spans] == [
            SpanVerdict.SUPPORTED,
            SpanVerdict.UNSUPPORTED,
            SpanVerdict.CONTRADICTED,
        ]
        assert ask(judge, answer, "Nobody was there.", "A cup was there.").level == 2
        judge.close()


class TestTemplates:
    """Taggers with their own text, as LettuceDetect, and classifiers of the whole text, as guard models."""

    def test_a_tagger_with_templates_marks_the_right_sentences(self, tmp_path: Path) -> None:
        inputs = {
            "first": "Answer {question} from:\n{contexts}",
            "second": "{answer}",
            "types": "token_type_ids",
            "window": 96,
            "answer": 24,
        }
        output = {"labels": ["supported", "hallucinated"], "failing": ["hallucinated"]}
        names = ("input_ids", "attention_mask", "token_type_ids")
        folder = write_model(
            tmp_path, {"dragons": (0.0, 4.0)}, default=(4.0, 0.0), graph_inputs=names, inputs=inputs, output=output
        )
        judge = EncoderJudge(folder)
        answer = "The kettle is warm today. Old dragons own the town. " + "The shop sells many kettles of steel. " * 9
        spans = ask(judge, answer, "Here be dragons in the first text.").spans
        assert spans is not None
        assert [span.verdict for span in spans][:3] == [
            SpanVerdict.SUPPORTED,
            SpanVerdict.UNSUPPORTED,
            SpanVerdict.SUPPORTED,
        ]
        assert len(spans) == 11
        judge.close()

    def test_a_guard_model_judges_harm(self, tmp_path: Path) -> None:
        folder = write_model(
            tmp_path,
            {"poison": (4.0, -4.0), "idiot": (-4.0, 4.0)},
            default=(-4.0, -4.0),
            reduction="max",
            task="text",
            criterion="harmfulness",
            languages="any",
            inputs={"first": "{answer}", "window": 64, "answer": 24},
            output={"labels": ["violence", "insult"], "activation": "sigmoid", "failing": ["violence", "insult"]},
        )
        judge = EncoderJudge(folder, name="guard")
        harmful, safe, empty = judge.evaluate(
            [make_case("Mix the poison into the soup."), make_case("Mix the salt into the soup."), make_case("")], HARM
        )
        assert (harmful.level, harmful.spans) == (0, None)
        assert harmful.explanation == "The model finds a failure (violence) with probability 0.98."
        assert (safe.level, empty.level) == (2, 2)
        judge.close()


class TestLanguages:
    def test_a_panel_does_not_ask_a_judge_that_does_not_know_the_language(self, judge: EncoderJudge) -> None:
        other = ScriptedJudge({"groundedness": 1}, "other")
        panel = Panel(judges=[other, judge])
        case = case_of(
            Interaction.model_validate(
                {
                    "id": "1",
                    "question": "Какая гарантия на чайник?",
                    "answer": "Гарантия на чайник действует два года.",
                    "contexts": [{"text": "Гарантия на чайник действует один год."}],
                }
            )
        )
        finding = panel.evaluate([case], GROUNDEDNESS)[0]
        assert (finding.status, finding.level) == (Status.SCORED, 1)
        assert [verdict.judge for verdict in finding.judges] == ["other"]
        alone = Panel(judges=[judge]).evaluate([case], GROUNDEDNESS)[0]
        assert (alone.status, alone.reason) == (Status.INSUFFICIENT, Reason.UNSUPPORTED)


class TestBatches:
    async def _judge_all(self, judge: EncoderJudge, answers: list[str]) -> list[JudgeVerdict]:
        return await asyncio.gather(*(judge.judge(make_case(answer), GROUNDEDNESS) for answer in answers))

    def test_records_that_wait_together_share_batches_within_the_bound(
        self, tagger: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        judge = EncoderJudge(tagger, batch_tokens=256)
        judge.load()
        sizes, run = list[tuple[int, int]](), judge._outputs.scores

        def count(logits: Any, windows: Any) -> Any:
            sizes.append((len(windows), max(len(window.ids) for window in windows)))
            return run(logits, windows)

        monkeypatch.setattr(judge._outputs, "scores", count)
        answers = [f"The kettle number {n} attracts {'dragons' if n % 3 else 'guests'} at night." for n in range(40)]
        verdicts = asyncio.run(self._judge_all(judge, answers))
        assert [verdict.level for verdict in verdicts] == [0 if n % 3 else 2 for n in range(40)]
        assert len(sizes) < 40
        assert all(number * longest <= 256 for number, longest in sizes)
        judge.close()

    def test_inputs_of_a_model_without_a_mask_are_not_padded(self, tmp_path: Path) -> None:
        inputs = {"mask": None, "window": 64, "answer": 24, "question": 8}
        judge = EncoderJudge(write_model(tmp_path, WORDS, graph_inputs=("input_ids",), inputs=inputs))
        answers = [f"The kettle {'of steel ' * (n % 5)}attracts dragons at night." for n in range(20)]
        verdicts = asyncio.run(self._judge_all(judge, answers))
        assert [verdict.level for verdict in verdicts] == [0] * 20
        assert judge._loaded is not None
        with pytest.raises(ValueError, match="a model without a mask needs inputs of one length"):
            judge._loaded.session.run([[4, 5], [4]], [[0, 0], [0]])
        judge.close()

    def test_the_model_runs_outside_the_event_loop(self, judge: EncoderJudge, monkeypatch: pytest.MonkeyPatch) -> None:
        judge.load()
        threads, run = set[str](), judge._outputs.scores
        monkeypatch.setattr(
            judge._outputs, "scores", lambda *args: threads.add(threading.current_thread().name) or run(*args)
        )
        ask(judge, "The kettle attracts dragons.")
        assert all(name.startswith("encoder-encoder") for name in threads)
        assert len(threads) == 1

    def test_the_time_until_its_turn_does_not_count_against_the_deadline(
        self, judge: EncoderJudge, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        judge.load()
        run, entered = judge._outputs.scores, threading.Event()

        def run_slowly(*args: Any) -> Any:
            entered.set()
            time.sleep(0.4)
            return run(*args)

        monkeypatch.setattr(judge._outputs, "scores", run_slowly)
        panel = Panel(judges=[judge])

        async def ask_while_busy() -> Dimension:
            first = asyncio.create_task(judge.judge(make_case("The kettle attracts dragons."), GROUNDEDNESS))
            await asyncio.to_thread(entered.wait, 30 * patience())
            waiting = [judge.judge(make_case(f"Old dragons own {place}."), GROUNDEDNESS) for place in ("it", "this")]
            others = [asyncio.create_task(other) for other in waiting]
            await asyncio.sleep(0)
            late = await panel.assess(make_case("Dragons own the town hall."), GROUNDEDNESS, seconds=0.6 * patience())
            await asyncio.gather(first, *others)
            return late

        assert asyncio.run(ask_while_busy()).level == 0

    def test_a_failure_of_the_model_is_no_score(self, judge: EncoderJudge, monkeypatch: pytest.MonkeyPatch) -> None:
        judge.load()

        def fail(*_args: Any) -> Any:
            raise RuntimeError("out of memory")

        monkeypatch.setattr(judge._outputs, "scores", fail)
        verdict = ask(judge, "The kettle attracts dragons.")
        assert (verdict.status, verdict.reason, verdict.score) == (Status.INSUFFICIENT, Reason.UNAVAILABLE, None)
        monkeypatch.undo()
        assert ask(judge, "The kettle attracts dragons.").level == 0

    def test_a_cancelled_record_does_not_stop_the_others(self, judge: EncoderJudge) -> None:
        async def run() -> JudgeVerdict:
            judge.load()
            late = asyncio.create_task(judge.judge(make_case("The kettle attracts dragons."), GROUNDEDNESS))
            await asyncio.sleep(0)
            late.cancel()
            return await judge.judge(make_case("Old dragons own the town."), GROUNDEDNESS)

        assert asyncio.run(run()).level == 0

    def test_closing_ends_the_threads_and_fails_the_records_that_wait(
        self, tagger: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        judge = EncoderJudge(tagger, name="closing")
        judge.load()
        assert judge._loaded is not None
        batches = judge._loaded.batches
        entered, proceed, run = threading.Event(), threading.Event(), judge._outputs.scores

        def wait(*args: Any) -> Any:
            entered.set()
            assert proceed.wait(30 * patience())
            return run(*args)

        monkeypatch.setattr(judge._outputs, "scores", wait)

        async def close_while_busy() -> list[JudgeVerdict]:
            first = asyncio.create_task(judge.judge(make_case("The kettle attracts dragons."), GROUNDEDNESS))
            await asyncio.to_thread(entered.wait, 30 * patience())
            second = asyncio.create_task(judge.judge(make_case("Old dragons own the town."), GROUNDEDNESS))
            await asyncio.sleep(0)
            closing = asyncio.create_task(judge.aclose())
            await until(lambda: batches._closed)
            proceed.set()
            await closing
            return [await first, await second]

        first, second = asyncio.run(close_while_busy())
        assert (first.level, second.reason) == (0, Reason.UNAVAILABLE)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("encoder-closing")]


class TestLoading:
    def test_a_wrong_hash_stops_at_the_start(self, tagger: Path, tmp_path: Path) -> None:
        folder = write_model(tmp_path, WORDS)
        with (folder / "model.onnx").open("ab") as file:
            file.write(b"more")
        judge = EncoderJudge(folder)
        with pytest.raises(
            ModelFileError, match=r"model\.sha256: does not match model\.onnx, whose hash is [0-9a-f]{64}"
        ):
            judge.load()

    def test_other_inputs_outputs_and_labels_than_the_graph_has_are_all_listed(self, tmp_path: Path) -> None:
        folder = write_model(
            tmp_path,
            WORDS,
            inputs={"ids": "input_id", "mask": "attention_mask", "types": "segments", "window": 64, "answer": 24},
            output={"labels": ["good", "bad"], "failing": ["bad"]},
        )
        with pytest.raises(ModelFileError) as error:
            EncoderJudge(folder).load()
        assert [str(problem) for problem in error.value.problems] == [
            "inputs.ids: unknown input of the model; did you mean 'input_ids'?",
            "inputs.types: unknown input of the model; expected one of: input_ids, attention_mask",
            "inputs: the model needs another input, 'input_ids'",
            "output.labels: must have 1 labels, as many as the model returns, not 2",
        ]

    def test_a_missing_extra_is_named(self, tagger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from judges.encoder import session

        monkeypatch.setattr(session, "_PACKAGES", ("onnxruntime", "a_package_that_nobody_has"))
        with pytest.raises(ModelFileError, match=r"a_package_that_nobody_has not installed; .*streamjury\[encoder\]"):
            EncoderJudge(tagger).load()
