"""The encoder judge: a trained ONNX classifier that judges one criterion on this machine, without a key."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice
from judges.encoder.batches import Batches, Prepared, ScoredTask
from judges.encoder.description import ModelDescription, find_description, read_description
from judges.encoder.inputs import Window
from judges.encoder.layouts import Layout, Outputs, SentenceScore, join_sentences, layout_for
from judges.encoder.reading import AnswerReader, AnswerReading
from judges.encoder.session import ModelSession
from judges.judge import Judge, unscored_verdict
from judges.local.finding import CannotJudgeError, say, shorten
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case, Language
from judges.values.spans import AnswerSpan, SpanVerdict

SHIPPED = Path(__file__).parent / "groundedness"
"""The shipped model."""

# Increased with every change to the code that can change a verdict.
VERSION = "2"

_GROUNDEDNESS = "groundedness"
_ONE_VALID = Samples(requested=1, valid=1)
_ONE_ERROR = Samples(requested=1, error=1)
# Bounds the time and the record: more inputs than this for one answer are not run, more sentences not listed.
_MOST_WINDOWS = 64
_MOST_SPANS = 200
_MOST_QUOTED = 3


@dataclass(slots=True, kw_only=True)
class _Task:
    """One answer on its way through the model."""

    reading: AnswerReading
    criterion: Criterion
    has_claim: list[bool]
    verbatim: list[int | None]
    is_cut: bool = False
    """Whether the answer is too long to be read to its end."""


@dataclass(slots=True, kw_only=True)
class _Loaded:
    session: ModelSession
    layout: Layout
    batches: Batches[_Task]


@dataclass(slots=True, kw_only=True)
class _Finding:
    """The probabilities of an answer's sentences, and of the whole."""

    probability: float
    read: int = 0
    """Number of sentences with a claim that the model has read or that stand in a context word for word."""

    by_sentence: Mapping[int, SentenceScore] = field(default_factory=dict)
    failing: Sequence[int] = ()


class EncoderJudge(Judge):
    """Judges by one trained model, described by a `model.yaml`."""

    def __init__(
        self,
        path: Path | str = SHIPPED,
        *,
        name: str = "encoder",
        threads: int = 1,
        workers: int = 1,
        batch_tokens: int = 4096,
    ) -> None:
        """Read the description of the model; raises ModelFileError with all its problems.

        `path` is the description or its folder. `workers` batches run at a time, each with `threads` threads and at
        most `batch_tokens` tokens. The model is loaded by `load`, or at the first verdict.
        """
        self._path = find_description(Path(path))
        self.description: ModelDescription = read_description(self._path)
        self._name = name
        self._threads, self._workers = threads, workers
        self._batch_tokens = max(batch_tokens, self.description.inputs.window)
        self._reader = AnswerReader()
        self._outputs = Outputs(self.description)
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        return f"encoder version={VERSION} lexicon={self._reader.lexicon.digest} {self.description.identity}"

    def why_not(self, criterion: Criterion) -> str | None:
        description = self.description
        if criterion.name != description.criterion:
            return f"the model {description.name} judges {description.criterion}, not {criterion.name}"
        wanted = len(description.thresholds) + 1
        if len(criterion.worst_first) != wanted:
            return (
                f"the model {description.name} has {wanted - 1} thresholds, for {wanted} levels; the criterion "
                f"{criterion.name} has {len(criterion.worst_first)}"
            )
        return None

    def can_read(self, case: Case) -> bool:
        languages = self.description.languages
        return languages == "any" or case.language in languages

    def load(self) -> None:
        """Load the model and start its threads; raises ModelFileError."""
        with self._loading:
            if self._loaded is None:
                session = ModelSession(self._path, self.description, threads=self._threads)
                layout = layout_for(self.description, session.tokenizer, self._reader.lexicon)
                batches: Batches[_Task] = Batches(
                    partial(self._run, session),
                    batch_tokens=self._batch_tokens,
                    workers=self._workers,
                    name=f"encoder-{self._name}",
                    can_pad=self.description.inputs.mask is not None,
                )
                self._loaded = _Loaded(session=session, layout=layout, batches=batches)

    async def aclose(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await asyncio.to_thread(loaded.batches.close)

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        if self._loaded is None:
            await asyncio.to_thread(self.load)
        loaded = self._loaded
        assert loaded is not None
        try:
            scored = await loaded.batches.score(partial(self._prepare, loaded, case, criterion))
        except CannotJudgeError as reason:
            return unscored_verdict(self._name, Reason.UNSUPPORTED, f"{criterion.name}: {reason}", samples=_ONE_ERROR)
        return self._conclude(scored, case.language)

    # In a thread of the pool

    def _run(self, session: ModelSession, windows: Sequence[Window]) -> list[list[SentenceScore]]:
        logits = session.run([window.ids for window in windows], [window.types for window in windows])
        return self._outputs.scores(logits, windows)

    def _prepare(self, loaded: _Loaded, case: Case, criterion: Criterion) -> Prepared[_Task]:
        """Read the answer and make the inputs for the sentences that the model has to see."""
        reading = self._reader.read(case, criterion.to_evaluate)
        task = _Task(
            reading=reading,
            criterion=criterion,
            has_claim=[True] * len(reading.sentences),
            verbatim=[None] * len(reading.sentences),
        )
        if self.description.languages != "any":
            reading.local.need_known_script()
        if self.description.criterion == _GROUNDEDNESS:
            task.has_claim = reading.find_claims()
            if self.description.skip_verbatim:
                task.verbatim = reading.find_verbatim()
        wanted = [
            index
            for index, (claims, source) in enumerate(zip(task.has_claim, task.verbatim, strict=True))
            if claims and source is None
        ]
        windows = loaded.layout.build(reading, wanted) if wanted else []
        task.is_cut = len(windows) > _MOST_WINDOWS
        return Prepared(task=task, windows=windows[:_MOST_WINDOWS])

    # The verdict

    def _conclude(self, scored: ScoredTask[_Task], language: Language) -> JudgeVerdict:
        task = scored.task
        if self.description.criterion == _GROUNDEDNESS and not any(task.has_claim):
            return self._not_applicable(language)
        finding = self._find(scored)
        choice = self._choose(finding, task)
        best = task.criterion.worst_first[-1]
        if choice is best and task.is_cut:
            detail = f"{task.criterion.name}: the answer is too long to be read whole by the model"
            return unscored_verdict(self._name, Reason.TRUNCATED, detail, samples=_ONE_ERROR)
        return JudgeVerdict(
            judge=self._name,
            status=Status.SCORED,
            score=task.criterion.score(choice),
            level=task.criterion.level(choice),
            option=choice.label.en,
            label=choice.label.of(language),
            value=choice.value,
            certainty=1.0 - finding.probability if choice is best else finding.probability,
            explanation=self._explain(finding, task, language),
            spans=self._spans(finding, task),
            samples=_ONE_VALID,
        )

    def _not_applicable(self, language: Language) -> JudgeVerdict:
        return JudgeVerdict(
            judge=self._name,
            status=Status.NOT_APPLICABLE,
            reason=Reason.NOTHING_TO_JUDGE,
            explanation=say(
                language,
                en="The answer claims nothing that could be checked.",
                ru="Ответ не содержит проверяемых утверждений.",
            ),
            samples=_ONE_VALID,
        )

    def _find(self, scored: ScoredTask[_Task]) -> _Finding:
        """Join the scores of the sentences; of several for one sentence, the best support counts."""
        task, aggregation = scored.task, self.description.aggregation
        by_sentence: dict[int, SentenceScore] = {}
        for score in sorted(scored.scores):
            if task.has_claim[score.sentence] and task.verbatim[score.sentence] is None:
                by_sentence.setdefault(score.sentence, score)
        checked = [score.probability for score in by_sentence.values()]
        checked += [0.0 for source in task.verbatim if source is not None]
        if not checked:
            return _Finding(probability=0.0)
        probability = join_sentences(checked, aggregation.sentences)
        least = self.description.failing_from
        failing = [index for index, score in by_sentence.items() if score.probability >= least]
        return _Finding(probability=probability, read=len(checked), by_sentence=by_sentence, failing=failing)

    def _choose(self, finding: _Finding, task: _Task) -> Choice:
        choices, description = task.criterion.worst_first, self.description
        level = next(
            (index for index, least in enumerate(description.thresholds) if finding.probability >= least),
            len(choices) - 1,
        )
        if level == 0 and len(choices) > 2 and len(finding.failing) < description.min_share * finding.read:
            level = 1
        return choices[level]

    def _explain(self, finding: _Finding, task: _Task, language: Language) -> str:
        read = finding.read
        if not self.description.names_sentences():
            return self._explain_whole(finding, language)
        if not finding.by_sentence:
            return say(
                language,
                en=f"Word for word in the contexts: {read} of {read} sentences.",
                ru=f"Дословно в контекстах: {read} из {read} предложений.",
            )
        worst = sorted(finding.failing, key=lambda index: -finding.by_sentence[index].probability)
        supported = read - len(worst)
        quoted = ", ".join(
            f"{_quote(task.reading.sentences[index].text, language)} ({finding.by_sentence[index].probability:.2f})"
            for index in worst[:_MOST_QUOTED]
        )
        more = len(worst) - _MOST_QUOTED
        quoted += say(language, en=f" and {more} more", ru=f" и ещё {more}") if more > 0 else ""
        unread = sum(task.has_claim) - read
        return say(
            language,
            en=f"{supported} of {read} sentences are supported"
            + (f", {unread} more were not read" if unread else "")
            + (f"; probably unsupported: {quoted}." if worst else f"; highest risk {finding.probability:.2f}."),
            ru=f"Подтверждено предложений: {supported} из {read}"
            + (f", не прочитано ещё {unread}" if unread else "")
            + (f"; вероятно, не подтверждено: {quoted}." if worst else f"; наибольший риск {finding.probability:.2f}."),
        )

    def _explain_whole(self, finding: _Finding, language: Language) -> str:
        worst = max(finding.by_sentence.values(), key=lambda score: score.probability, default=None)
        has_label = worst is not None and bool(self.description.output.failing)
        name = f" ({self.description.output.labels[worst.label]})" if worst is not None and has_label else ""
        return say(
            language,
            en=f"The model finds a failure{name} with probability {finding.probability:.2f}.",
            ru=f"Модель находит нарушение{name} с вероятностью {finding.probability:.2f}.",
        )

    def _spans(self, finding: _Finding, task: _Task) -> tuple[AnswerSpan, ...] | None:
        """Mark the sentences as the local judge does; None if the model names none, or their places are unknown."""
        places = task.reading.places
        if places is None or task.criterion.to_evaluate != "answer" or not self.description.names_sentences():
            return None
        return tuple(
            self._span(index, place, finding, task)
            for index, place in enumerate(places[:_MOST_SPANS])
            if place and (index in finding.by_sentence or task.verbatim[index] is not None or not task.has_claim[index])
        )

    def _span(self, index: int, place: range, finding: _Finding, task: _Task) -> AnswerSpan:
        source = task.verbatim[index]
        contexts: tuple[int, ...] = ()
        if not task.has_claim[index]:
            verdict = SpanVerdict.NO_CLAIM
        elif source is not None:
            verdict, contexts = SpanVerdict.SUPPORTED, (source,)
        elif index not in finding.failing:
            verdict = SpanVerdict.SUPPORTED
        else:
            score = finding.by_sentence[index]
            is_contradicted = 2 * score.contradiction > score.probability
            verdict = SpanVerdict.CONTRADICTED if is_contradicted else SpanVerdict.UNSUPPORTED
        return AnswerSpan(start=place.start, length=len(place), verdict=verdict, contexts=contexts)


def _quote(text: str, language: Language) -> str:
    opening, closing = ("«", "»") if language == "ru" else ("'", "'")
    return f"{opening}{shorten(text)}{closing}"
