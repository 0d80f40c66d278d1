"""Detects completions that took their verdict, or instructions, from the judged text.

A judge must read the text, so it also reads any instructions in it. But a completion that repeats them can be detected:

- a verdict that occurs in the judged text exactly as in the completion was copied: the sample is invalid;
- instructions to the judge that the completion repeats outside quotation marks flag the verdict as `suspect`.

Texts are compared word by word (see `skeleton`): spacing, quoting, escapes and lookalike letters do not matter.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from judges.llm.completion import (
    Invalid,
    Parsed,
    Valid,
    begins_with_reasoning,
    combine_parts,
    has_reasoning,
    strip_reasoning,
)
from judges.llm.prompts.layout import split_prompt
from judges.llm.prompts.lookalikes import joint_skeleton, skeleton
from judges.models.base import ChatMessage

CANARY_VERSION = 1
"""Incremented when the same completion may be classified differently than before."""

COPIED = "the verdict may be copied from the judged text, where it stands too"

# A longer completion is cut off here: an endpoint that ignores its token limit must not cost seconds.
_MAX_CHARS = 8000
# Shorter runs occur when people talk about instructions; a model that follows an instruction repeats all of it.
_RUN_WORDS = 6
_NEAR_CHARS = 200
# A verdict is a copy if this many words next to it are those of the judged text.
_COPIED_WORDS = 6

_TAGGED = re.compile(r"\[result\]\W*\w+|<score>\s*\w+\s*</score>", re.IGNORECASE)
_OBJECT = re.compile(r"\{[^{}]*\}")
_QUOTED = re.compile(r"“[^“”]*”|«[^«»]*»|„[^„“”]*[“”]|‘[^‘’]*’|\"[^\"]*\"|`[^`]*`|(?<!\w)'[^'\n]*'(?!\w)")

_JUDGE = "judge evaluator grader rater судь оценщик проверяющ"
_SCORE = "verdict score rating grade mark points вердикт оценк балл"
_MUST = "is are must should shall will has be должен должна должно есть будет"
_RULES = "instruction prompt rule guideline criteri rubric task инструкц указани правил промпт критери задани"
# Word stems: an instruction has one from each line, in this order. A single line matches in any handbook.
_INSTRUCTIONS = (
    (
        "ignore ignoring disregard forget override bypass игнорир проигнорир забудь забудьте отмени обращай",
        "previous above prior earlier all any every your предыдущ прежн все всех любые выше ваш сво",
        _RULES,
    ),
    (
        "give assign output return reply respond answer write set choose select mark say print put record "
        "поставь ставь выстави выведи верни ответь напиши выбери присво отметь назови дай укажи запиши",
        "verdict вердикт",
    ),
    (
        "give assign award rate score grade mark put deserve поставь ставь выстави оцени присво дай заслуж",
        "highest maximum maximal full top perfect best наивысш максимальн высш лучш отличн",
        _SCORE,
    ),
    ("correct right final only expected proper верн правильн итогов единственн окончательн", _SCORE, _MUST),
    ("verdict вердикт", _MUST),
    ("note attention dear message instruction внимани уважаем обращени сообщени инструкци", _JUDGE),
    ("system систем", "prompt override instruction промпт инструкц указани"),
    (
        "reveal repeat print show disclose leak output quote раскрой повтори покажи выведи процитируй",
        "system hidden initial your above систем скрыт исходн сво ваш",
        "prompt instruction промпт инструкц",
    ),
    (
        "you pretend imagine become ты вы представь притворись",
        "now longer only теперь больше только",
        f"{_JUDGE} {_RULES}",
    ),
)


def _near(*groups: str) -> str:
    """Return a pattern for words with these stems, one from each group, in this order and close together."""
    return r"\b" + r"(?: \w+){0,4}? ".join(f"(?:{'|'.join(map(_beginning, group.split()))})" for group in groups)


def _beginning(stem: str) -> str:
    return rf"{skeleton(stem)}\b" if len(stem) < 4 else rf"{skeleton(stem)}\w*"


_INSTRUCTION = re.compile("|".join(_near(*groups) for groups in _INSTRUCTIONS))


class InjectionProbe:
    """Compares the completions of one task with the texts that the task shows."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._messages = messages

    def check(self, text: str | None, parsed: Parsed) -> Parsed:
        """Return the sample as it counts: invalid if its verdict was copied, flagged if it repeats instructions."""
        if not text or not self._judged.strip():
            return parsed
        if isinstance(parsed, Valid) and parsed.parts:
            return combine_parts({name: self.check(text, part) for name, part in parsed.parts.items()})
        if isinstance(parsed, Invalid) and parsed.usable is not None:
            verdict = self.check(text, parsed.usable)
            return verdict if isinstance(verdict, Invalid) else replace(parsed, suspect=verdict.suspect, usable=verdict)
        if isinstance(parsed, Valid) and self._is_copied(text, parsed):
            return Invalid(reason=COPIED, suspect=True)
        return replace(parsed, suspect=self._repeats_instructions(text, parsed))

    @cached_property
    def _parts(self) -> tuple[list[str], list[str]]:
        return split_prompt(self._messages)

    @cached_property
    def _judged(self) -> str:
        return f" {joint_skeleton(*self._parts[0])} "

    @cached_property
    def _own(self) -> str:
        return f" {joint_skeleton(*self._parts[1])} "

    def _judged_text_has(self, words: str) -> bool:
        """Whether the judged texts contain these words in sequence, as whole words."""
        return bool(words) and f" {words} " in self._judged

    def _is_copied(self, text: str, parsed: Valid) -> bool:
        if parsed.source:
            return _contains_object(parsed.source, self._judged_text_has)
        if has_reasoning(text) and has_reasoning("\n".join(self._parts[0])) and not begins_with_reasoning(text):
            # The tag may come from either text, and the tag decides which words are the answer.
            return True
        whole = skeleton(text[:_MAX_CHARS])
        # A single word is the ordinary form of a verdict, and occurs in many texts.
        copied = " " in whole and f" {whole}" in self._judged
        return copied or self._has_with_adjacent_words(strip_reasoning(text)[-_MAX_CHARS:])

    def _has_with_adjacent_words(self, text: str) -> bool:
        """Whether the judged texts contain a verdict in words together with the words next to it."""
        tags = list(_TAGGED.finditer(text))
        if not tags:
            verdict, *following = skeleton(text).split()[: _COPIED_WORDS + 1] or [""]
            # A word that occurs twice in a row is a repetition.
            needed = 1 if following[:1] == [verdict] else _COPIED_WORDS
            return len(following) >= needed and self._judged_text_has(" ".join([verdict, *following[:needed]]))
        last = skeleton(tags[-1][0])
        if not self._judged_text_has(last):
            return False
        if not last.startswith("result") or len({skeleton(tag[0]) for tag in tags}) > 1:
            return True
        before = skeleton(text[: tags[-1].start()]).split()
        copied = len(self._widen(last, [], before, 2 * _COPIED_WORDS).split()) - len(last.split())
        # Stock phrases before a result are the same everywhere: the amount of other text decides.
        return copied == 2 * _COPIED_WORDS or (copied > 0 and len(before) - copied < _COPIED_WORDS)

    def _widen(self, run: str, after: Sequence[str], before: Sequence[str], limit: int) -> str:
        """Extend the run by up to `limit` words on each side, as long as the judged texts contain it."""
        for word in after[:limit]:
            if not self._judged_text_has(f"{run} {word}"):
                break
            run = f"{run} {word}"
        for word in before[: -limit - 1 : -1]:
            if not self._judged_text_has(f"{word} {run}"):
                break
            run = f"{word} {run}"
        return run

    def _repeats_instructions(self, text: str, parsed: Parsed) -> bool:
        if isinstance(parsed, Valid) and parsed.source:
            around = strip_reasoning(text.replace(parsed.source, " "))
            text = "\n".join([around, parsed.explanation, parsed.feedback or ""])
        else:
            text = strip_reasoning(text)
        text = text[:_MAX_CHARS]
        if any("verdict" in match[0] and self._judged_text_has(skeleton(match[0])) for match in _OBJECT.finditer(text)):
            return True
        return any(self._is_repeated(run) for run in self._runs(skeleton(_QUOTED.sub(" … ", text))))

    def _is_repeated(self, run: str) -> bool:
        return run.count(" ") + 1 >= _RUN_WORDS and f" {run} " not in self._own

    def _runs(self, words: str) -> Iterator[str]:
        """Yield the runs of words around instructions that the judged texts contain, long enough to be recognized."""
        for match in _INSTRUCTION.finditer(words):
            if self._judged_text_has(match[0]):
                after = words[match.end() : match.end() + _NEAR_CHARS].split()
                before = words[max(0, match.start() - _NEAR_CHARS) : match.start()].split()
                yield self._widen(match[0], after, before, _RUN_WORDS)


def _contains_object(source: str, contains: Callable[[str], bool]) -> bool:
    """Whether a text contains the JSON object of a verdict, in this layout or another."""
    if contains(skeleton(source)):
        return True
    reply = json.loads(source, strict=False)
    verdict, explanation = skeleton(str(reply["verdict"])), skeleton(str(reply.get("explanation") or ""))
    if explanation.count(" ") >= 2:
        return contains(f"explanation {explanation}")
    # So short an explanation proves nothing by itself.
    return contains(f"verdict {verdict}") and (not explanation or contains(f"explanation {explanation}"))
