"""One case, read once and shared by all six assessors."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from judges.local.finding import CannotJudgeError, say
from judges.local.language.places import find_places
from judges.local.language.quantity import QuantityFacts
from judges.local.language.sentence import Sentence
from judges.local.language.text import Passage, clean, passage_of, read
from judges.local.lexicon import Lexicon
from judges.values.interaction import Case, Language

# Longer texts are judged by their beginning. 20,000 characters are some 3,500 words, far beyond any answer a person
# reads; the limit on contexts keeps one case below a fifth of a second on one core.
ANSWER_LIMIT = 20_000
QUESTION_LIMIT = 5_000
CONTEXTS_LIMIT = 150_000

# Characters of the user's earlier turns that are read for facts, newest turns first.
HISTORY_LIMIT = 20_000

# The search for harm covers the whole answer up to this length; beyond it, the beginning and the end.
HARM_LIMIT = 300_000
HARM_END = 100_000

# Number of cached contexts, and the maximum length of one: at most some 20 MB.
CACHED_CONTEXTS = 512
CACHED_CONTEXT_CHARS = 2_000

# A question with fewer content words ("And how long?") is understood from the question before it.
_FEW = 2

# The beginning of a turn of the user; "userbot" is someone else.
_ASKER = re.compile(
    r"\s*(?:end[ _-]?)?(?:user|human|customer|client|visitor|guest|пользователь|клиент|покупатель|посетитель|гость)"
    r"(?![^\W\d_]|-)[^:\n]{0,64}:",
    re.IGNORECASE,
)

# First words of a follow-up that is not a full sentence ("And for children?", «А детям?»).
_CONTINUATIONS = frozenset({"and", "or", "but", "also", "а", "и", "но", "или", "ну"})

# A sentence of a context is evidence for a question if it matches this share of the question's words, and nearly as
# many as the best one. A word elsewhere in the same context counts half, because headings and first sentences name the
# subject that later ones omit.
_EVIDENCE = 0.3
_NEAR_BEST = 0.75
_SURROUNDINGS = 0.5

# Share of letters of other alphabets from which the text is in a language that the rules do not know.
_FOREIGN_SHARE = 0.5
_LETTER = re.compile(r"[^\W\d_]")
_FOREIGN_LETTER = re.compile(r"[^\W\d_A-Za-z\u00c0-\u024f\u0400-\u04ff]")

# A text with a higher share of Cyrillic words is Russian; contexts with a lower share of words in the answer's language
# cannot support it.
_MOSTLY = 0.5
_TOO_FEW = 0.1
_CYRILLIC = re.compile("[\u0400-\u04ff]")


_SILENCE = Passage(sentences=(), content=frozenset(), stems=frozenset(), facts=QuantityFacts())


class Evidence(NamedTuple):
    sentences: tuple[Sentence, ...]
    contexts: tuple[Passage, ...]
    """The contexts of these sentences."""


class Sources:
    """The passages that may support an answer, and their words and facts together."""

    def __init__(self, passages: tuple[Passage, ...]) -> None:
        self.passages = passages
        self.only_names: dict[str, bool] = {}
        """Whether a stem is never written with a small letter; `contradiction` fills it."""

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

    def add_sentences(self, sentences: Iterable[Sentence]) -> "Sources":
        """Return sources with more sentences, each as a separate passage."""
        return Sources((*self.passages, *map(passage_of, sentences)))


class CaseReading:
    """The texts of a case as the assessors use them, each computed at its first use."""

    def __init__(self, case: Case, field: str, lexicon: Lexicon, context_cache: dict[str, Passage]) -> None:
        self.case = case
        self._context_cache = context_cache
        self.lexicon = lexicon
        self.language: Language = case.language
        self._field = field
        self._evidence: dict[frozenset[str], Evidence] = {}
        self.empty: dict[Sentence, bool] = {}
        """Whether a sentence of the answer says nothing; `padding` fills it."""
        self.context_indexes: tuple[int, ...] = ()
        """The place of each of `contexts` in the record, which may have empty ones; `contexts` fills it."""

    @cached_property
    def raw_answer(self) -> str:
        return self.case.text(self._field)

    @cached_property
    def full_answer(self) -> str:
        """The whole answer, cleaned: harm may be at the very end. Of an endless one, the beginning and the end."""
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
    def answer_places(self) -> list[range] | None:
        """Where each sentence of `answer` is in the answer as logged; None if that is unknown."""
        if self.endless:  # its end follows its beginning directly, and may be among the sentences
            return None
        return find_places(self.raw_answer, self.full_answer, (sentence.text for sentence in self.answer.sentences))

    @cached_property
    def question(self) -> Passage:
        return read(self.full_question[:QUESTION_LIMIT], self.lexicon)

    @cached_property
    def full_question(self) -> str:
        """The question, cleaned; cleaning can make it longer than the limit for reading."""
        return clean(self.case.text("question")[:QUESTION_LIMIT])

    @cached_property
    def contexts(self) -> tuple[Passage, ...]:
        texts = self.case.items("contexts")
        limit = _fair_limit([len(text) for text in texts], CONTEXTS_LIMIT)
        passages = {index: self._context(text[:limit]) for index, text in enumerate(texts)}
        self.context_indexes = tuple(index for index, passage in passages.items() if passage.sentences)
        return tuple(passages[index] for index in self.context_indexes)

    def _context(self, text: str) -> Passage:
        """Read a context; the latest ones are cached, because many questions retrieve the same passages."""
        passage = self._context_cache.get(text)
        if passage is None:
            passage = read(clean(text)[: len(text)], self.lexicon)
            if len(text) <= CACHED_CONTEXT_CHARS:
                if len(self._context_cache) >= CACHED_CONTEXTS:
                    self._context_cache.pop(next(iter(self._context_cache)))
                self._context_cache[text] = passage
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
        """The content words of the question; if it has few, also those of the question before it.

        A question that only names another subject ("And for children?") is about that subject if the contexts mention
        it: with the earlier words, passages about the earlier subject would look like better evidence.
        """
        own = self.question.content
        if not self.is_follow_up or (self.changes_subject and not own.isdisjoint(self.context_content)):
            return own
        return own | self.question_before.content

    @cached_property
    def is_follow_up(self) -> bool:
        """Whether the question has few content words and is understood from the user's turn before it."""
        return len(self.question.content) <= _FEW and bool(self.question_before.content)

    @cached_property
    def changes_subject(self) -> bool:
        """Whether the follow-up only puts another subject into the question before it."""
        words = [word for sentence in self.question.sentences for word in sentence.words]
        if not self.is_follow_up or not words:
            return False
        if self.lexicon.replaces.matches(words):
            return True
        joined = words[0] in _CONTINUATIONS or self.full_question.rstrip().endswith("?")
        return joined and self.lexicon.asks_more.isdisjoint(words)

    @cached_property
    def question_before(self) -> Passage:
        """The newest earlier turn of the user with content."""
        passages = (read(clean(text[:QUESTION_LIMIT]), self.lexicon) for text in self._user_turns)
        return next((passage for passage in passages if passage.content), _SILENCE)

    @cached_property
    def answer_before(self) -> Passage:
        """The newest turn of anyone but the user, to which a follow-up refers."""
        turns = (turn.partition(":")[2] for turn in reversed(self.case.items("history")) if not _ASKER.match(turn))
        return read(clean(next(turns, "")[:QUESTION_LIMIT]), self.lexicon)

    @cached_property
    def user_statements(self) -> tuple[Sentence, ...]:
        """Facts that the user stated in earlier turns: no questions, and no statements of the assistant."""
        remaining, statements = HISTORY_LIMIT, list[Sentence]()
        for text in self._user_turns:
            statements += filter(self._states, read(clean(text[:remaining]), self.lexicon).sentences)
            remaining -= len(text)
            if remaining <= 0:
                break
        return tuple(statements)

    def _states(self, sentence: Sentence) -> bool:
        if not sentence.content or sentence.text.rstrip("\"'»”").endswith("?"):
            return False
        return self.lexicon.asks_more.isdisjoint(sentence.words[:1])

    @cached_property
    def _user_turns(self) -> tuple[str, ...]:
        """The earlier turns of the user, newest first, without the role."""
        matches = ((_ASKER.match(turn), turn) for turn in reversed(self.case.items("history")))
        return tuple(turn[match.end() :] for match, turn in matches if match)

    def evidence(self, stems: frozenset[str]) -> Evidence:
        """Return the sentences of the contexts that contain these stems, themselves or in their context."""
        evidence = self._evidence.get(stems)
        if evidence is None:
            evidence = self._evidence[stems] = self._search(stems)
        return evidence

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
        """Whether the answer, after any courtesies, begins by declining to answer."""
        for sentence in self.answer.sentences:
            if sentence.refuses:
                return True
            if sentence.content and not sentence.polite and not sentence.opens:
                return False
        return False

    @cached_property
    def agrees(self) -> bool:
        """Whether the answer is a bare yes or no."""
        words = [word for sentence in self.answer.sentences for word in sentence.words[:1]]
        return bool(words) and words[0] in self.lexicon.agreement and not self.answer.content

    @property
    def cut(self) -> str:
        """A remark for the explanation if the answer was read only in part."""
        if len(self.full_answer) <= ANSWER_LIMIT:
            return ""
        return say(
            self.language,
            en=f" Only the first {ANSWER_LIMIT} characters were read.",
            ru=f" Прочитаны только первые {ANSWER_LIMIT} знаков.",
        )

    @cached_property
    def cut_fields(self) -> frozenset[str]:
        """The fields that are read only in part."""
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
        """Refuse a text in another alphabet: the rules know only English and Russian words."""
        if self._foreign:
            raise CannotJudgeError("the answer is in an alphabet other than Latin and Cyrillic")

    def need_one_script(self) -> None:
        """Refuse an answer and contexts in different languages: Russian and English words cannot be compared."""
        self.need_same_script(self.answer.content, "the answer and the contexts are in different languages")

    def need_same_script(self, stems: frozenset[str], problem: str) -> None:
        """Refuse contexts in which hardly any word is in the alphabet of these stems."""
        contexts = self.context_content
        russian = _cyrillic_share(stems) > _MOSTLY
        shared = _cyrillic_share(contexts) if russian else 1.0 - _cyrillic_share(contexts)
        if stems and contexts and shared < _TOO_FEW:
            raise CannotJudgeError(problem)


def _cyrillic_share(stems: frozenset[str]) -> float:
    if "".join(stems).isascii():
        return 0.0
    return len(list(filter(_CYRILLIC.search, stems))) / len(stems)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _fair_limit(lengths: Sequence[int], budget: int) -> int:
    """Return the length to cut each text to, so that all fit the budget; the order of the texts does not matter."""
    remaining = budget
    for place, length in enumerate(sorted(lengths)):
        share = remaining // (len(lengths) - place)
        if length > share:
            return max(1, share)
        remaining -= length
    return max(lengths, default=1)
