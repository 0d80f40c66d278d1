"""Citations: does each one point at a context, and does that context support the sentence?"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from judges.local.assessors.groundedness import SAME_SUBJECT, Support, claims_in, compare
from judges.local.case_reading import ANSWER_LIMIT, CaseReading, Sources
from judges.local.finding import Assessment, quote, say
from judges.local.language.citations import CitableContexts, Citation, blank, find_citations
from judges.local.language.sentence import Sentence
from judges.local.language.text import read, sentences_of

# Maximum number of citations that are checked.
CITATIONS_LIMIT = 100

# Share of right citations from which they are partly right.
PARTLY = 0.5

# The heading of a list of sources at the end of an answer.
_LIST_HEADING = re.compile(
    r"^\W*(?:sources?|references?|citations?|источник\w{0,3}|ссылк\w{1,3}|литература)\W*(?::|$)", re.IGNORECASE
)
_LETTER = re.compile(r"[^\W\d_]")
# Between two citations of one group: "[1], [2] and [3]".
_BETWEEN = re.compile(r"[\s,;.]*(?:and|и)?[\s,;.]*", re.IGNORECASE)


class CitedText(NamedTuple):
    """A text and its citations."""

    text: str
    """Without the citations, which are replaced by spaces."""

    citations: tuple[Citation, ...]
    claims_nothing: bool = False
    """Whether it is in a list of sources, where a citation only has to point at a context."""


def assess(reading: CaseReading) -> Assessment:
    cited_texts = list(_cited_texts(reading))
    if not cited_texts:
        return Assessment(
            level=None, explanation=say(reading.language, en="The answer cites nothing.", ru="В ответе нет ссылок.")
        )
    reading.need_known_script()
    reading.need_one_script()
    results = [result for cited in cited_texts for result in _check(cited, reading)][:CITATIONS_LIMIT]
    right = sum(is_right for _, is_right in results)
    level = 2 if right == len(results) else int(right >= PARTLY * len(results))
    wrong = quote((citation.text for citation, is_right in results if not is_right), reading.language)
    return Assessment(level=level, explanation=_explain(reading, right, len(results), wrong) + reading.cut)


def _explain(reading: CaseReading, right: int, total: int, wrong: str) -> str:
    return say(
        reading.language,
        en=f"{right} of {total} citations support their sentence" + (f"; wrong: {wrong}." if wrong else "."),
        ru=f"Ссылок, которые подтверждают сказанное: {right} из {total}" + (f"; неверны: {wrong}." if wrong else "."),
    )


def _cited_texts(reading: CaseReading) -> Iterator[CitedText]:
    """Yield the sentences with citations, or the parts of a sentence with several, in the order of the answer."""
    contexts, sentence, is_list = CitableContexts(reading.case), "", False
    for line in reading.full_answer[:ANSWER_LIMIT].split("\n"):
        is_list = is_list or _LIST_HEADING.match(line) is not None
        for number, (text, _) in enumerate(sentences_of(line, reading.lexicon)):
            leading, rest = _split_leading(text, contexts, starts_line=number == 0)
            if leading:
                yield CitedText(sentence, leading, is_list)
            if _LETTER.search(rest):
                citations = find_citations(rest, contexts)
                sentence = _without(citations, rest)
                yield from _parts(sentence, citations, is_list)


def _split_leading(text: str, contexts: CitableContexts, *, starts_line: bool) -> tuple[tuple[Citation, ...], str]:
    """Separate the citations at the beginning, which stand for the sentence before: "It is free. [1] It is fast. [2]".

    At the beginning of a line, they do so only if the line has no other text.
    """
    citations = find_citations(text, contexts)
    letter = _LETTER.search(_without(citations, text))
    end = len(text) if letter is None else letter.start()
    leading = tuple(item for item in citations if item.start < end)
    if not leading or (starts_line and letter is not None):
        return (), text
    return leading, text[max(item.end for item in leading) :]


def _without(citations: Sequence[Citation], text: str) -> str:
    return blank(text, [(item.start, item.end) for item in citations])


def _parts(text: str, citations: Sequence[Citation], is_list: bool) -> Iterator[CitedText]:
    """Yield the text that each group of citations stands for: of several, the text since the group before."""
    groups: list[list[Citation]] = []
    for item in citations:
        if groups and _BETWEEN.fullmatch(text[groups[-1][-1].end : item.start]):
            groups[-1].append(item)
        else:
            groups.append([item])
    start = 0
    for group in groups:
        end = len(text) if group is groups[-1] else group[-1].end
        part = text[start:end] if len(groups) > 1 and _LETTER.search(text[start : group[0].start]) else text
        yield CitedText(part, tuple(group), is_list)
        start = end


def _check(cited: CitedText, reading: CaseReading) -> Iterator[tuple[Citation, bool]]:
    claims = [] if cited.claims_nothing else _claims(cited, reading)
    passages = dict(zip(reading.context_indexes, reading.contexts, strict=True))
    pointed = [index for index in dict.fromkeys(item.context for item in cited.citations) if index in passages]
    sources = Sources(tuple(passages[index] for index in pointed if index is not None))
    is_supported = bool(sources.passages) and all(
        compare(claim, reading, sources).support is Support.YES for claim in claims
    )
    for item in cited.citations:
        if item.context not in passages:
            yield item, False
        elif not claims:
            yield item, True
        else:
            alone = Sources((passages[item.context],))
            yield item, is_supported and (len(pointed) == 1 or _contributes(claims, alone))


def _claims(cited: CitedText, reading: CaseReading) -> list[Sentence]:
    sentences = read(cited.text, reading.lexicon).sentences
    return [claim for sentence in sentences for claim in claims_in(sentence, reading)]


def _contributes(claims: Sequence[Sentence], source: Sources) -> bool:
    """Return whether one of several cited contexts is about the claim, or has one of its figures."""
    words = frozenset().union(*(claim.content - claim.units for claim in claims))
    figures = [item for claim in claims for item in claim.quantities if not item.soft]
    return len(words & source.content) >= SAME_SUBJECT * len(words) or any(map(source.facts.support, figures))
