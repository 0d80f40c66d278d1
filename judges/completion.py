"""Reads a model's completion as one verdict on a scale of levels, or says why it is none.

Nothing is guessed: a completion that could be read in two ways, or that only looks like a verdict, is invalid.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from judges.criteria import Criterion, Levels
from judges.interaction import Language

PARSER_VERSION = 1
"""Raised when the same completion may be read differently than before: it is part of a judge's identity."""

NOT_APPLICABLE = "not_applicable"

MAX_EXPLANATION_CHARS = 4000
"""What is published of an explanation; an endpoint that ignores its token limit could send megabytes."""

_NOT_APPLICABLE_WORDS = frozenset({NOT_APPLICABLE, "not applicable", "неприменимо"})
_REFUSAL_WINDOW = 400

# At the top level only an object or a reasoning block can begin; everything else is preamble, fence or afterword.
_TOP = re.compile(r"<think(?:ing)?>|\{", re.IGNORECASE)
_THINK = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
# A string that never ends runs to the end of the text, so that no part of the text is scanned twice.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[{}]', re.DOTALL)
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.0+)?", re.ASCII)
_NUMBER_AND_LABEL = re.compile(r"([+-]?\d{1,9})\s*[-–—:.)=]\s*(\S.*)", re.ASCII | re.DOTALL)
_REFUSAL = re.compile(
    r"\b(?:i\s*['’]?\s*a?m\s+(?:sorry|unable|not\s+able)|sorry|unfortunately|i\s+(?:can\s*not|can['’]t|won['’]t)"
    r"|as\s+an\s+ai|извините|простите|к\s+сожалению|не\s+могу|не\s+в\s+состоянии|отказываюсь"
    r"|как\s+(?:ии|языковая\s+модель))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Valid:
    """A verdict: a level, or None where the model found that the criterion does not apply."""

    level: int | None
    explanation: str = ""
    feedback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """No verdict, and why, in words that the model can be shown."""

    reason: str


Parsed = Valid | Invalid


class _VerdictError(ValueError):
    """Leaves the parser's inner functions with the reason, and never the module."""


def parse_level(text: str | None, criterion: Criterion, language: Language) -> Parsed:
    """The verdict in a completion. Labels count in both languages; where they clash, `language` decides."""
    if text is None or not text.strip():
        return Invalid(reason="the output is empty")
    try:
        found = _the_object(text)
        level = _level(found["verdict"], criterion, language)
        explanation, feedback = _prose(found.get("explanation")), _prose(found.get("feedback"))
    except _VerdictError as error:
        return Invalid(reason=str(error))
    except RecursionError:
        return Invalid(reason="the JSON object is nested too deeply")
    return Valid(level=level, explanation=explanation, feedback=feedback or None)


def _the_object(text: str) -> Mapping[str, object]:
    """The one JSON object with a verdict that stands outside the reasoning."""
    candidates = _candidates(text)
    verdicts = [item for item in map(_decoded, candidates) if item is not None and "verdict" in item]
    if not verdicts:
        raise _VerdictError(_why_none(text, has_object=bool(candidates)))
    if any(other != verdicts[0] for other in verdicts[1:]):
        raise _VerdictError("the output has more than one JSON object with a verdict")
    return verdicts[0]


def _candidates(text: str) -> list[str]:
    """The balanced `{…}` spans outside reasoning blocks; a block that is never closed runs to the end."""
    found: list[str] = []
    position = 0
    while match := _TOP.search(text, position):
        if match[0] == "{":
            position = _end_of_object(text, match.start())
            found.append(text[match.start() : position])
        elif end := _THINK_END.search(text, match.end()):
            position = end.end()
        else:
            break
    return found


def _end_of_object(text: str, start: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                return token.end()
    # Looking inside an unfinished object could find a verdict that it only quotes.
    raise _VerdictError("the JSON object is not complete")


def _decoded(candidate: str) -> Mapping[str, object] | None:
    """The object, or None for one without a verdict; a verdict that is not JSON is an error, not prose."""
    # Without the word, and without an escape that could spell it, there is nothing to decode.
    if "verdict" not in candidate and "\\" not in candidate:
        return None
    try:
        # Not strict: a line break inside a string is a slip that changes no meaning.
        found: dict[str, object] = json.loads(
            candidate, strict=False, object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except _VerdictError:
        raise
    except ValueError:
        if "verdict" in candidate:
            raise _VerdictError("the output is not valid JSON") from None
        return None
    return found


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _VerdictError("a key of the JSON object occurs twice")
    return result


def _no_constant(name: str) -> None:
    raise _VerdictError(f"{name} is not a verdict")


def _why_none(text: str, *, has_object: bool) -> str:
    if _REFUSAL.search(_visible(text)[:_REFUSAL_WINDOW]):
        return "the output is a refusal"
    return "the JSON object has no key `verdict`" if has_object else "the output has no JSON object"


def _visible(text: str) -> str:
    """The text without reasoning blocks, for telling a refusal from chatter."""
    closed = list(_THINK_END.finditer(text))
    rest = text[closed[-1].end() :] if closed else text
    opened = _THINK.search(rest)
    return rest[: opened.start()] if opened else rest


def _level(verdict: object, criterion: Criterion, language: Language) -> int | None:
    """The level that a verdict names, None for not applicable."""
    scale = criterion.scale
    if isinstance(verdict, str):
        return _level_of_text(verdict, criterion, language)
    if isinstance(verdict, bool) or not isinstance(verdict, int | float):
        raise _VerdictError(f"the verdict must be one of the labels, not {_quoted(verdict)}")
    if verdict not in scale.values:
        raise _VerdictError(f"the verdict {_quoted(verdict)} is not on the scale")
    return int(verdict)


def _level_of_text(verdict: str, criterion: Criterion, language: Language) -> int | None:
    scale, text = criterion.scale, verdict.strip()
    level = _level_of_label(text, scale, language)
    if level is not None:
        return level
    if text.casefold() in _NOT_APPLICABLE_WORDS:
        if criterion.not_applicable is None:
            raise _VerdictError(f"the verdict {NOT_APPLICABLE} is not allowed for this criterion")
        return None
    if _WHOLE_NUMBER.fullmatch(text) and float(text) in scale.values:
        return int(float(text))
    both = _NUMBER_AND_LABEL.fullmatch(text)
    if both and _level_of_label(both[2], scale, language) == int(both[1]):
        return int(both[1])
    raise _VerdictError(f"the verdict {_quoted(verdict)} is not one of the labels")


def _level_of_label(text: str, scale: Levels, language: Language) -> int | None:
    wanted = text.casefold()
    other: Language = "en" if language == "ru" else "ru"
    for spoken in (language, other):
        for level in scale.levels:
            if level.label.of(spoken).strip().casefold() == wanted:
                return level.value
    return None


def _quoted(value: object) -> str:
    text = _encodable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 80 else f"{text[:80]}…"


def _prose(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = _encodable(text).strip()
    return text if len(text) <= MAX_EXPLANATION_CHARS else f"{text[: MAX_EXPLANATION_CHARS - 1]}…"


def _encodable(text: str) -> str:
    """JSON escapes can spell half a surrogate pair, which has no UTF-8 form and could not be published."""
    return text.encode("utf-8", "replace").decode()
