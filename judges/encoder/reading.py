"""Reads an answer for an encoder: its sentences with their places, and which of them the model need not see."""

import re
from dataclasses import dataclass
from functools import cached_property

from judges.encoder.inputs import AnswerSentence, split_answer
from judges.local.assessors.groundedness import claims_in
from judges.local.case_reading import CaseReading
from judges.local.language.places import find_places
from judges.local.language.text import clean, read
from judges.local.lexicon import Lexicon, plain
from judges.values.interaction import Case

_WORD = re.compile(r"[^\W_]+(?:[.,:'’-][^\W_]+)*")
# A shorter sentence ("Yes.", "In 2019.") stands in many texts by chance.
_FEWEST_WORDS = 4


@dataclass(slots=True, kw_only=True)
class AnswerReading:
    """The texts of a case, and the sentences of its answer."""

    case: Case
    field: str
    """The field under evaluation; in most cases the answer."""

    lexicon: Lexicon
    sentences: list[AnswerSentence]
    places: list[range] | None
    """Where the sentences are in the answer as logged; None if that is unknown."""

    local: CaseReading

    @property
    def question(self) -> str:
        return self.case.text("question")

    @property
    def contexts(self) -> tuple[str, ...]:
        return self.case.items("contexts")

    def find_claims(self) -> list[bool]:
        """Return for each sentence whether it claims something, as the local judge decides it."""
        return [self._has_claim(sentence.stripped) for sentence in self.sentences]

    def _has_claim(self, text: str) -> bool:
        return any(True for part in read(text, self.lexicon).sentences for _ in claims_in(part, self.local))

    def find_verbatim(self) -> list[int | None]:
        """Return for each sentence the first context in which it stands word for word; None if there is none."""
        texts = [_words(context) for context in self.contexts]
        return [self._find_in(texts, _words(sentence.stripped)) for sentence in self.sentences]

    @staticmethod
    def _find_in(texts: list[str], sentence: str) -> int | None:
        if sentence.count(" ") <= _FEWEST_WORDS:
            return None
        return next((index for index, text in enumerate(texts) if sentence in text), None)


class AnswerReader:
    """Reads answers; the lexicon is loaded with the first one."""

    @cached_property
    def lexicon(self) -> Lexicon:
        return Lexicon.load()

    def read(self, case: Case, field: str) -> AnswerReading:
        answer = case.text(field)
        sentences = split_answer(answer, self.lexicon)
        return AnswerReading(
            case=case,
            field=field,
            lexicon=self.lexicon,
            sentences=sentences,
            places=find_places(answer, clean(answer), (sentence.text for sentence in sentences)),
            local=CaseReading(case, field, self.lexicon, {}),
        )


def _words(text: str) -> str:
    """Return the words of a text in plain letters, with a space around each."""
    return f" {' '.join(_WORD.findall(plain(clean(text))))} "
