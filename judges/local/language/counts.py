"""Finds the things that a sentence counts: "two moons", «три окна»."""

from collections.abc import Iterator, Sequence

from judges.local.language.quantity import NumberToken, Quantity

# Words that may describe the things between the number and the noun.
_REACH = 3

# "one" counts only after these: elsewhere it stands for "a" or for a person.
BEFORE_ONE = frozenset({"just", "only", "exactly", "single", "лишь", "только"})


def find_counts(tokens: Sequence[NumberToken], quantities: Sequence[Quantity]) -> Iterator[tuple[str, str]]:
    """Yield each number without a unit and the stem of what it counts."""
    for quantity in quantities:
        if quantity.unit is not None or quantity.last < 0:
            continue
        if quantity.value == "1" and not _counts_one(tokens, quantity.last):
            continue
        noun = _noun_after(tokens, quantity.last)
        if noun is not None:
            yield quantity.value, noun


def _counts_one(tokens: Sequence[NumberToken], place: int) -> bool:
    is_article = tokens[place].raw.lower() in ("a", "an")
    return not is_article and place > 0 and tokens[place - 1].word.text in BEFORE_ONE


def _noun_after(tokens: Sequence[NumberToken], place: int) -> str | None:
    """Return the first plural after a number, or else the word next to it."""
    following = []
    for before, token in zip(tokens[place:], tokens[place + 1 : place + 1 + _REACH], strict=False):
        if token.kind != "word" or not token.word.content or token.start - before.end > 1:
            break
        following.append(token.word)
    plurals = [word.stem for word in following if word.text.endswith("s") and not word.text.endswith("ss")]
    return next(iter([*plurals, *(word.stem for word in following)]), None)
