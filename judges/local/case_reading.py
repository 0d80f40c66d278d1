"""One case, read once and shared by all six assessors."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from judges.local.finding import CannotJudgeError, say
from judges.local.language.quantity import QuantityFacts
from judges.local.language.sentence import Sentence
from judges.local.language.text import Passage, clean, passage_of, read
from judges.local.lexicon import Lexicon
from judges.values.interaction import Case, Language

# Longer texts are judged by their beginning. 20,000 characters are some 3,500 words, far beyond any answer a person
# reads; the contexts' share is what keeps one case below a fifth of a second on one core.
ANSWER_LIMIT = 20_000
QUESTION_LIMIT = 5_000
CONTEXTS_LIMIT = 150_000

# Of the conversation before the question, this much of the newest turns of the person who asks is read for facts.
HISTORY_LIMIT = 20_000

# Harm is looked for everywhere, up to this length; beyond it, in the beginning and the end.
HARM_LIMIT = 300_000
HARM_END = 100_000

# Contexts that stay read, and how long one may be: at most some 20 MB.
REMEMBERED = 512
REMEMBERED_LENGTH = 2_000

# A question with fewer content words ("And how long?") is understood from the question before it.
_FEW = 2

# How the turns of the person who asks begin; "userbot" is somebody else.
_ASKER = re.compile(
    r"\s*(?:end[ _-]?)?(?:user|human|customer|client|visitor|guest|пользователь|клиент|покупатель|посетитель|гость)"
    r"(?![^\W\d_]|-)[^:\n]{0,64}:",
    re.IGNORECASE,
)

# How a follow-up begins that is no full sentence ("And for children?", «А детям?»).
_JOINED_ON = frozenset({"and", "or", "but", "also", "а", "и", "но", "или", "ну"})

# What makes a sentence of a context evidence for a question: it matches this share of the question's words, and is
# nearly as good as the best. A word found elsewhere in the same context counts half, because headings and first
# sentences name the subject that the later ones leave out.
_EVIDENCE = 0.3
_NEAR_BEST = 0.75
_SURROUNDINGS = 0.5

# Letters of other alphabets from which on the text is in a language the rules do not know.
_FOREIGN_SHARE = 0.5
_LETTER = re.compile(r"[^\W\d_]")
_FOREIGN_LETTER = re.compile(r"[^\W\d_A-Za-z\u00c0-\u024f\u0400-\u04ff]")

# A text with more Cyrillic words is Russian; contexts with fewer words of the answer's language cannot support it.
_MOSTLY = 0.5
_TOO_FEW = 0.1
_CYRILLIC = re.compile("[\u0400-\u04ff]")


_SILENCE = Passage(sentences=(), content=frozenset(), stems=frozenset(), facts=QuantityFacts())


class Evidence(NamedTuple):
    sentences: tuple[Sentence, ...]
    contexts: tuple[Passage, ...]
    """Those in which they stand."""


class Sources:
    """The passages that may support an answer, with all that they say together."""

    def __init__(self, passages: tuple[Passage, ...]) -> None:
        self.passages = passages

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        return tuple(sentence for passage in self.passages for sentence in passage.sentences)

    @cached_property
    def content(self) -> frozenset[str]:
        return _union(passage.content for passage in self.passages)

    @cached_property
    def stems(self) -> frozenset[str]:
        return _union(passage.stems for passage in self.passages)

    @cached_property
    def facts(self) -> QuantityFacts:
        return QuantityFacts.of([passage.facts for passage in self.passages])

    def joined_with(self, sentences: Iterable[Sentence]) -> "Sources":
        """These and some sentences, each a passage of its own."""
        return Sources((*self.passages, *map(passage_of, sentences)))


class CaseReading:
    """The texts of a case as the assessors use them, each worked out when it is first asked for."""

    def __init__(self, case: Case, field: str, lexicon: Lexicon, known: dict[str, Passage]) -> None:
        self.case = case
        self._known = known
        self.lexicon = lexicon
        self.language: Language = case.language
        self._field = field
        self._evidence: dict[frozenset[str], Evidence] = {}
        self.empty: dict[int, bool] = {}
        """Which sentences of the answer say nothing, by their id, once it is known."""

    @cached_property
    def raw_answer(self) -> str:
        return self.case.text(self._field)

    @cached_property
    def full_answer(self) -> str:
        """All of it, cleaned: harm may stand at the very end. Of an endless one, the beginning and the end."""
        text = self.raw_answer
        if len(text) > HARM_LIMIT:
            text = text[: HARM_LIMIT - HARM_END] + "\n" + text[-HARM_END:]
        return clean(text)[:HARM_LIMIT]

    @property
    def endless(self) -> bool:
        return len(self.raw_answer) > HARM_LIMIT

    @cached_property
    def answer(self) -> Passage:
        return read(self.full_answer[:ANSWER_LIMIT], self.lexicon)

    @cached_property
    def question(self) -> Passage:
        return read(self.full_question[:QUESTION_LIMIT], self.lexicon)

    @cached_property
    def full_question(self) -> str:
        """Cleaning can make it longer than what is read of it."""
        return clean(self.case.text("question")[:QUESTION_LIMIT])

    @cached_property
    def contexts(self) -> tuple[Passage, ...]:
        texts = self.case.items("contexts")
        limit = _fair_limit([len(text) for text in texts], CONTEXTS_LIMIT)
        read_texts = (self._context(text[:limit]) for text in texts)
        return tuple(passage for passage in read_texts if passage.sentences)

    def _context(self, text: str) -> Passage:
        """Services retrieve the same passages for many questions, so that those read last are remembered."""
        passage = self._known.get(text)
        if passage is None:
            passage = read(clean(text)[: len(text)], self.lexicon)
            if len(text) <= REMEMBERED_LENGTH:
                if len(self._known) >= REMEMBERED:
                    self._known.pop(next(iter(self._known)))
                self._known[text] = passage
        return passage

    @cached_property
    def context_sources(self) -> Sources:
        return Sources(self.contexts)

    @property
    def context_sentences(self) -> tuple[Sentence, ...]:
        return self.context_sources.sentences

    @property
    def context_content(self) -> frozenset[str]:
        return self.context_sources.content

    @property
    def context_facts(self) -> QuantityFacts:
        return self.context_sources.facts

    @cached_property
    def topic(self) -> frozenset[str]:
        """The content words of the question, with those of the question before it when it has few of its own.

        A question that only names another subject ("And for children?") is about that subject if the contexts know it:
        with the earlier words, passages about the earlier subject would look like the better evidence.
        """
        own = self.question.content
        if not self.is_follow_up or (self.changes_subject and not own.isdisjoint(self.context_content)):
            return own
        return own | self.question_before.content

    @cached_property
    def is_follow_up(self) -> bool:
        """The question has few words of its own and is understood from the user's turn before it."""
        return len(self.question.content) <= _FEW and bool(self.question_before.content)

    @cached_property
    def changes_subject(self) -> bool:
        """The follow-up asks nothing itself: it puts another subject into the question before it."""
        words = [word for sentence in self.question.sentences for word in sentence.words]
        if not self.is_follow_up or not words:
            return False
        if self.lexicon.replaces.matches(words):
            return True
        joined = words[0] in _JOINED_ON or self.full_question.rstrip().endswith("?")
        return joined and self.lexicon.asks_more.isdisjoint(words)

    @cached_property
    def question_before(self) -> Passage:
        """The newest turn of the person who asks that says something."""
        passages = (read(clean(text[:QUESTION_LIMIT]), self.lexicon) for text in self._user_turns)
        return next((passage for passage in passages if passage.content), _SILENCE)

    @cached_property
    def answer_before(self) -> Passage:
        """The newest turn of anybody else, which is what a follow-up follows."""
        turns = (turn.partition(":")[2] for turn in reversed(self.case.items("history")) if not _ASKER.match(turn))
        return read(clean(next(turns, "")[:QUESTION_LIMIT]), self.lexicon)

    @cached_property
    def user_statements(self) -> tuple[Sentence, ...]:
        """Facts that the user stated in earlier turns: not their questions, and not what the assistant said."""
        left, statements = HISTORY_LIMIT, list[Sentence]()
        for text in self._user_turns:
            statements += filter(self._states, read(clean(text[:left]), self.lexicon).sentences)
            left -= len(text)
            if left <= 0:
                break
        return tuple(statements)

    def _states(self, sentence: Sentence) -> bool:
        if not sentence.content or sentence.text.rstrip("\"'»”").endswith("?"):
            return False
        return self.lexicon.asks_more.isdisjoint(sentence.words[:1])

    @cached_property
    def _user_turns(self) -> tuple[str, ...]:
        """The earlier turns of the person who asks, newest first, without the role."""
        matches = ((_ASKER.match(turn), turn) for turn in reversed(self.case.items("history")))
        return tuple(turn[match.end() :] for match, turn in matches if match)

    def evidence(self, stems: frozenset[str]) -> Evidence:
        """The sentences of the contexts that speak of these words, in their own words or in their surroundings."""
        found = self._evidence.get(stems)
        if found is None:
            found = self._evidence[stems] = self._search(stems)
        return found

    def _search(self, stems: frozenset[str]) -> Evidence:
        scored = [
            (own + _SURROUNDINGS * (around - own), sentence, place)
            for place, context in enumerate(self.contexts)
            if (around := len(stems & context.content))
            for sentence in context.sentences
            for own in (len(stems & sentence.content),)
        ]
        best = max((score for score, _, _ in scored), default=0.0)
        least = max(_EVIDENCE * len(stems), _NEAR_BEST * best)
        near = [(sentence, place) for score, sentence, place in scored if score >= least]
        places = dict.fromkeys(place for _, place in near)
        return Evidence(tuple(sentence for sentence, _ in near), tuple(self.contexts[place] for place in places))

    @cached_property
    def refuses(self) -> bool:
        """The answer says first of all, courtesies aside, that it does not answer."""
        for sentence in self.answer.sentences:
            if sentence.refuses:
                return True
            if sentence.content and not sentence.polite and not sentence.opens:
                return False
        return False

    @cached_property
    def agrees(self) -> bool:
        """The answer is a bare yes or no."""
        words = [word for sentence in self.answer.sentences for word in sentence.words[:1]]
        return bool(words) and words[0] in self.lexicon.agreement and not self.answer.content

    @property
    def cut(self) -> str:
        """A remark for the explanation when not all of the answer was read."""
        if len(self.full_answer) <= ANSWER_LIMIT:
            return ""
        return say(
            self.language,
            en=f" Only the first {ANSWER_LIMIT} characters were read.",
            ru=f" Прочитаны только первые {ANSWER_LIMIT} знаков.",
        )

    @cached_property
    def cut_fields(self) -> frozenset[str]:
        """The fields of which not everything is read."""
        lengths = {
            self._field: (len(self.full_answer), ANSWER_LIMIT),
            "question": (len(self.case.text("question")), QUESTION_LIMIT),
            "contexts": (sum(map(len, self.case.items("contexts"))), CONTEXTS_LIMIT),
        }
        return frozenset(name for name, (length, limit) in lengths.items() if length > limit)

    @cached_property
    def _foreign(self) -> bool:
        text = self.full_answer[:ANSWER_LIMIT]
        foreign = 0 if text.isascii() else len(_FOREIGN_LETTER.findall(text))
        return foreign > 0 and foreign >= _FOREIGN_SHARE * len(_LETTER.findall(text))

    def need_known_script(self) -> None:
        """Rules for English and Russian words say nothing about a text in another alphabet."""
        if self._foreign:
            raise CannotJudgeError("the answer is in an alphabet other than Latin and Cyrillic")

    def need_one_script(self) -> None:
        """Words of Russian and of English cannot be compared with each other."""
        answer, contexts = self.answer.content, self.context_content
        russian = _cyrillic_share(answer) > _MOSTLY
        shared = _cyrillic_share(contexts) if russian else 1.0 - _cyrillic_share(contexts)
        if answer and contexts and shared < _TOO_FEW:
            raise CannotJudgeError("the answer and the contexts are in different languages")


def _cyrillic_share(stems: frozenset[str]) -> float:
    if "".join(stems).isascii():
        return 0.0
    return len(list(filter(_CYRILLIC.search, stems))) / len(stems)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _fair_limit(lengths: Sequence[int], budget: int) -> int:
    """The length to which each text is cut so that all fit the budget; it does not depend on their order."""
    left = budget
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            return max(1, share)
        left -= length
    return max(lengths, default=1)
