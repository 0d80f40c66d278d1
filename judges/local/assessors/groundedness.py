"""Groundedness: is every claim of the answer in the contexts, with its numbers, its names and its yes or no?

Facts that the user stated in earlier turns count as support too; where the contexts say otherwise, the contexts win.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from judges.local.case_reading import CaseReading, Sources
from judges.local.finding import Assessment, quoted, say, shorten
from judges.local.language.padding import says_nothing
from judges.local.language.quantity import Quantity, QuantityFacts
from judges.local.language.sentence import Sentence
from judges.local.language.text import read
from judges.local.lexicon import Lexicon, plain

# Share of a claim's content words that one context, or all together, must hold. A faithful paraphrase keeps two words
# in three; a sentence about the same subject that says something else shares about one in three.
IN_ONE_CONTEXT = 0.55
IN_ALL_CONTEXTS = 0.7

# Words a claim must share with the contexts before a different number in it is a contradiction and not a new subject.
SAME_SUBJECT = 0.3

# A sentence that holds this much of a claim speaks of the same thing, so that a "not" in only one of them matters.
SAME_STATEMENT = 0.7
SAME_STATEMENT_WORDS = 2

# Levels: 0 when fewer claims than this are supported or this many contradict the contexts, 2 when all are supported.
SUPPORTED_AT_LEAST = 1 / 2
CONTRADICTED_AT_MOST = 1 / 3

# Claims that are checked; the rest of a longer answer is not.
CLAIMS_LIMIT = 80

# Beyond an opener ("Sure, ..."), fewer content words than this are no claim.
_OPENER_REST = 3

_INITIALS = 3

_CLAUSES = re.compile(r";\s|,\s(?:but|while|whereas|however|а|но|однако|тогда как)\s", re.IGNORECASE)


class Support(Enum):
    YES = "yes"
    NO = "no"
    CONTRADICTED = "contradicted"


class Checked(NamedTuple):
    support: Support
    missing: tuple[str, ...]
    """What the contexts do not have, in the words of the answer."""


def assess(reading: CaseReading) -> Assessment:
    if not reading.contexts:
        return _not_applicable(reading, en="There are no contexts to compare with.", ru="Нет контекстов для сравнения.")
    reading.need_known_script()
    claims = list(claims_of(reading))
    if not claims:
        return _not_applicable(
            reading,
            en="The answer claims nothing that could be checked.",
            ru="Ответ не содержит проверяемых утверждений.",
        )
    reading.need_one_script()
    return _finding(reading, [check(claim, reading) for claim in claims[:CLAIMS_LIMIT]], len(claims))


def _not_applicable(reading: CaseReading, *, en: str, ru: str) -> Assessment:
    return Assessment(level=None, explanation=say(reading.language, en=en, ru=ru))


def _finding(reading: CaseReading, checked: list[Checked], claims: int) -> Assessment:
    total = len(checked)
    support = [claim.support for claim in checked]
    supported, contradicted = support.count(Support.YES), support.count(Support.CONTRADICTED)
    if supported == total:
        level = 2
    elif supported < SUPPORTED_AT_LEAST * total or contradicted >= CONTRADICTED_AT_MOST * total:
        level = 0
    else:
        level = 1
    missing = quoted((item for claim in checked for item in claim.missing), reading.language)
    explanation = say(
        reading.language,
        en=f"{supported} of {total} claims are supported"
        + (f"; not found in the contexts: {missing}." if missing else "."),
        ru=f"Подтверждено утверждений: {supported} из {total}"
        + (f"; нет в контекстах: {missing}." if missing else "."),
    )
    if claims > total:
        explanation += say(
            reading.language,
            en=f" Only the first {total} claims were checked.",
            ru=f" Проверены только первые {total}.",
        )
    return Assessment(level=level, explanation=explanation + reading.cut)


def claims_of(reading: CaseReading) -> Iterator[Sentence]:
    """The sentences of the answer that assert something, cut where a second assertion begins."""
    for sentence in reading.answer.sentences:
        if _asserts(sentence, reading):
            for clause in _clauses(sentence, reading.lexicon):
                if clause.content or clause.states_figures:
                    yield clause


def _asserts(sentence: Sentence, reading: CaseReading) -> bool:
    if sentence.refuses or says_nothing(sentence, reading):
        return False
    return sentence.states_figures or not sentence.opens or len(sentence.content) >= _OPENER_REST


def _clauses(sentence: Sentence, lexicon: Lexicon) -> tuple[Sentence, ...]:
    parts = [part for part in _CLAUSES.split(sentence.text) if part]
    if len(parts) < 2:
        return (sentence,)
    return tuple(clause for part in parts for clause in read(part, lexicon).sentences)


def check(claim: Sentence, reading: CaseReading) -> Checked:
    """Whether the contexts, or the user's own earlier words, support one claim, and if not, what is missing."""
    checked = _compare(claim, reading, reading.context_sources)
    if checked.support is Support.YES or _contexts_disagree(claim, reading):
        return checked
    statements = [statement for statement in reading.user_statements if _speaks_for(statement, claim, reading)]
    if not statements:
        return checked
    supported = _compare(claim, reading, reading.context_sources.joined_with(statements)).support is Support.YES
    return Checked(Support.YES, ()) if supported else checked


def _speaks_for(statement: Sentence, claim: Sentence, reading: CaseReading) -> bool:
    """It is about the same thing, so that its numbers belong to it, and does not say the opposite."""
    words = statement.content - statement.units
    return not words.isdisjoint(claim.core) and not _opposite(claim, statement, reading.lexicon)


def _compare(claim: Sentence, reading: CaseReading, sources: Sources) -> Checked:
    own = claim.content - claim.units - (reading.question.content - sources.content)
    stated = [item for item in claim.quantities if not item.soft]
    given = sum(sources.facts.support(item) for item in stated)
    numbers = [item.text for item in stated if not _known(item, reading, sources)]
    names = [
        name.text
        for name in claim.names
        if name.stem not in sources.stems
        and name.stem not in reading.question.stems
        and not _spelled_out(name.text, sources)
    ]
    covered = len(own & sources.content)
    if numbers or names:
        same_subject = covered >= SAME_SUBJECT * max(1, len(own))
        return Checked(Support.CONTRADICTED if numbers and same_subject else Support.NO, (*numbers, *names))
    if not _covered(own, given, sources):
        return Checked(Support.NO, (shorten(claim.text),))
    if _contradicted(claim, reading, sources):
        return Checked(Support.CONTRADICTED, (shorten(claim.text),))
    return Checked(Support.YES, ())


def _contexts_disagree(claim: Sentence, reading: CaseReading) -> bool:
    """The contexts make the same statement with a "not" or with another figure: no word of the user changes that."""
    return bool(reading.user_statements) and (
        _contradicted(claim, reading, reading.context_sources) or _other_figure(claim, reading)
    )


def _other_figure(claim: Sentence, reading: CaseReading) -> bool:
    """A context says the same of the same words, only with another number of the same kind."""
    words, figures = claim.core - claim.units, QuantityFacts()
    figures.add(claim.quantities)
    foreign = {item.unit for item in claim.quantities if not item.soft and not reading.context_facts.support(item)}
    rivals = [
        item
        for sentence in (reading.context_sentences if foreign else ())
        if len(words & sentence.stem_set) >= SAME_STATEMENT * len(words)
        for item in sentence.quantities
        if item.unit in foreign and not item.soft
    ]
    return bool(rivals) and not any(map(figures.support, rivals))


def _known(item: Quantity, reading: CaseReading, sources: Sources) -> bool:
    return sources.facts.support(item) or reading.question.facts.support(item)


def _covered(own: frozenset[str], given: int, sources: Sources) -> bool:
    """Enough of the claim stands in the sources; a number that does counts as a word that does."""
    total = len(own) + given
    best = given + max(len(own & passage.content) for passage in sources.passages)
    together = given + len(own & sources.content)
    return together > 0 and (best >= IN_ONE_CONTEXT * total or together >= IN_ALL_CONTEXTS * total)


def _spelled_out(name: str, sources: Sources) -> bool:
    """An abbreviation whose words stand in a context: "PTO" for "paid time off"."""
    letters = plain(name)
    if len(letters) < _INITIALS or not name.isupper():
        return False
    return any(
        letters in "".join(word[0] for word in sentence.words) for sentence in sources.sentences if sentence.words
    )


def _contradicted(claim: Sentence, reading: CaseReading, sources: Sources) -> bool:
    """The closest sentences of the sources all say the opposite."""
    lexicon, core = reading.lexicon, claim.core
    shared = [len(core & sentence.stem_set) for sentence in sources.sentences]
    best = max(shared, default=0)
    if best < SAME_STATEMENT_WORDS:
        return False
    nearest = (sentence for count, sentence in zip(shared, sources.sentences, strict=True) if count == best)
    closest = [sentence for sentence in nearest if best >= SAME_STATEMENT * _comparable(claim, sentence)]
    if not closest:
        return False
    if all(_opposite(claim, sentence, lexicon) for sentence in closest):
        return True
    return _excluded(claim, closest, (sources.stems, reading.question.stems))


def _comparable(claim: Sentence, source: Sentence) -> int:
    """How many words the claim has without those that a source which says the contrary cannot have."""
    if not claim.exclusive:
        return len(claim.core)
    return len(claim.core - ((claim.lexicon.exclusive_stems & claim.core) - source.stem_set))


def _excluded(claim: Sentence, closest: list[Sentence], known: Sequence[frozenset[str]]) -> bool:
    """The claim says "monthly" where the contexts never do and the closest sentence says "weekly"."""
    return any(
        all(stems.isdisjoint(group & claim.stem_set) for stems in known)
        and all(group & other.stem_set for other in closest)
        for group in claim.exclusive
    )


def _opposite(claim: Sentence, source: Sentence, lexicon: Lexicon) -> bool:
    """One side denies what the other, without any denial of its own, affirms."""
    denied_by_claim, denied_by_source = claim.denied, source.denied
    if denied_by_claim and denied_by_source:
        return False
    if denied_by_claim:
        # "Do not paste it" can follow from a source that says what happens when it is pasted.
        return not _is_order(claim, lexicon) and any(
            _only(stem, denied_by_claim, claim, source) for stem in denied_by_claim
        )
    if denied_by_source:
        return any(_only(stem, denied_by_source, source, claim) for stem in denied_by_source)
    return _prefixed(claim, source, lexicon) or _prefixed(source, claim, lexicon)


def _only(stem: str, under: list[str], denying: Sentence, affirming: Sentence) -> bool:
    """The one side has the word only under its "not", the other has it without."""
    return denying.stems.count(stem) == under.count(stem) and stem in affirming.stem_set


def _is_order(sentence: Sentence, lexicon: Lexicon) -> bool:
    return not lexicon.negation.isdisjoint(sentence.words[:2])


def _prefixed(plain_side: Sentence, negative_side: Sentence, lexicon: Lexicon) -> bool:
    """One side has the word, the other the same word with a negating beginning (valid, invalid)."""
    return any(
        item.startswith(prefix) and len(item) > len(prefix) + 3 and _begins(item[len(prefix) :], plain_side.content)
        for item in negative_side.negative
        if item not in plain_side.content
        for prefix in lexicon.negating_prefixes
    )


def _begins(beginning: str, stems: frozenset[str]) -> bool:
    return any(stem.startswith(beginning) for stem in stems)
