"""Rewrites a sentence and keeps its meaning, by rules. A rule returns None where it does not apply."""

import random
import re
from collections.abc import Callable

from training.synthetic.phrases import pairs, phrases

Rule = Callable[[str, random.Random], str | None]

_OPENER = re.compile(
    r"^(?:However|Moreover|Also|In addition|Additionally|Furthermore|Therefore|Thus|Indeed|Finally|In fact|So|But|And"
    r"|For example|For instance|Meanwhile|Nevertheless|Then|Still|Instead|Overall|Actually|Well),?\s+",
)
_PARENTHESES = re.compile(r"\s?\([^()]{2,80}\)")
_ASIDE = re.compile(r", (?:which|who|including|such as|where|as well as|especially|although|though) [^,]{4,90}(?=[,.])")
_TAIL = re.compile(r"(?:, (?:which|who|including|such as|and|but|while|with|where|as)|;| because| so that) [^.]{8,}\.$")
_FRONT = re.compile(
    r"^((?:In|On|During|After|Before|Since|By|At|For|From|Under|Within|Until) [^,]{3,50}), ([^,].{20,})\.$"
)
_BACK = re.compile(r"^(.{20,}) ((?:in|on|during|since|by|until) (?:[A-Z][a-z]+ )?(?:\d{1,2},? )?(?:1[5-9]|20)\d\d)\.$")
_PASSIVE = re.compile(r"^((?:The |A |An )?[\w' -]{3,50}?) (was|were) (\w{3,}ed) by ((?:the |a |an )?[\w' -]{3,50})\.$")
_DIGITS = re.compile(r"(?<![\w.,$£€\[-])(\d{1,2})(?![\w.,:/%\]-])(?! [A-Z])")
_PERCENT = re.compile(r"(\d)\s?(%| percent\b| per cent\b)")
_CONTRACTIONS = {
    "do not": "don't", "does not": "doesn't", "is not": "isn't", "are not": "aren't", "cannot": "can't",
    "did not": "didn't", "was not": "wasn't", "will not": "won't", "it is": "it's", "have not": "haven't",
}  # fmt: skip
_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+")
_STOP_WORDS = """
    the a an of and or in on to for with by at from as is are was were be been it its this that these those their his
    her they he she we you i not no but which who has have had will can may there than also into about over more most
    such when while where what how all some any each other our your my one two
"""
_STOP = frozenset(_STOP_WORDS.split())


def lower_first(sentence: str) -> str:
    """Return the sentence with a small first letter, unless its first word looks like a name or an abbreviation."""
    first = sentence.split(" ", 1)[0]
    is_plain = first.lower() in _STOP or first.endswith(("ing", "ly", "ers", "ions"))
    return sentence[:1].lower() + sentence[1:] if is_plain and first != "I" else sentence


def upper_first(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def content_words(sentence: str) -> list[str]:
    return [word for word in _WORD.findall(sentence) if word.lower() not in _STOP and len(word) > 2]


def _cut(pattern: re.Pattern[str], sentence: str, ending: str) -> str | None:
    shorter = pattern.sub(ending, sentence, count=1)
    return upper_first(shorter) if shorter != sentence and len(shorter.split()) >= 5 else None


def drop_opener(sentence: str, rng: random.Random) -> str | None:
    return _cut(_OPENER, sentence, "")


def drop_parentheses(sentence: str, rng: random.Random) -> str | None:
    return _cut(_PARENTHESES, sentence, "")


def drop_aside(sentence: str, rng: random.Random) -> str | None:
    return _cut(_ASIDE, sentence, "")


def drop_tail(sentence: str, rng: random.Random) -> str | None:
    # What stays must be long enough to be a main clause.
    shorter = _cut(_TAIL, sentence, ".")
    return shorter if shorter and len(shorter.split()) >= 7 else None


def move_time(sentence: str, rng: random.Random) -> str | None:
    """Move a phrase of time or place from the front to the end, or back."""
    front = _FRONT.match(sentence)
    if front:
        return f"{upper_first(front[2])} {lower_first(front[1])}."
    back = _BACK.match(sentence)
    return f"{upper_first(back[2])}, {lower_first(back[1])}." if back else None


def make_active(sentence: str, rng: random.Random) -> str | None:
    passive = _PASSIVE.match(sentence)
    return f"{upper_first(passive[4])} {passive[3]} {lower_first(passive[1])}." if passive else None


def use_synonyms(sentence: str, rng: random.Random) -> str | None:
    table = pairs("synonyms", both_ways=True)
    words = [match for match in _WORD.finditer(sentence) if match[0] in table]
    if not words:
        return None
    for match in sorted(rng.sample(words, min(len(words), rng.randint(1, 3))), key=lambda match: -match.start()):
        sentence = sentence[: match.start()] + table[match[0]] + sentence[match.end() :]
    return sentence


def respell_numbers(sentence: str, rng: random.Random) -> str | None:
    if _PERCENT.search(sentence):
        return _PERCENT.sub(lambda match: match[1] + (" percent" if match[2] == "%" else "%"), sentence)
    small = [match for match in _DIGITS.finditer(sentence) if int(match[1]) < len(_SMALL)]
    if small:
        match = rng.choice(small)
        return upper_first(sentence[: match.start()] + _SMALL[int(match[1])] + sentence[match.end() :])
    words = [match for match in _WORD.finditer(sentence) if match[0] in _SMALL[2:]]
    if words:
        match = rng.choice(words)
        return sentence[: match.start()] + str(_SMALL.index(match[0])) + sentence[match.end() :]
    return None


def use_contractions(sentence: str, rng: random.Random) -> str | None:
    for full, short in _CONTRACTIONS.items():
        if f" {full} " in sentence:
            return sentence.replace(f" {full} ", f" {short} ", 1)
        if f" {short} " in sentence:
            return sentence.replace(f" {short} ", f" {full} ", 1)
    return None


def add_lead_in(sentence: str, rng: random.Random) -> str | None:
    return rng.choice(phrases("lead_ins")) + lower_first(sentence)


def add_join(sentence: str, rng: random.Random) -> str | None:
    return rng.choice(phrases("joins")) + lower_first(sentence)


def add_heading(sentence: str, rng: random.Random) -> str | None:
    """Put a heading of one to three of its own words before the sentence, as in the items of a list."""
    words = content_words(sentence)
    if len(words) < 3:
        return None
    start = rng.randrange(len(words) - 1)
    heading = " ".join(words[start : start + rng.randint(1, 3)])
    return f"{upper_first(heading.lower())}: {sentence}"


def fuse(first: str, second: str, rng: random.Random) -> str:
    """Make one sentence of two."""
    joint = rng.choice([", and ", ", while ", "; ", ", and ", " and "])
    return first.rstrip(".!? ") + joint + lower_first(second)


RULES: tuple[tuple[Rule, float], ...] = (
    (drop_opener, 0.8), (drop_parentheses, 0.5), (drop_aside, 0.4), (drop_tail, 0.3), (move_time, 0.5),
    (make_active, 0.7), (use_synonyms, 0.5), (respell_numbers, 0.4), (use_contractions, 0.4),
)  # fmt: skip
FRAMES: tuple[tuple[Rule, float], ...] = ((add_lead_in, 0.08), (add_join, 0.15), (add_heading, 0.1))


def rewrite(sentence: str, rng: random.Random, *, share: float = 1.0) -> str:
    """Apply the rules, each with its probability times `share`."""
    for rule, probability in RULES:
        if rng.random() < probability * share:
            sentence = rule(sentence, rng) or sentence
    return sentence


def frame(sentence: str, rng: random.Random) -> str:
    """Put at most one lead-in, connecting word or heading before the sentence."""
    for rule, probability in FRAMES:
        if rng.random() < probability:
            return rule(sentence, rng) or sentence
    return sentence
