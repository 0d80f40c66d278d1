"""Changes a sentence so that its passages no longer support it. A rule returns None where it does not apply."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.synthetic.documents import Library
from training.synthetic.phrases import pairs, phrases
from training.synthetic.rewrites import content_words, lower_first

_NUMBER = re.compile(r"(?<![\w-])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.-])\d+(?:\.\d+)?(?![\w-])")
_YEAR = re.compile(r"\b(?:1[5-9]\d\d|20[0-4]\d)\b")
_NUMBER_WORDS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "thirty", "fifty",
    "hundred",
)  # fmt: skip
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b")
_MONTH = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b"
)
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}(?: (?:of |de |the )?[A-Z][a-z]+){0,3}|(?<=[a-z,;] )[A-Z]{2,6}\b")
_FIRST_NAME = re.compile(
    r"^(?!The |A |An |In |On |At |It |He |She |They |This |That |These |We |You |I )[A-Z][a-z]{2,}(?: [A-Z][a-z]+){1,3}"
)
_AUXILIARY = re.compile(r" (is|are|was|were|can|will|has|have|should|could|would|may|must|does|do|did)( not| never)? ")
_SPLIT = re.compile(r" (?:is|are|was|were|has|have|had|can|will|may|should|must|became|includes?|provides?|contains?) ")
_TAIL = re.compile(
    r"(?:, (?:which|who|including|such as|where|making|leading|resulting)"
    r"| (?:because|due to|in order to|so that|although|unless|until|after|before)) [^,.]{10,80}(?=\.$)"
)
_WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The surroundings of the sentence to change."""

    passages: Sequence[str]
    """All context sentences."""

    siblings: Sequence[str]
    """Sentences of documents of the same topic that are not in the contexts."""

    topic: str
    library: Library
    source: str
    excluded: frozenset[int]
    """Documents in the contexts."""

    @property
    def text(self) -> str:
        return " ".join(self.passages)


Rule = Callable[[str, Scene, random.Random], str | None]


def _swap(sentence: str, match: re.Match[str], text: str) -> str:
    return sentence[: match.start()] + text + sentence[match.end() :]


def change_number(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    numbers = list(_NUMBER.finditer(sentence)) + list(_NUMBER_WORD.finditer(sentence))
    if not numbers:
        return None
    match = rng.choice(numbers)
    pattern = _NUMBER if match[0][0].isdigit() else _NUMBER_WORD
    others = sorted({number for number in pattern.findall(scene.text) if number not in sentence})
    if others and rng.random() < 0.5:
        return _swap(sentence, match, rng.choice(others))
    if pattern is _NUMBER_WORD:
        words = _NUMBER_WORDS
        return _swap(sentence, match, rng.choice([word for word in words if word != match[0]]))
    return _swap(sentence, match, _other_number(match[0], rng))


def _other_number(number: str, rng: random.Random) -> str:
    value = float(number.replace(",", ""))
    if _YEAR.fullmatch(number):
        return str(int(value) + rng.choice([-30, -12, -10, -5, -3, -2, -1, 1, 2, 3, 4, 7, 10, 20]))
    changed = value * rng.choice([0.1, 0.25, 0.5, 0.7, 0.8, 1.2, 1.5, 2, 3, 10]) or 3.0
    if "." in number:
        text = f"{changed:.{len(number.split('.')[1])}f}"
    else:
        whole = max(1, round(changed))
        whole += whole == value
        text = f"{whole:,}" if "," in number else str(whole)
    return text if text != number else number + "0"


def change_date(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    dates = list(_MONTH.finditer(sentence)) + list(_YEAR.finditer(sentence))
    if not dates:
        return None
    match = rng.choice(dates)
    if match[0].isdigit():
        return _swap(sentence, match, _other_number(match[0], rng))
    names = _MONTH.pattern[5:-3].split("|")
    same_kind = names[:12] if match[0] in names[:12] else names[12:]
    return _swap(sentence, match, rng.choice([name for name in same_kind if name != match[0]]))


def _names_in(sentence: str) -> list[re.Match[str]]:
    """Return the names of a sentence in order; months and days are none."""
    names = list[re.Match[str]]()
    for match in [*_FIRST_NAME.finditer(sentence), *_NAME.finditer(sentence)]:
        overlaps = bool(names) and match.start() < names[-1].end()
        if not overlaps and not _MONTH.match(match[0]):
            names.append(match)
    return names


def change_name(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    """Put another name in the place of one: mostly one that the contexts have, too."""
    names = _names_in(sentence)
    if not names:
        return None
    match = rng.choice(names)
    elsewhere = " ".join(scene.siblings) or scene.library.random_sentence(scene.source, rng)
    text = scene.text if rng.random() < 0.7 else elsewhere
    others = {name for name in _NAME.findall(text) if name not in sentence and not _MONTH.match(name)}
    if not others:
        return None
    like = sorted(name for name in others if name.isupper() == match[0].isupper()) or sorted(others)
    return _swap(sentence, match, rng.choice(like))


def swap_roles(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    names = _names_in(sentence)
    if len(names) < 2 or names[0][0] == names[1][0]:
        return None
    first, second = names[:2]
    between = sentence[first.end() : second.start()]
    # A mere list keeps its meaning in any order.
    if len(between.split()) < 2 or between.strip() in {"and", "or", ","}:
        return None
    return sentence[: first.start()] + second[0] + between + first[0] + sentence[second.end() :]


def negate(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    match = _AUXILIARY.search(sentence)
    if not match:
        return None
    return _swap(sentence, match, f" {match[1]} " if match[2] else f" {match[1]} not ")


def use_antonym(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    return _replace_word(sentence, pairs("antonyms", both_ways=True), rng)


def overstate(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    return _replace_word(sentence, pairs("stronger", both_ways=False), rng)


def _replace_word(sentence: str, table: dict[str, str], rng: random.Random) -> str | None:
    words = [match for match in _WORD.finditer(sentence) if match[0] in table]
    if not words:
        return None
    match = rng.choice(words)
    return _swap(sentence, match, table[match[0]])


def mix(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    """Join the subject of this sentence with the predicate of another one of the contexts."""
    split = _SPLIT.search(sentence)
    others = [other for other in scene.passages if other != sentence and _SPLIT.search(other)]
    if not split or not others or not 1 <= len(sentence[: split.start()].split()) <= 10:
        return None
    other = rng.choice(others)
    other_split = _SPLIT.search(other)
    assert other_split
    same_subject = set(content_words(sentence[: split.start()])) & set(content_words(other[: other_split.start()]))
    return None if same_subject else sentence[: split.start()] + other[other_split.start() :]


def add_tail(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    """Add a clause that the contexts do not have: of a sibling, of another document or of a template."""
    kind = rng.random()
    if kind < 0.4:
        tail = rng.choice(phrases("baseless_tails"))
    else:
        pool = (
            [*scene.siblings] if kind < 0.7 else [scene.library.random_sentence(scene.source, rng) for _ in range(12)]
        )
        tails = [match[0] for text in pool for match in _TAIL.finditer(text) if match[0] not in scene.text]
        if not tails:
            return None
        tail = rng.choice(tails)
    return sentence.rstrip(".!? ") + tail + "."


def use_sibling(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    """Use a sentence about the same topic that the contexts do not have."""
    new = [other for other in scene.siblings if _is_new(other, scene)]
    return rng.choice(new) if new else None


def use_near_sentence(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    other = scene.library.near_sentence(sentence, set(scene.excluded), rng)
    return other if other and _is_new(other, scene) else None


def _is_new(sentence: str, scene: Scene) -> bool:
    words = {word.lower() for word in content_words(sentence)}
    known = {word.lower() for word in content_words(scene.text)}
    return len(words) >= 4 and len(words & known) < 0.7 * len(words)


def use_template(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    return rng.choice(phrases("baseless")).replace("{topic}", scene.topic)


def continue_with_sibling(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    """Fuse a supported sentence with one that the contexts do not have."""
    other = use_sibling(sentence, scene, rng)
    return sentence.rstrip(".!? ") + rng.choice([", and ", "; ", ", while "]) + lower_first(other) if other else None


RULES: tuple[tuple[Rule, float], ...] = (
    (change_number, 1.2), (change_date, 0.6), (change_name, 1.4), (swap_roles, 0.6), (negate, 0.7), (use_antonym, 0.8),
    (overstate, 0.4), (mix, 1.0), (add_tail, 1.6), (use_sibling, 2.2), (use_near_sentence, 1.6), (use_template, 0.8),
    (continue_with_sibling, 0.6),
)  # fmt: skip


def change(sentence: str, scene: Scene, rng: random.Random) -> str | None:
    """Apply one rule, drawn by weight; None if eight drawn rules do not apply or give a sentence of a passage."""
    rules, weights = [rule for rule, _ in RULES], [weight for _, weight in RULES]
    for _ in range(8):
        changed = rng.choices(rules, weights)[0](sentence, scene, rng)
        if changed and changed != sentence and changed not in scene.text:
            return changed
    return None
