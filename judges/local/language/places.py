"""Locates the sentences of a cleaned text in the text as it was logged."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from judges.local.language.text import INVISIBLE, NORMALISED_AT_ONCE, SPACES


class Origin(NamedTuple):
    """The characters of the logged text that a cleaned character comes from."""

    start: int
    end: int


def find_places(raw: str, cleaned: str, sentences: Iterable[str]) -> list[range] | None:
    """Return where each sentence of the cleaned text is in the raw one; None if the two cannot be aligned.

    The sentences must be in the order of the text; their places do not overlap.
    """
    origins = None if cleaned == raw else _origins(raw)
    if origins is not None and len(origins) < len(cleaned):
        return None
    places, position, last = list[range](), 0, 0
    for sentence in sentences:
        start = cleaned.find(sentence, position)
        if start < 0:
            return None
        position = start + len(sentence)
        place = range(start, position)
        if origins is not None:
            # One character can become several, which may belong to two sentences.
            place = range(max(last, origins[start].start), origins[position - 1].end)
        places.append(place)
        last = max(last, place.stop)
    return places


def _origins(raw: str) -> list[Origin]:
    """Return the origin of each character of the cleaned text, by the steps of `clean`.

    Steps that replace one character by one are left out. If a step cannot be followed, the list is empty.
    """
    characters = [(Origin(place, place + 1), character) for place, character in enumerate(raw)]
    if not raw.isascii():
        characters = [item for item in characters if not INVISIBLE.match(item[1])]
        characters = list(_normalise(characters))
    text = "".join(character for _, character in characters)
    if len(text) != len(characters):
        return []
    origins, position = list[Origin](), 0
    for run in SPACES.finditer(text):
        origins += (origin for origin, _ in characters[position : run.start() + 1])
        position = run.end()
    return origins + [origin for origin, _ in characters[position:]]


def _normalise(characters: Sequence[tuple[Origin, str]]) -> Iterator[tuple[Origin, str]]:
    """Yield the characters in the form NFKC, each with the origin of the group that it was made from."""
    for start in range(0, len(characters), NORMALISED_AT_ONCE):
        piece = characters[start : start + NORMALISED_AT_ONCE]
        text = "".join(character for _, character in piece)
        if unicodedata.is_normalized("NFKC", text):
            yield from piece
            continue
        groups = [(origin, unicodedata.normalize("NFKC", group)) for origin, group in _groups(piece)]
        if "".join(group for _, group in groups) == unicodedata.normalize("NFKC", text):
            yield from ((origin, character) for origin, group in groups for character in group)
        else:
            # Letters merge across groups, as in Hangul: an empty character makes the caller give up.
            yield Origin(0, 0), ""


def _groups(piece: Sequence[tuple[Origin, str]]) -> Iterator[tuple[Origin, str]]:
    """Yield each character together with the combining marks after it."""
    first, group = Origin(0, 0), ""
    for origin, character in piece:
        if group and unicodedata.combining(character):
            first, group = Origin(first.start, origin.end), group + character
            continue
        if group:
            yield first, group
        first, group = origin, character
    if group:
        yield first, group
