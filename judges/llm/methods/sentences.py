"""The judge of groundedness that gives a verdict on each sentence of the answer, in one call.

The level follows from the verdicts on the sentences that claim something: the best one if all are supported, the worst
one if any is contradicted or fewer than half are supported, the middle one otherwise. If no sentence claims anything,
the criterion does not apply.
"""

from collections.abc import Mapping, Sequence

from judges.criteria.criterion import Criterion
from judges.llm.completion import Parsed, Valid, VerdictError, parse_reply, quote
from judges.llm.model_judge import ModelJudge, Task
from judges.llm.prompts.layout import boundary, prompt_hash
from judges.llm.prompts.sentences import JUDGE, sentences_messages, sentences_repair
from judges.llm.redacted_case import redact_case
from judges.llm.vote import Combine, ScoreFrom, VoteRule
from judges.local.language.places import find_places
from judges.local.language.text import clean, sentences_of
from judges.local.lexicon import Lexicon
from judges.models.base import ChatMessage, ChatModel, Completion
from judges.values.evaluation import JudgeVerdict
from judges.values.interaction import Case, Language
from judges.values.spans import AnswerSpan, SpanVerdict

_READING_VERSION = 1
"""Incremented when the same completion may be read differently than before."""

# What follows the last of them belongs to it: an endless answer must not make an endless reply.
MAX_SENTENCES = 60
# As many verdicts fit into the length limit of an ordinary reply.
_SENTENCES_PER_ANSWER = 16
_LEVELS = 3
_FEWEST_SUPPORTED = 0.5


class SentencesJudge(ModelJudge):
    """Judges by criteria like `rag.groundedness`: three levels, contexts, and a case in which it does not apply.

    The reply must contain the code of the prompt, which no judged text has: a verdict that is copied from a text is
    never read. The places of the sentences are published as `spans`.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str | None = None,
        repairs: int = 2,
        samples: int = 1,
        combine: Combine | None = None,
        min_valid: int | None = None,
        score_from: ScoreFrom = "winner",
        stop_early: bool = True,
        family: str | None = None,
        keep_prompt: bool = False,
    ) -> None:
        rule = VoteRule(
            samples=samples, combine=combine, min_valid=min_valid, score_from=score_from, stop_early=stop_early
        )
        super().__init__(model, name=name, repairs=repairs, rule=rule, family=family, keep_prompt=keep_prompt)
        self._prompt = prompt_hash(_probe)

    @property
    def method(self) -> str:
        return f"{JUDGE} prompt={self._prompt} reading={_READING_VERSION}"

    def why_not(self, criterion: Criterion) -> str | None:
        if not judges_by(criterion):
            return (
                f"sentences are checked against contexts, on three levels, for criteria that need not apply; "
                f"{criterion.name!r} is not such a criterion: use rag.groundedness"
            )
        return super().why_not(criterion)

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        verdict = await super().verdict(case, criterion, reverse=reverse)
        if self._redactor is None or verdict.spans is None:
            return verdict
        shown = redact_case(case, self._redactor).case.text(criterion.to_evaluate)
        return verdict.model_copy(update={"spans": _in_logged(verdict.spans, case.text(criterion.to_evaluate), shown)})

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        """Ignores `reverse`: the verdicts on sentences have one order."""
        answer, code = case.text(criterion.to_evaluate), boundary(case.fields)
        places = split_sentences(answer) or [range(len(answer))]
        contexts = len(_contexts_of(case))

        def read(completion: Completion) -> Parsed:
            return read_verdicts(
                completion.text, code, places, contexts=contexts, criterion=criterion, language=case.language
            )

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return sentences_repair(output, reason, code, len(places), case.language)

        return Task(
            messages=sentences_messages(case, criterion, [answer[place.start : place.stop] for place in places]),
            read=read,
            repair=repair,
            schema=_schema(code, len(places), contexts),
            answers=1 + (len(places) - 1) // _SENTENCES_PER_ANSWER,
        )


def judges_by(criterion: Criterion) -> bool:
    """Return whether verdicts on sentences can decide this criterion."""
    has_levels = criterion.scale.kind == "levels" and len(criterion.scale.levels) == _LEVELS
    return has_levels and "contexts" in criterion.needs and criterion.not_applicable is not None


def split_sentences(answer: str) -> list[range]:
    """Return the places of the sentences; the whole answer is one if its sentences cannot be located."""
    cleaned = clean(answer)
    sentences = [sentence for sentence, _ in sentences_of(cleaned, Lexicon.load())]
    places = find_places(answer, cleaned, sentences)
    places = [range(len(answer))] if places is None and answer.strip() else [place for place in places or [] if place]
    if len(places) > MAX_SENTENCES:
        places[MAX_SENTENCES - 1 :] = [range(places[MAX_SENTENCES - 1].start, places[-1].stop)]
    return places


def read_verdicts(
    text: str | None, code: str, places: Sequence[range], *, contexts: int, criterion: Criterion, language: Language
) -> Parsed:
    """Read the verdict on each sentence, and the level that follows from them."""

    def read(reply: Mapping[str, object]) -> Valid:
        verdicts = reply[code]
        if not isinstance(verdicts, Mapping):
            raise VerdictError(f"the key {quote(code)} must contain an object with the sentences")
        wanted = {str(number) for number in range(1, len(places) + 1)}
        unknown = next((number for number in verdicts if number not in wanted), None)
        if unknown is not None:
            raise VerdictError(f"there is no sentence {quote(unknown)}")
        spans = [_span(number, verdicts.get(str(number)), place, contexts) for number, place in enumerate(places, 1)]
        return _conclude(spans, criterion, language)

    return parse_reply(text, code, read)


def _span(number: int, verdict: object, place: range, contexts: int) -> AnswerSpan:
    if not isinstance(verdict, Mapping) or "verdict" not in verdict:
        raise VerdictError(f"sentence {number} has no `verdict`")
    word = verdict["verdict"]
    if not isinstance(word, str) or word.strip().casefold() not in set(SpanVerdict):
        raise VerdictError(f"the verdict {quote(word)} on sentence {number} is not one of the verdicts")
    named = verdict.get("contexts") or []
    if not isinstance(named, list):
        raise VerdictError(f"the contexts of sentence {number} must be a list of numbers")
    for context in named:
        if type(context) is not int or not 1 <= context <= contexts:
            raise VerdictError(f"there is no context {quote(context)}, which sentence {number} names")
    indexes = tuple(sorted({context - 1 for context in named}))
    return AnswerSpan.model_construct(
        start=place.start, length=len(place), verdict=SpanVerdict(word.strip().casefold()), contexts=indexes
    )


def _conclude(spans: Sequence[AnswerSpan], criterion: Criterion, language: Language) -> Valid:
    published = tuple(spans) if all(span.length for span in spans) else None
    claims = [
        (number, span.verdict) for number, span in enumerate(spans, 1) if span.verdict is not SpanVerdict.NO_CLAIM
    ]
    if not claims:
        return Valid(explanation=_NO_CLAIM[language], spans=published)
    supported = sum(verdict is SpanVerdict.SUPPORTED for _, verdict in claims)
    contradicted = any(verdict is SpanVerdict.CONTRADICTED for _, verdict in claims)
    worst, middle, best = criterion.worst_first
    choice = best if supported == len(claims) else middle
    if contradicted or supported < _FEWEST_SUPPORTED * len(claims):
        choice = worst
    explanation = _EXPLANATION[language].format(supported=supported, claims=len(claims))
    for verdict in (SpanVerdict.UNSUPPORTED, SpanVerdict.CONTRADICTED):
        numbers = [str(number) for number, other in claims if other is verdict]
        if numbers:
            explanation += f" {_KINDS[language][verdict]}: {', '.join(numbers)}."
    return Valid(choice=choice, value=choice.value, explanation=explanation, spans=published)


_NO_CLAIM: Mapping[Language, str] = {
    "en": "No sentence claims anything.",
    "ru": "Ни одно предложение ничего не утверждает.",
}
_EXPLANATION: Mapping[Language, str] = {
    "en": "{supported} of {claims} sentences with claims are supported.",
    "ru": "Подтверждено предложений с утверждениями: {supported} из {claims}.",
}
_KINDS: Mapping[Language, Mapping[SpanVerdict, str]] = {
    "en": {SpanVerdict.UNSUPPORTED: "Unsupported", SpanVerdict.CONTRADICTED: "Contradicted"},
    "ru": {SpanVerdict.UNSUPPORTED: "Не подтверждены", SpanVerdict.CONTRADICTED: "Опровергнуты"},
}


def _contexts_of(case: Case) -> Sequence[str]:
    contexts = case.fields.get("contexts", ())
    return (contexts,) if isinstance(contexts, str) else contexts


def _schema(code: str, sentences: int, contexts: int) -> Mapping[str, object]:
    number = {"type": "integer", "minimum": 1, "maximum": contexts}
    properties: Mapping[str, object] = {
        "verdict": {"type": "string", "enum": [verdict.value for verdict in SpanVerdict]},
        # Without a limit, a small model may repeat numbers until its reply is cut off.
        "contexts": {"type": "array", "items": number, "maxItems": contexts},
    }
    by_number = {str(place): _object(properties) for place in range(1, sentences + 1)}
    return _object({code: _object(by_number)})


def _object(properties: Mapping[str, object]) -> Mapping[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _in_logged(spans: Sequence[AnswerSpan], logged: str, shown: str) -> tuple[AnswerSpan, ...] | None:
    """Return the spans of a redacted answer at their places in the answer as logged; None if they cannot be told."""
    if logged == shown:
        return tuple(spans)
    places = split_sentences(logged)
    if len(places) != len(spans):
        return None
    return tuple(
        span.model_copy(update={"start": place.start, "length": len(place)})
        for span, place in zip(spans, places, strict=True)
    )


def _probe(case: Case, criterion: Criterion) -> list[ChatMessage]:
    return sentences_messages(case, criterion, ["sentence"]) + sentences_repair(
        None, "reason", "code", 1, case.language
    )
