"""The judge for models like Granite Guardian, which decide whether a text has a risk, and with what certainty."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from judges.criteria.criterion import Criterion
from judges.llm.completion import Invalid, Parsed, Valid, is_refusal, publishable_text, quote, strip_reasoning
from judges.llm.model_judge import ModelJudge, Task
from judges.llm.prompts.guardian import guardian_messages, repair_messages
from judges.llm.prompts.layout import prompt_hash
from judges.llm.vote import Combine, ScoreFrom, VoteRule
from judges.models.base import ChatMessage, ChatModel, Completion, Token
from judges.values.interaction import Case

_READING_VERSION = 1
"""Incremented when the same completion may be read differently than before."""

_YES, _NO = frozenset({"yes", "да"}), frozenset({"no", "нет"})
_WORD = r"(yes|no|да|нет)"
_MARKS = r"[\s.,;:!*_\"'`«»]*"
_BARE = re.compile(rf"{_MARKS}{_WORD}{_MARKS}", re.IGNORECASE)
_TAGGED = re.compile(rf"\s*<score>\s*{_WORD}\s*</score>\s*", re.IGNORECASE)
_TAG = re.compile(r"</?score>", re.IGNORECASE)
_CONFIDENCE = re.compile(r"<confidence>[^<>]{0,40}</confidence>", re.IGNORECASE)
_BEFORE = re.compile(r"</think(?:ing)?>|<score>", re.IGNORECASE)


class GuardianJudge(ModelJudge):
    """Asks whether the text has the criterion's risk: yes is the worst choice of the scale, and no the best.

    The certainty of an answer is its probability relative to that of the opposite answer. `min_certainty` refuses
    answers that are less certain or of unknown certainty.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str | None = None,
        repairs: int = 2,
        samples: int = 1,
        combine: Combine = "majority",
        min_valid: int | None = None,
        score_from: ScoreFrom = "winner",
        stop_early: bool = True,
        min_certainty: float | None = None,
        family: str | None = None,
    ) -> None:
        if min_certainty is not None and not 0.0 <= min_certainty <= 1.0:
            raise ValueError(f"min_certainty must be between 0 and 1, not {min_certainty}")
        rule = VoteRule(
            samples=samples,
            combine=combine,
            min_valid=min_valid,
            score_from=score_from,
            stop_early=stop_early,
        )
        super().__init__(model, name=name, repairs=repairs, rule=rule, family=family)
        self._min_certainty = min_certainty
        self._prompt = prompt_hash(_probe)

    @property
    def method(self) -> str:
        return f"guardian prompt={self._prompt} reading={_READING_VERSION} min_certainty={self._min_certainty}"

    def why_not(self, criterion: Criterion) -> str | None:
        if criterion.risk is None:
            return f"{criterion.name!r} has no `risk`, the statement that is true if something is wrong"
        if not criterion.worst_first:
            return f"yes and no need a worst and a best choice, but {criterion.name!r} has {_scale_problem(criterion)}"
        return super().why_not(criterion)

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        def read(completion: Completion) -> Parsed:
            return read_risk(completion, criterion, self._min_certainty)

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return repair_messages(output, reason, criterion, case.language)

        return Task(messages=guardian_messages(case, criterion), read=read, repair=repair, likelihoods=True)


def read_risk(completion: Completion, criterion: Criterion, min_certainty: float | None = None) -> Parsed:
    """Read the yes or no of a completion as the worst or the best choice of the criterion."""
    text = completion.text
    if text is None or not text.strip():
        return Invalid(reason="the output is empty")
    risky, rest = _answer(_CONFIDENCE.sub("", strip_reasoning(text)))
    if risky is None:
        return Invalid(reason=_reason_for_none(text))
    certainty = certainty_of(completion.tokens, risky=risky)
    if min_certainty is not None and (certainty is None or certainty < min_certainty):
        # Asking until the model sounds certain would mean asking for another answer.
        certainty_text = "unknown" if certainty is None else f"{certainty:.2f}"
        reason = f"too uncertain: the certainty is {certainty_text}, and {min_certainty:g} is required"
        return Invalid(reason=reason, final=True)
    choice = criterion.worst_first[0 if risky else -1]
    return Valid(choice=choice, value=choice.value, explanation=publishable_text(rest), certainty=certainty)


def _answer(text: str) -> tuple[bool | None, str]:
    """Return whether the answer is yes, and the other lines; it is alone on the first line, or tagged on any line."""
    lines = [line for line in text.splitlines() if line.strip()]
    tagged = [line for line in lines if _TAG.search(line)]
    bare = [line for line in lines if _BARE.fullmatch(line)]
    if not tagged and bare[:1] != lines[:1]:
        return None, ""
    answers = {*tagged, *bare}
    readings = {_is_yes(line) for line in answers}
    if len(readings) != 1:
        return None, ""
    return readings.pop(), "\n".join(line for line in lines if line not in answers)


def _is_yes(line: str) -> bool | None:
    match = _TAGGED.fullmatch(line) or _BARE.fullmatch(line)
    return match[1].casefold() in _YES if match else None


def _reason_for_none(text: str) -> str:
    if is_refusal(text):
        return "the output is a refusal"
    return f"the output must be one word, yes or no, not {quote(strip_reasoning(text).strip())}"


def certainty_of(tokens: Sequence[Token], *, risky: bool) -> float | None:
    """Return the probability of the answer relative to its opposite, at the token that states it."""
    chosen_words, opposite_words = (_YES, _NO) if risky else (_NO, _YES)
    token = next((token for token in _answer_tokens(tokens) if _spells(token.text, chosen_words)), None)
    if token is None:
        return None
    likelihoods = {
        text: math.exp(min(log_probability, 0.0))
        for text, log_probability in token.likelihoods.items()
        if not math.isnan(log_probability)
    }
    chosen, opposite = _sum(likelihoods, chosen_words), _sum(likelihoods, opposite_words)
    if not chosen and not opposite:
        return None
    if not opposite:
        # It is not listed, so it has at most the remaining probability, and at most that of the least likely token.
        opposite = max(0.0, min([1.0 - math.fsum(likelihoods.values()), *likelihoods.values()]))
    return chosen / (chosen + opposite)


def _answer_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens after the reasoning and the last opening tag; a yes or no before them is not the answer."""
    starts = [0, *(match.end() for match in _BEFORE.finditer("".join(token.text for token in tokens)))]
    position = 0
    for token in tokens:
        if position >= starts[-1]:
            yield token
        position += len(token.text)


def _spells(text: str, words: frozenset[str]) -> bool:
    return text.strip().casefold() in words


def _sum(likelihoods: Mapping[str, float], words: frozenset[str]) -> float:
    return math.fsum(value for text, value in likelihoods.items() if _spells(text, words))


def _scale_problem(criterion: Criterion) -> str:
    return "a range" if criterion.scale.kind == "range" else "options without scores"


def _probe(case: Case, criterion: Criterion) -> list[ChatMessage]:
    if criterion.risk is None:
        return []
    return guardian_messages(case, criterion) + repair_messages(None, "reason", criterion, case.language)
