"""Detects a completion that took its verdict, or instructions, from the judged text instead of from the judge.

A judge must read the text, so instructions in it cannot be kept from the judge. But it can be detected whether the
words come back:

- a verdict that stands in the judged text as it stands in the completion was copied: the sample is invalid;
- instructions to the judge that the completion repeats outside quotation marks make the verdict `suspect`, a flag.

All comparisons are of words (see `skeleton`): neither spacing, quoting and escapes nor lookalike letters matter.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from judges.llm.completion import Invalid, Parsed, Valid, begins_with_reasoning, has_reasoning, visible, whole_of
from judges.llm.prompts.layout import parted
from judges.llm.prompts.lookalikes import joint_skeleton, skeleton
from judges.models.base import ChatMessage

CANARY_VERSION = 1
"""Raised when the same completion may be found a copy, or suspect, where it was not before."""

COPIED = "the verdict may be copied from the judged text, where it stands too"

# A completion of megabytes is cut off here: an endpoint that ignores its token limit must not cost seconds.
_MAX_CHARS = 8000
# Shorter runs of words are how people speak of instructions; an instruction that is carried out comes back whole.
_RUN_WORDS = 6
_NEAR_CHARS = 200
# So many words beside a verdict that are those of the judged text make a copy of it.
_COPIED_WORDS = 6

_TAGGED = re.compile(r"\[result\]\W*\w+|<score>\s*\w+\s*</score>", re.IGNORECASE)
_OBJECT = re.compile(r"\{[^{}]*\}")
_QUOTED = re.compile(r"“[^“”]*”|«[^«»]*»|„[^„“”]*[“”]|‘[^‘’]*’|\"[^\"]*\"|`[^`]*`|(?<!\w)'[^'\n]*'(?!\w)")

_JUDGE = "judge evaluator grader rater судь оценщик проверяющ"
_SCORE = "verdict score rating grade mark points вердикт оценк балл"
_MUST = "is are must should shall will has be должен должна должно есть будет"
_RULES = "instruction prompt rule guideline criteri rubric task инструкц указани правил промпт критери задани"
# The beginnings of words, of which one from each line must follow the other. Each line alone is found in any handbook.
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
    """Words that begin so, one from each group in this order, and not far from each other."""
    return r"\b" + r"(?: \w+){0,4}? ".join(f"(?:{'|'.join(map(_beginning, group.split()))})" for group in groups)


def _beginning(stem: str) -> str:
    return rf"{skeleton(stem)}\b" if len(stem) < 4 else rf"{skeleton(stem)}\w*"


_INSTRUCTION = re.compile("|".join(_near(*groups) for groups in _INSTRUCTIONS))


class InjectionProbe:
    """Compares the completions of one task with the texts that the task shows."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._messages = messages

    def checked(self, text: str | None, parsed: Parsed) -> Parsed:
        """The sample as it counts."""
        if not text or not self._judged.strip():
            return parsed
        if isinstance(parsed, Valid) and parsed.parts:
            return whole_of({name: self.checked(text, part) for name, part in parsed.parts.items()})
        if isinstance(parsed, Invalid) and parsed.usable is not None:
            verdict = self.checked(text, parsed.usable)
            return verdict if isinstance(verdict, Invalid) else replace(parsed, suspect=verdict.suspect, usable=verdict)
        if isinstance(parsed, Valid) and self._copied(text, parsed):
            return Invalid(reason=COPIED, suspect=True)
        return replace(parsed, suspect=self._repeats(text, parsed))

    @cached_property
    def _parts(self) -> tuple[list[str], list[str]]:
        return parted(self._messages)

    @cached_property
    def _judged(self) -> str:
        return f" {joint_skeleton(*self._parts[0])} "

    @cached_property
    def _own(self) -> str:
        return f" {joint_skeleton(*self._parts[1])} "

    def _has(self, words: str) -> bool:
        """Whether the words stand in the judged texts one after the other, as whole words."""
        return bool(words) and f" {words} " in self._judged

    def _copied(self, text: str, parsed: Valid) -> bool:
        if parsed.source:
            return _fits(parsed.source, self._has)
        if has_reasoning(text) and has_reasoning("\n".join(self._parts[0])) and not begins_with_reasoning(text):
            # Either of the two could have written the tag, and with it which words are the answer.
            return True
        whole = skeleton(text[:_MAX_CHARS])
        # One word is the form of a verdict, and stands in many a text.
        copied = " " in whole and f" {whole}" in self._judged
        return copied or self._has_with_words_beside(visible(text)[-_MAX_CHARS:])

    def _has_with_words_beside(self, text: str) -> bool:
        """Whether a verdict in words stands in the judged texts together with what is written beside it."""
        tags = list(_TAGGED.finditer(text))
        if not tags:
            verdict, *beside = skeleton(text).split()[: _COPIED_WORDS + 1] or [""]
            # Nobody says the same word twice but to repeat it.
            needed = 1 if beside[:1] == [verdict] else _COPIED_WORDS
            return len(beside) >= needed and self._has(" ".join([verdict, *beside[:needed]]))
        last = skeleton(tags[-1][0])
        if not self._has(last):
            return False
        if not last.startswith("result") or len({skeleton(tag[0]) for tag in tags}) > 1:
            return True
        before = skeleton(text[: tags[-1].start()]).split()
        copied = len(self._widened(last, [], before, 2 * _COPIED_WORDS).split()) - len(last.split())
        # Stock phrases before a result are the same everywhere: what tells is how much else was said, if anything.
        return copied == 2 * _COPIED_WORDS or (copied > 0 and len(before) - copied < _COPIED_WORDS)

    def _widened(self, run: str, after: Sequence[str], before: Sequence[str], most: int) -> str:
        """The run with those of the words around it, at most so many a side, that stand around it in the texts too."""
        for word in after[:most]:
            if not self._has(f"{run} {word}"):
                break
            run = f"{run} {word}"
        for word in before[: -most - 1 : -1]:
            if not self._has(f"{word} {run}"):
                break
            run = f"{word} {run}"
        return run

    def _repeats(self, text: str, parsed: Parsed) -> bool:
        if isinstance(parsed, Valid) and parsed.source:
            around = visible(text.replace(parsed.source, " "))
            text = "\n".join([around, parsed.explanation, parsed.feedback or ""])
        else:
            text = visible(text)
        text = text[:_MAX_CHARS]
        if any("verdict" in found[0] and self._has(skeleton(found[0])) for found in _OBJECT.finditer(text)):
            return True
        return any(self._repeated(run) for run in self._runs(skeleton(_QUOTED.sub(" … ", text))))

    def _repeated(self, run: str) -> bool:
        return run.count(" ") + 1 >= _RUN_WORDS and f" {run} " not in self._own

    def _runs(self, words: str) -> Iterator[str]:
        """The runs around instructions that stand in the judged texts, as long as is needed to tell."""
        for found in _INSTRUCTION.finditer(words):
            if self._has(found[0]):
                after = words[found.end() : found.end() + _NEAR_CHARS].split()
                before = words[max(0, found.start() - _NEAR_CHARS) : found.start()].split()
                yield self._widened(found[0], after, before, _RUN_WORDS)


def _fits(source: str, stands: Callable[[str], bool]) -> bool:
    """Whether the object of a verdict stands in a text, laid out in another way or not."""
    if stands(skeleton(source)):
        return True
    found = json.loads(source, strict=False)
    verdict, explanation = skeleton(str(found["verdict"])), skeleton(str(found.get("explanation") or ""))
    if explanation.count(" ") >= 2:
        return stands(f"explanation {explanation}")
    # So short an explanation tells nothing alone.
    return stands(f"verdict {verdict}") and (not explanation or stands(f"explanation {explanation}"))
