"""Groundedness: is every claim of the answer in the contexts, with its numbers, its names and its yes or no?

Facts that the user stated in earlier turns count as support, too; if the contexts contradict them, the contexts win.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain, islice, repeat
from typing import NamedTuple

from judges.local.assessors.contradiction import (
    SAME_STATEMENT,
    has_other_count,
    is_contradicted,
    names_somebody_else,
    opposite,
)
from judges.local.case_reading import CaseReading, Sources
from judges.local.finding import Assessment, quote, say, shorten
from judges.local.fitted import load_model
from judges.local.language.padding import says_nothing
from judges.local.language.quantity import Quantity, QuantityFacts
from judges.local.language.sentence import Sentence
from judges.local.language.text import read
from judges.local.lexicon import Lexicon, plain
from judges.values.spans import AnswerSpan, SpanVerdict

# Share of a claim's content words that one context, or all together, must contain. A faithful paraphrase keeps two
# words in three; a sentence about the same subject that says something else shares about one in three.
IN_ONE_CONTEXT = 0.55
IN_ALL_CONTEXTS = 0.7

# Share of words that a claim must have in common with the contexts, so that a different number is a contradiction and
# not a new subject.
SAME_SUBJECT = 0.3

# Level 0 if a smaller share of the claims is supported, or at least this share contradicts the contexts. Above that,
# the model of fitted.yaml decides between levels 1 and 2, by the number of unsupported claims and of words without a
# source.
SUPPORTED_AT_LEAST = 1 / 2
CONTRADICTED_AT_MOST = 1 / 3

# Maximum number of claims that are checked.
CLAIMS_LIMIT = 80

# Maximum number of sentences of an answer that are listed with their verdict, which bounds the size of a record.
SPANS_LIMIT = 200

# An opener ("Sure, ...") with fewer content words than this is not a claim.
_OPENER_REST = 3

_INITIALS = 3

_CLAUSES = re.compile(r";\s|,\s(?:but|while|whereas|however|а|но|однако|тогда как)\s", re.IGNORECASE)


class Support(Enum):
    YES = "yes"
    NO = "no"
    CONTRADICTED = "contradicted"


class Lack(Enum):
    NUMBER = "number"
    NAME = "name"
    WORDS = "words"


class ClaimCheck(NamedTuple):
    support: Support
    missing: tuple[str, ...]
    """Parts that the contexts lack, in the words of the answer."""

    lacks: Lack = Lack.WORDS
    """What an unsupported claim has that the contexts do not."""


# From the best to the worst, as a sentence with several claims has the verdict of the worst.
_VERDICTS = {
    Support.YES: SpanVerdict.SUPPORTED,
    Support.NO: SpanVerdict.UNSUPPORTED,
    Support.CONTRADICTED: SpanVerdict.CONTRADICTED,
}
_WORST_FIRST = tuple(reversed(_VERDICTS))


def assess(reading: CaseReading) -> Assessment:
    if not reading.contexts:
        return _not_applicable(reading, en="There are no contexts to compare with.", ru="Нет контекстов для сравнения.")
    reading.need_known_script()
    claims_by_sentence = [tuple(claims_in(sentence, reading)) for sentence in reading.answer.sentences]
    claims = [claim for sentence_claims in claims_by_sentence for claim in sentence_claims]
    if not claims:
        return _not_applicable(
            reading,
            en="The answer claims nothing that could be checked.",
            ru="Ответ не содержит проверяемых утверждений.",
        )
    reading.need_one_script()
    checks = [check(claim, reading) for claim in claims[:CLAIMS_LIMIT]]
    missing_share = find_missing_share(claims[:CLAIMS_LIMIT], reading.context_sources)
    finding = _finding(reading, checks, len(claims), missing_share)
    return replace(finding, spans=_spans(reading, claims_by_sentence, checks))


def _not_applicable(reading: CaseReading, *, en: str, ru: str) -> Assessment:
    return Assessment(level=None, explanation=say(reading.language, en=en, ru=ru))


def features(checks: Sequence[ClaimCheck], missing_share: float) -> dict[str, float]:
    """Return the input of the model."""
    lacks = [claim.lacks for claim in checks if claim.support is Support.NO]
    return {
        "unsupported_names": lacks.count(Lack.NAME),
        "unsupported_words": lacks.count(Lack.WORDS),
        "missing_share": missing_share,
    }


def find_missing_share(claims: Sequence[Sentence], sources: Sources) -> float:
    """Return the share of the claims' words that the contexts do not have."""
    words = [claim.content - claim.units for claim in claims]
    missing = sum(len(own - sources.content) for own in words)
    return missing / max(1, sum(map(len, words)))


def is_far_from_supported(checks: Sequence[ClaimCheck]) -> bool:
    support = [claim.support for claim in checks]
    return support.count(Support.YES) < SUPPORTED_AT_LEAST * len(checks) or support.count(
        Support.CONTRADICTED
    ) >= CONTRADICTED_AT_MOST * len(checks)


def has_wrong_fact(checks: Sequence[ClaimCheck]) -> bool:
    """Return whether a claim contradicts the contexts, or has a number that they do not have."""
    return any(
        claim.support is Support.CONTRADICTED or (claim.support is Support.NO and claim.lacks is Lack.NUMBER)
        for claim in checks
    )


def _level(checks: Sequence[ClaimCheck], missing_share: float) -> int:
    if all(claim.support is Support.YES for claim in checks):
        return 2
    if is_far_from_supported(checks):
        return 0
    if has_wrong_fact(checks):
        return 1
    return 2 - load_model("groundedness").step(features(checks, missing_share))


def _finding(reading: CaseReading, checks: list[ClaimCheck], claims: int, missing_share: float) -> Assessment:
    total = len(checks)
    support = [claim.support for claim in checks]
    supported = support.count(Support.YES)
    level = _level(checks, missing_share)
    missing = quote((item for claim in checks for item in claim.missing), reading.language)
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


def _spans(
    reading: CaseReading, claims_by_sentence: Sequence[Sequence[Sentence]], checks: Sequence[ClaimCheck]
) -> tuple[AnswerSpan, ...] | None:
    """Return the sentences up to the first one with an unchecked claim; None if their places are unknown."""
    if reading.answer_places is None:
        return None
    spans, checked = list[AnswerSpan](), 0
    for place, claims in zip(reading.answer_places[:SPANS_LIMIT], claims_by_sentence, strict=False):
        results = list(zip(claims, checks[checked : checked + len(claims)], strict=False))
        if len(results) < len(claims):
            break
        checked += len(claims)
        if place:
            spans.append(_span(place, results, reading))
    return tuple(spans)


def _span(place: range, results: Sequence[tuple[Sentence, ClaimCheck]], reading: CaseReading) -> AnswerSpan:
    """Give a sentence the verdict on its worst claim, and the contexts that decide it."""
    if not results:
        return AnswerSpan(start=place.start, length=len(place), verdict=SpanVerdict.NO_CLAIM)
    support = {result.support for _, result in results}
    worst = next(level for level in _WORST_FIRST if level in support)
    deciding = [claim for claim, result in results if result.support is worst]
    # What contradicts a claim is the context nearest to it.
    most = {Support.YES: None, Support.CONTRADICTED: 1}.get(worst, 0)
    contexts = {index for claim in deciding for index in islice(_contexts_about(claim, reading), most)}
    return AnswerSpan(start=place.start, length=len(place), verdict=_VERDICTS[worst], contexts=tuple(sorted(contexts)))


def _contexts_about(claim: Sentence, reading: CaseReading) -> Iterator[int]:
    """Yield the context with most of a claim's words and figures, then those that add most, until it is covered."""
    stated = [item for item in claim.quantities if not item.soft]
    words = claim.content - claim.units
    shares = {
        index: {*(words & passage.content), *filter(passage.facts.support, stated)}
        for index, passage in zip(reading.context_indexes, reading.contexts, strict=True)
    }
    total, covered = len(words) + len(stated), set[object]()
    for needed in chain((IN_ONE_CONTEXT,), repeat(IN_ALL_CONTEXTS, len(shares) - 1)):
        best = max(shares, key=lambda index: len(shares[index] - covered))
        if shares[best] <= covered:
            return
        yield best
        covered |= shares[best]
        if len(covered) >= needed * total:
            return


def claims_in(sentence: Sentence, reading: CaseReading) -> Iterator[Sentence]:
    """Yield a sentence of the answer if it asserts something, split where a second assertion begins."""
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


def check(claim: Sentence, reading: CaseReading) -> ClaimCheck:
    """Check whether the contexts, or earlier statements of the user, support a claim, and if not, what is missing."""
    result = compare(claim, reading, reading.context_sources)
    if result.support is Support.YES or _contexts_disagree(claim, reading):
        return result
    statements = [statement for statement in reading.user_statements if _may_support(statement, claim, reading)]
    if not statements:
        return result
    supported = compare(claim, reading, reading.context_sources.add_sentences(statements)).support is Support.YES
    return ClaimCheck(Support.YES, ()) if supported else result


def _may_support(statement: Sentence, claim: Sentence, reading: CaseReading) -> bool:
    """Return whether a statement is about the same thing, so that its numbers count, and not the opposite."""
    words = statement.content - statement.units
    return not words.isdisjoint(claim.core) and not opposite(claim, statement, reading.lexicon)


def compare(claim: Sentence, reading: CaseReading, sources: Sources) -> ClaimCheck:
    """Check whether these sources support a claim, and if not, what is missing."""
    own = claim.content - claim.units - (reading.question.content - sources.content)
    stated = [item for item in claim.quantities if not item.soft]
    supported = sum(sources.facts.support(item) for item in stated)
    numbers = [item.text for item in stated if not _is_mentioned(item, reading, sources)]
    names = [
        name.text for name in claim.names if name.stem not in sources.stems and not _is_spelled_out(name.text, sources)
    ]
    covered = len(own & sources.content)
    if numbers or names:
        same_subject = covered >= SAME_SUBJECT * max(1, len(own))
        contradicts = bool(numbers) and same_subject
        lacks = Lack.NUMBER if numbers else Lack.NAME
        return ClaimCheck(Support.CONTRADICTED if contradicts else Support.NO, (*numbers, *names), lacks)
    if not _is_covered(own, supported, sources):
        return ClaimCheck(Support.NO, (shorten(claim.text),))
    if (
        is_contradicted(claim, sources, reading.lexicon)
        or has_other_count(claim, sources)
        or names_somebody_else(claim, sources)
    ):
        return ClaimCheck(Support.CONTRADICTED, (shorten(claim.text),))
    return ClaimCheck(Support.YES, ())


def _contexts_disagree(claim: Sentence, reading: CaseReading) -> bool:
    """Return whether the contexts state the opposite or another figure, so that the user's statements do not count."""
    return bool(reading.user_statements) and (
        is_contradicted(claim, reading.context_sources, reading.lexicon) or _has_other_figure(claim, reading)
    )


def _has_other_figure(claim: Sentence, reading: CaseReading) -> bool:
    """Return whether a context makes the same statement with another number of the same kind."""
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


def _is_mentioned(item: Quantity, reading: CaseReading, sources: Sources) -> bool:
    return sources.facts.support(item) or reading.question.facts.support(item)


def _is_covered(own: frozenset[str], numbers: int, sources: Sources) -> bool:
    """Return whether enough of the claim is in the sources; each supported number counts as a word."""
    total = len(own) + numbers
    best = numbers + max(len(own & passage.content) for passage in sources.passages)
    together = numbers + len(own & sources.content)
    return together > 0 and (best >= IN_ONE_CONTEXT * total or together >= IN_ALL_CONTEXTS * total)


def _is_spelled_out(name: str, sources: Sources) -> bool:
    """Return whether a name abbreviates words of a context: "PTO" for "paid time off"."""
    letters = plain(name)
    if len(letters) < _INITIALS or not name.isupper():
        return False
    return any(
        letters in "".join(word[0] for word in sentence.words) for sentence in sources.sentences if sentence.words
    )
