"""Finds the citations in an answer, "[1]", "(kb-7)" or a URL, and the contexts that they point at."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from judges.local.language.references import CITATION, KINDS, NUMBERED
from judges.values.interaction import CONTEXT_IDS, Case

# A longer list of numbers, or a range such as "1-900", is not a citation.
_MOST_NUMBERS = 20
# A bracket with a larger number is a year or a code.
_MOST_CONTEXTS = 1000

_URL = re.compile(r"(?:https?://|\bwww\.)[^\s<>\"'`«»“”\[\]()【】]{1,500}", re.IGNORECASE)
_URL_START = re.compile(r"^(?:https?://)?(?:www\.)?", re.IGNORECASE)
_URL_END = ".,;:!?*_/"
_BRACKET = re.compile(r"[(\[【]([^()\[\]【】\n]{1,200})[)\]】]")
_LEAD = re.compile(r"^(?:(?:see|from|cf\.?|см\.?)\s)?(?:the\s)?\^?", re.IGNORECASE)
_TAIL = re.compile(r"†.*$")
_KIND = re.compile(rf"^(?P<kind>{KINDS})(?![^\W\d_])", re.IGNORECASE)
# A number of a page is not that of a context.
_PAGE = re.compile(r"(?:pages?|pp?|стр|страниц\w)$", re.IGNORECASE)
_NUMBER_OR_RANGE = re.compile(r"(\d{1,6})(?:\s?[-–]\s?(\d{1,6}))?")
_EXTENSION = re.compile(r"\.[a-z]\w{0,4}$")
_JOINT = re.compile(r"(?<=[^\W\d_])[\s_#№:.-]+(?=\d)")


class Citation(NamedTuple):
    start: int
    end: int
    text: str
    context: int | None
    """Index of the context that it points at; None: there is no such context."""


class CitableContexts:
    """The contexts of a case by what an answer may cite them: their numbers, their ids and their URLs."""

    def __init__(self, case: Case) -> None:
        self.count = len(case.items("contexts"))
        names = [text.split("\n") for text in case.items(CONTEXT_IDS)][: self.count]
        self._ids = {_fold(name): index for index, own in reversed([*enumerate(names)]) for name in own if name}
        self._urls = {_plain_url(name): index for index, own in enumerate(names) for name in own if _URL.match(name)}
        self._texts = [text.casefold() for text in case.items("contexts")]
        self._asked = f"{case.text('question')}\n{case.text('history')}".casefold()

    @property
    def have_ids(self) -> bool:
        return bool(self._ids)

    def by_id(self, text: str) -> int | None:
        """Return the context with this id, whatever the spelling ("KB 7" for "kb-7")."""
        folded = _fold(text)
        return self._ids.get(folded, self._ids.get(_EXTENSION.sub("", folded)))

    def by_number(self, number: int) -> int | None:
        named = self._ids.get(str(number))
        if named is not None:
            return named
        return number - 1 if 1 <= number <= self.count else None

    def has_kind(self, kind: str) -> bool:
        """Return whether ids begin with this word ("doc-12"), so that "doc 3" is not the third context."""
        folded = _fold(f"{kind} 1").removesuffix("1")
        return any(name.startswith(folded) and name[len(folded) :][:1].isdigit() for name in self._ids)

    def by_url(self, url: str) -> int | None:
        """Return the context with this address, or the first one that mentions it."""
        plain = _plain_url(url)
        if plain in self._urls:
            return self._urls[plain]
        return next((index for index, text in enumerate(self._texts) if plain in text), None)

    def was_asked_about(self, url: str) -> bool:
        return _plain_url(url) in self._asked


def find_citations(text: str, contexts: CitableContexts) -> list[Citation]:
    """Return the citations in a text, in their order; what may be something else is left out."""
    found = list(_urls(text, contexts))
    rest = blank(text, [(url.start, url.end) for url in found])
    found += [item for match in _BRACKET.finditer(rest) for item in _in_bracket(match, contexts)]
    rest = blank(rest, [(match.start(), match.end()) for match in _BRACKET.finditer(rest)])
    found += [item for match in NUMBERED.finditer(rest) for item in _numbered(match[0], match, contexts)]
    return sorted(found, key=lambda item: item.start)


def blank(text: str, places: Sequence[tuple[int, int]]) -> str:
    """Return the text with spaces in these places."""
    for start, end in places:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _urls(text: str, contexts: CitableContexts) -> Iterator[Citation]:
    for match in _URL.finditer(text):
        url = match[0].rstrip(_URL_END)
        context = contexts.by_url(url)
        if context is not None or not contexts.was_asked_about(url):
            yield Citation(match.start(), match.start() + len(url), url, context)


def _in_bracket(match: re.Match[str], contexts: CitableContexts) -> Iterator[Citation]:
    by_id = [contexts.by_id(_LEAD.sub("", part.strip())) for part in re.split("[,;]", match[1])]
    if any(context is not None for context in by_id):
        yield from (Citation(match.start(), match.end(), match[0], context) for context in by_id)
    elif CITATION.fullmatch(match[0]):
        inside = _TAIL.sub("", _LEAD.sub("", match[1].strip()))
        yield from _numbered(inside, match, contexts) if _KIND.match(inside) else _bare(inside, match, contexts)


def _bare(inside: str, match: re.Match[str], contexts: CitableContexts) -> Iterator[Citation]:
    """Read "[1, 3]" as numbers, and a code such as "[faq-12]" as an id, if the contexts have ids."""
    if inside[:1].isdigit():
        yield from _by_numbers(inside, match, contexts)
    elif contexts.have_ids and not inside[:1].isupper():
        yield Citation(match.start(), match.end(), match[0], None)


def _numbered(inside: str, match: re.Match[str], contexts: CitableContexts) -> Iterator[Citation]:
    """Read "doc 2" or "Passages 1 and 3": ids if the contexts have such ids, else numbers of contexts."""
    words = _KIND.match(inside)
    kind = words["kind"] if words else re.split(r"[\s\d]", inside, maxsplit=1)[0]
    if _PAGE.match(kind):
        return
    if kind.casefold() == "kb" or contexts.has_kind(kind):
        if contexts.have_ids:
            for number in _numbers(inside):
                yield Citation(match.start(), match.end(), match[0], contexts.by_id(f"{kind}-{number}"))
        return
    yield from _by_numbers(inside, match, contexts)


def _by_numbers(inside: str, match: re.Match[str], contexts: CitableContexts) -> Iterator[Citation]:
    for number in _numbers(inside):
        context = contexts.by_number(number)
        if context is not None or number < _MOST_CONTEXTS:
            yield Citation(match.start(), match.end(), match[0], context)


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for match in _NUMBER_OR_RANGE.finditer(text):
        first, last = int(match[1]), int(match[2] or match[1])
        numbers += range(first, min(last, first + _MOST_NUMBERS) + 1) if last >= first else (first, last)
    return numbers[:_MOST_NUMBERS]


def _fold(name: str) -> str:
    return _JOINT.sub("", " ".join(name.casefold().split()))


def _plain_url(url: str) -> str:
    """Return an address without what may differ between two spellings of it."""
    return re.split(r"[#()]", _URL_START.sub("", url.strip()), maxsplit=1)[0].rstrip(_URL_END).casefold()
