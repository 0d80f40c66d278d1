"""Parses a model's completion into a verdict on one criterion or several, or into the reason why it is invalid.

The parser does not guess: a completion that could be read in two ways, or that only resembles a verdict, is invalid.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judges.criteria.criterion import Criterion
from judges.criteria.scale import LANGUAGES, NOT_APPLICABLE, Choice, means_not_applicable
from judges.models.wire.reading import encodable
from judges.values.context_verdicts import rank_score
from judges.values.interaction import Language
from judges.values.spans import AnswerSpan

PARSER_VERSION = 4
"""Incremented when the same completion may be read differently than before; part of a judge's identity."""


MAX_EXPLANATION_CHARS = 4000
"""Longest explanation that is published; an endpoint that ignores its token limit could send megabytes."""

NO_PARTS = "the JSON object has none of the criteria"

_REFUSAL_WINDOW = 400
# No numeric label is larger. Infinities, and integers that do not fit a float, are beyond it too.
_LARGEST_LABEL = 1e15

# At the top level only an object or a reasoning block can begin; all other text is skipped.
_TOP = re.compile(r"</?think(?:ing)?>|\{", re.IGNORECASE)
_THINK = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
# An unterminated string runs to the end of the text, so that no part of the text is scanned twice.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[{}]', re.DOTALL)
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.0+)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_NUMBER_AND_LABEL = re.compile(r"([+-]?\d{1,9})\s*[-–—:.)=]\s*(\S.*)", re.ASCII | re.DOTALL)
_REFUSAL = re.compile(
    r"\b(?:i\s*['’]?\s*a?m\s+(?:sorry|unable|not\s+able)|sorry|unfortunately|i\s+(?:can\s*not|can['’]t|won['’]t)"
    r"|as\s+an\s+ai|извините|простите|к\s+сожалению|не\s+могу|не\s+в\s+состоянии|отказываюсь"
    r"|как\s+(?:ии|языковая\s+модель))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Valid:
    """A verdict: a choice of a discrete scale or a number in a range; neither if the criterion does not apply."""

    choice: Choice | None = None
    value: float | None = None
    explanation: str = ""
    feedback: str | None = None
    certainty: float | None = None
    items: tuple[bool, ...] | None = None
    """Whether each item of the judged field is useful; None unless the criterion judges each of them."""

    suspect: bool = False
    """Whether the completion repeats instructions to the judge from the judged text."""

    source: str = field(default="", compare=False, repr=False)
    """The JSON object that it was read from; empty if it was read from words."""

    spans: tuple[AnswerSpan, ...] | None = None
    """The verdicts on the sentences of the answer, if it was judged by sentence."""

    parts: Mapping[str, "Valid | Invalid"] = field(default_factory=dict, compare=False)
    """If several criteria share a completion: the part of each by its name. Then only the parts contain verdicts."""

    @property
    def applies(self) -> bool:
        return self.choice is not None or self.value is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """An output without a verdict, and the reason, in words that may be shown to the model."""

    reason: str
    final: bool = False
    """Whether no repair may be requested: the output is clear, but must not be used."""

    suspect: bool = False
    """As for a verdict. Such an output is not quoted in a repair, because that would repeat the instructions."""

    usable: Valid | None = None
    """The verdict of an output that lacks only an addition to it; it counts if no repair succeeds."""


Parsed = Valid | Invalid

_Answer = Choice | float | tuple[bool, ...] | None
"""A choice, a number, or verdicts on items; None: the criterion does not apply."""


class VerdictError(ValueError):
    """Aborts the parsing of a verdict with the reason; `parse_object` turns it into an `Invalid`."""


def parse_verdict(text: str | None, criterion: Criterion, language: Language, *, items: int = 0) -> Parsed:
    """Parse the verdict in a completion. Labels count in both languages; if they clash, `language` decides.

    `items` is the number of items of the judged field, for a criterion that judges each of them.
    """
    return parse_object(text, lambda verdict: _answer(verdict, criterion, language, items))


def parse_object(text: str | None, answer: Callable[[object], "_Answer"]) -> Parsed:
    """Parse the one JSON object with a verdict in a completion; `answer` interprets its verdict."""
    return _parse(text, "verdict", lambda reply, source: _valid(reply, source, answer))


def parse_reply(text: str | None, key: str, read: Callable[[Mapping[str, object]], Valid]) -> Parsed:
    """Parse the one JSON object with this key in a completion; `read` interprets it."""
    return _parse(text, key, lambda reply, _: read(reply))


def _parse(text: str | None, key: str, read: Callable[[Mapping[str, object], str], Valid]) -> Parsed:
    if text is None or not text.strip():
        return Invalid(reason="the output is empty")
    try:
        reply, source = _find_object(text, lambda name: name == key, missing=f"the JSON object has no key `{key}`")
        return read(reply, source)
    except VerdictError as error:
        return Invalid(reason=str(error))
    except RecursionError:
        return Invalid(reason="the JSON object is nested too deeply")


def _valid(reply: Mapping[str, object], source: str, answer: Callable[[object], "_Answer"]) -> Valid:
    verdict = answer(reply["verdict"])
    explanation, feedback = publishable_text(reply.get("explanation")), publishable_text(reply.get("feedback")) or None
    valid = Valid(explanation=explanation, feedback=feedback, source=source)
    if isinstance(verdict, tuple):
        return replace(valid, value=rank_score(verdict), items=verdict)
    choice, value = (verdict, verdict.value) if isinstance(verdict, Choice) else (None, verdict)
    return replace(valid, choice=choice, value=value)


def parse_parts(text: str | None, criteria: Sequence[Criterion], language: Language, *, items: int = 0) -> Parsed:
    """Parse the verdicts in a completion that has a part for each criterion, under its name.

    A part that is missing or wrong is invalid and does not affect the others; unknown keys are ignored. A completion
    without a single verdict is invalid.
    """
    if text is None or not text.strip():
        return Invalid(reason="the output is empty")
    names = {criterion.name for criterion in criteria}
    try:
        reply, _ = _find_object(text, lambda key: _name_in(key) in names, missing=NO_PARTS)
        by_name = _unique([(_name_in(key), part) for key, part in reply.items()])
        parts = {
            criterion.name: _part(by_name.get(criterion.name), criterion, language, items) for criterion in criteria
        }
    except VerdictError as error:
        return Invalid(reason=str(error))
    except RecursionError:
        return Invalid(reason="the JSON object is nested too deeply")
    return combine_parts(parts)


def combine_parts(parts: Mapping[str, Parsed]) -> Parsed:
    """Combine the parts; if none can be used, the result is invalid for the reason of the first."""
    invalid = [part for part in parts.values() if isinstance(part, Invalid) and part.usable is None]
    # Instructions that a completion repeats anywhere may have influenced all of its parts.
    suspect = any(part.suspect for part in parts.values())
    if len(invalid) == len(parts):
        return Invalid(reason=invalid[0].reason, suspect=suspect)
    return Valid(parts=parts, suspect=suspect)


def _name_in(key: str) -> str:
    return key.strip().casefold()


def _part(part: object, criterion: Criterion, language: Language, items: int) -> Parsed:
    if not isinstance(part, Mapping) or "verdict" not in part:
        return Invalid(reason=f"{criterion.name} has no `verdict` in the JSON object")
    try:
        # Serialized again, because the layout carries no meaning.
        source = json.dumps(part, ensure_ascii=False)
        return _valid(part, source, lambda verdict: _answer(verdict, criterion, language, items))
    except VerdictError as error:
        return Invalid(reason=str(error))


def _find_object(text: str, is_wanted: Callable[[str], bool], *, missing: str) -> tuple[Mapping[str, object], str]:
    """Return the one JSON object with a wanted key outside the reasoning, and its text."""
    spans, reasoned = _spans(text)
    objects = [(start, end, _decode(text[start:end])) for start, end in spans]
    verdicts = [(start, end, item) for start, end, item in objects if item is not None and any(map(is_wanted, item))]
    if not verdicts:
        raise VerdictError(_reason_for_none(text, missing if spans else "the output has no JSON object"))
    start, end, verdict = verdicts[-1]
    if any(item != verdict for _, _, item in verdicts):
        raise VerdictError("the output has more than one JSON object with a verdict")
    if start < reasoned:
        raise VerdictError("the output has a verdict only inside its reasoning")
    return verdict, text[start:end]


def _spans(text: str) -> tuple[list[tuple[int, int]], int]:
    """Return the balanced `{…}` outside reasoning blocks, and the end of a block that began before the text."""
    spans: list[tuple[int, int]] = []
    reasoned = position = 0
    while match := _TOP.search(text, position):
        if match[0] == "{":
            position = _end_of_object(text, match.start())
            spans.append((match.start(), position))
        elif match[0].startswith("</"):
            reasoned = position = match.end()
        elif end := _THINK_END.search(text, match.end()):
            position = end.end()
        else:
            # The text before the tag could be a quotation, with the judge's own verdict after the quoted tag.
            raise VerdictError("the output ends inside its reasoning")
    return spans, reasoned


def _end_of_object(text: str, start: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                return token.end()
    # A search inside an unfinished object could find a verdict that it only quotes.
    raise VerdictError("the JSON object is not complete")


def _decode(candidate: str) -> Mapping[str, object] | None:
    """Return the object, or None if it has no verdict; a verdict that is not valid JSON is an error."""
    # Without the word, and without an escape that could spell it, it cannot have a verdict.
    if "verdict" not in candidate and "\\" not in candidate:
        return None
    try:
        decoded: dict[str, object] = _DECODER.decode(candidate)
    except VerdictError:
        raise
    except ValueError:
        if "verdict" in candidate:
            raise VerdictError("the output is not valid JSON") from None
        return None
    return decoded


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise VerdictError("a key of the JSON object occurs twice")
    return result


def _refuse_constant(name: str) -> None:
    raise VerdictError(f"{name} is not a verdict")


# Not strict: a line break inside a string does not change the meaning.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _reason_for_none(text: str, otherwise: str) -> str:
    return "the output is a refusal" if is_refusal(text) else otherwise


def is_refusal(text: str) -> bool:
    """Whether the text begins with the words of a refusal; for texts without a verdict only."""
    return _REFUSAL.search(strip_reasoning(text)[:_REFUSAL_WINDOW]) is not None


def strip_reasoning(text: str) -> str:
    """Return the text after the reasoning; empty if the reasoning does not end."""
    closed = list(_THINK_END.finditer(text))
    rest = text[closed[-1].end() :] if closed else text
    # The text before an unclosed tag could be a quotation like the tag, with the judge's own answer after it.
    return "" if _THINK.search(rest) else rest


def has_reasoning(text: str) -> bool:
    return bool(_THINK.search(text) or _THINK_END.search(text))


def begins_with_reasoning(text: str) -> bool:
    """Whether the text begins with a reasoning block and has no other reasoning tags."""
    body = text.lstrip()
    return bool(_THINK.match(body)) and len(_THINK.findall(body)) == len(_THINK_END.findall(body)) == 1


def _answer(verdict: object, criterion: Criterion, language: Language, items: int) -> _Answer:
    """Return the choice, the number or the verdicts on items that a verdict names; None for not applicable."""
    if criterion.ranked:
        return _answer_on_items(verdict, items)
    if isinstance(verdict, str):
        return _answer_in_text(verdict, criterion, language)
    if isinstance(verdict, bool) or not isinstance(verdict, int | float):
        raise VerdictError(f"the verdict must be {_expected_form(criterion)}, not {quote(verdict)}")
    if criterion.scale.kind == "range":
        return _in_range(verdict, criterion)
    choice = _choice_of_number(verdict, criterion, language)
    if choice is None:
        raise VerdictError(f"the verdict {quote(verdict)} is not on the scale")
    return choice


def _answer_on_items(verdict: object, items: int) -> tuple[bool, ...]:
    """Return whether each item is useful; a verdict that leaves an item out, or invents one, is an error."""
    if not isinstance(verdict, Mapping):
        raise VerdictError(f"the verdict must be an object with true or false for each number, not {quote(verdict)}")
    useful = {str(key).strip(): value for key, value in verdict.items()}
    numbers = [str(number) for number in range(1, items + 1)]
    if len(useful) != len(verdict) or useful.keys() != set(numbers):
        raise VerdictError(f"the verdict must have the numbers 1 to {items}, each once")
    return tuple(_useful(useful[number]) for number in numbers)


def _useful(value: object) -> bool:
    word = value.strip().casefold() if isinstance(value, str) else value
    for meaning in (True, False):
        if word is meaning or word == str(meaning).casefold():
            return meaning
    raise VerdictError(f"the verdict on each number must be true or false, not {quote(value)}")


def _answer_in_text(verdict: str, criterion: Criterion, language: Language) -> Choice | float | None:
    text = verdict.strip()
    choice = criterion.scale.find(text, language)
    if choice is not None:
        return choice
    if means_not_applicable(text):
        if criterion.not_applicable is None:
            raise VerdictError(f"the verdict {NOT_APPLICABLE} is not allowed for this criterion")
        return None
    if criterion.scale.kind == "range" and _NUMBER.fullmatch(text):
        return _in_range(float(text), criterion)
    if criterion.scale.kind == "levels":
        choice = _level_in_text(text, criterion, language)
    if choice is None:
        raise VerdictError(f"the verdict {quote(verdict)} is not {_expected_form(criterion)}")
    return choice


def _level_in_text(text: str, criterion: Criterion, language: Language) -> Choice | None:
    """Return the level that is named by its number, alone or before its own label."""
    if _has_numbers_for_labels(criterion):
        return None
    if _WHOLE_NUMBER.fullmatch(text):
        return _choice_of_number(float(text), criterion, language)
    both = _NUMBER_AND_LABEL.fullmatch(text)
    choice = criterion.scale.find(both[2], language) if both else None
    return choice if both and choice and choice.value == int(both[1]) else None


def _choice_of_number(number: float, criterion: Criterion, language: Language) -> Choice | None:
    """Find a level by its value, and any other choice by a label that is this number: the model saw only labels."""
    if criterion.scale.kind == "levels" and not _has_numbers_for_labels(criterion):
        return next((choice for choice in criterion.scale.choices if choice.value == number), None)
    if abs(number) > _LARGEST_LABEL:
        return None
    return criterion.scale.find(str(int(number) if number == int(number) else number), language)


def _has_numbers_for_labels(criterion: Criterion) -> bool:
    """Whether labels are numbers: then a number is a label, because as a value it could mean another level."""
    labels = (choice.label.of(language) for choice in criterion.scale.choices for language in LANGUAGES)
    return any(_NUMBER.fullmatch(label.strip()) for label in labels)


def _in_range(number: float, criterion: Criterion) -> float:
    bounds = criterion.scale.bounds
    assert bounds is not None
    # This also refuses infinities, which JSON can spell as 1e999.
    if not bounds[0] <= number <= bounds[1]:
        raise VerdictError(f"the verdict {quote(number)} is not {_expected_form(criterion)}")
    return float(number)


def _expected_form(criterion: Criterion) -> str:
    if criterion.scale.kind != "range" or criterion.scale.bounds is None:
        return "one of the labels"
    low, high = criterion.scale.bounds
    return f"a number from {low:g} to {high:g}"


def quote(value: object) -> str:
    text = encodable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 80 else f"{text[:80]}…"


def publishable_text(value: object) -> str:
    """Return a text that can be published: encodable, and of bounded length."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = encodable(text).strip()
    return text if len(text) <= MAX_EXPLANATION_CHARS else f"{text[: MAX_EXPLANATION_CHARS - 1]}…"
