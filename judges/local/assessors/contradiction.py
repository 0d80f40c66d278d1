"""Whether the sentences nearest to a claim say something else: the opposite, another count, another person."""

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from judges.local.case_reading import Sources
from judges.local.language.sentence import Sentence
from judges.local.lexicon import Lexicon

# A sentence with this share of a claim's words is about the same thing, so that a "not" in only one of them matters.
SAME_STATEMENT = 0.7
SAME_STATEMENT_WORDS = 2

# A sentence with this share of the best match is near enough to show that a claim's own word is used of its subject.
NEAR_BEST = 0.6

# Share of the other words of a claim that the sentences must have which name somebody else in its place.
SAME_ROLE = 0.75

# Longer sentences have more names than roles that can be told apart.
_MOST_WORDS = 60

_ROLE_WORDS = frozenset({"by", "from", "to", "than", "of", "with", "and", "or", "vs", "versus", "be", "was", "were"})
_CAPITALS = re.compile(r"\b[A-ZА-ЯЁ][\w'’-]{1,40}(?: [A-ZА-ЯЁ][\w'’-]{1,40}){0,5}")
_WORD = re.compile(r"[^\W\d_]+")
_SMALL = re.compile(r"\b[a-zа-яё][\w'’]{1,40}")


def is_contradicted(claim: Sentence, sources: Sources, lexicon: Lexicon) -> bool:
    """Return whether the closest sentences of the sources all say the opposite."""
    core = claim.core
    shared = [len(core & sentence.stem_set) for sentence in sources.sentences]
    best = max(shared, default=0)
    if best < SAME_STATEMENT_WORDS:
        return False
    nearest = (sentence for count, sentence in zip(shared, sources.sentences, strict=True) if count == best)
    closest = [sentence for sentence in nearest if best >= SAME_STATEMENT * _count_comparable(claim, sentence)]
    if not closest:
        return False
    if all(opposite(claim, sentence, lexicon) or _swaps_roles(claim, sentence) for sentence in closest):
        return True
    if not claim.exclusive:
        return False
    pairs = zip(shared, sources.sentences, strict=True)
    near = [sentence for count, sentence in pairs if count >= NEAR_BEST * best]
    return _is_excluded(claim.stem_set - _known_units(claim, sources), claim.exclusive, closest, near)


def _count_comparable(claim: Sentence, source: Sentence) -> int:
    """Return the number of words of the claim, without those that a contrary source cannot have."""
    if not claim.exclusive:
        return len(claim.core)
    return len(claim.core - ((claim.lexicon.exclusive_stems & claim.core) - source.stem_set))


def _known_units(claim: Sentence, sources: Sources) -> frozenset[str]:
    """Return the stems of units whose amounts the sources have, if in another unit: "two years" for "24 months"."""
    units = (_WORD.findall(item.text)[-1:] for item in claim.quantities if sources.facts.support(item))
    return frozenset(claim.lexicon.look_up(word.lower()).stem for words in units for word in words)


def _is_excluded(
    stems: frozenset[str], groups: Iterable[frozenset[str]], closest: Sequence[Sentence], near: Sequence[Sentence]
) -> bool:
    """Return whether a claim says "monthly", the closest sentences say "weekly", and none near them "monthly"."""
    return any(
        not stems.isdisjoint(group)
        and all(sentence.stem_set.isdisjoint(group & stems) for sentence in near)
        and all(group & sentence.stem_set for sentence in closest)
        for group in groups
    )


def opposite(claim: Sentence, source: Sentence, lexicon: Lexicon) -> bool:
    """Return whether one side denies what the other affirms without a denial."""
    denied_by_claim, denied_by_source = claim.denied, source.denied
    if denied_by_claim and denied_by_source:
        return False
    if denied_by_claim:
        # "Do not paste it" can follow from a source that describes the consequences of pasting it.
        return not _is_order(claim, lexicon) and any(
            _denies_only(stem, denied_by_claim, claim, source) for stem in denied_by_claim
        )
    if denied_by_source:
        return any(_denies_only(stem, denied_by_source, source, claim) for stem in denied_by_source)
    return _has_negated_word(claim, source, lexicon) or _has_negated_word(source, claim, lexicon)


def _denies_only(stem: str, denied: list[str], denying: Sentence, affirming: Sentence) -> bool:
    """Return whether one side has the word only after a "not", and the other has it without."""
    return denying.stems.count(stem) == denied.count(stem) and stem in affirming.stem_set


def _is_order(sentence: Sentence, lexicon: Lexicon) -> bool:
    return not lexicon.negation.isdisjoint(sentence.words[:2])


def _has_negated_word(plain_side: Sentence, negative_side: Sentence, lexicon: Lexicon) -> bool:
    """Return whether one side has a word of the other with a negating prefix (valid, invalid)."""
    return any(
        item.startswith(prefix) and len(item) > len(prefix) + 3 and _is_prefix(item[len(prefix) :], plain_side.content)
        for item in negative_side.negative
        if item not in plain_side.content
        for prefix in lexicon.negating_prefixes
    )


def _is_prefix(beginning: str, stems: frozenset[str]) -> bool:
    return any(stem.startswith(beginning) for stem in stems)


def _swaps_roles(claim: Sentence, source: Sentence) -> bool:
    """Return whether two names change places around the same words: "A bought B", "B bought A".

    Only in English, where the order of words tells who does it.
    """
    if not claim.text.isascii() or len(claim.stems) > _MOST_WORDS:
        return False
    names = [stem for name in names_in(claim) for stem in name]
    once = [stem for stem in names if source.stems.count(stem) == claim.stems.count(stem) == 1]
    for first, second in combinations(once, 2):
        if source.stems.index(first) > source.stems.index(second):
            link = _link(claim, first, second, names)
            if link.subject and link == _link(source, second, first, names):
                return True
    return False


class _Link(NamedTuple):
    """The words between two names."""

    subject: frozenset[str]
    small: frozenset[str]
    """Those that say who does it: "by", "to"."""


def _link(sentence: Sentence, first: str, second: str, names: Sequence[str]) -> _Link:
    between = slice(sentence.stems.index(first) + 1, sentence.stems.index(second))
    subject = frozenset(sentence.stems[between]) & sentence.content
    return _Link(subject.difference(names), _ROLE_WORDS.intersection(sentence.words[between]))


def names_in(sentence: Sentence) -> list[tuple[str, ...]]:
    """Return runs of words with a capital letter as stems; the first word of the sentence can be among them."""
    runs = (
        [sentence.lexicon.look_up(word) for word in match[0].split()] for match in _CAPITALS.finditer(sentence.text)
    )
    stems = (tuple(word.stem for word in run if word.content) for run in runs)
    return list(dict.fromkeys(run for run in stems if run))


def has_other_count(claim: Sentence, sources: Sources) -> bool:
    """Return whether the claim counts something, and the sources only give other counts of it."""
    return any(_is_counted_otherwise(value, noun, claim, sources) for value, noun in claim.counts)


def _is_counted_otherwise(value: str, noun: str, claim: Sentence, sources: Sources) -> bool:
    rivals = {
        number
        for sentence in sources.sentences
        if noun in sentence.stem_set
        and len(claim.core & sentence.stem_set) >= min(SAME_STATEMENT_WORDS, len(claim.core))
        for number, counted in sentence.counts
        if counted == noun
    }
    return bool(rivals) and value not in rivals and value not in sources.facts.values


def names_somebody_else(claim: Sentence, sources: Sources) -> bool:
    """Return whether every sentence with the rest of the claim names somebody else in the place of its name."""
    names = names_in(claim)
    if len(names) != 1 or not all(_is_only_a_name(stem, sources) for stem in names[0]):
        return False
    rest = claim.core.difference(names[0])
    shared = [len(rest & sentence.stem_set) for sentence in sources.sentences]
    best = max(shared, default=0)
    if not best or best < SAME_ROLE * len(rest):
        return False
    near = [place for place, count in enumerate(shared) if count == best]
    return all(_has_another_name(place, names[0], claim, sources) for place in near)


def _has_another_name(place: int, name: tuple[str, ...], claim: Sentence, sources: Sources) -> bool:
    """Return whether a sentence has another name, and neither it nor the two before and the one after have this one."""
    around = sources.sentences[max(0, place - 2) : place + 2]
    if any(not sentence.stem_set.isdisjoint(name) for sentence in around):
        return False
    others = {stem for other in names_in(sources.sentences[place]) for stem in other} - claim.stem_set
    return any(_is_only_a_name(other, sources) for other in others)


def _is_only_a_name(stem: str, sources: Sources) -> bool:
    """Return whether the sources have the word, and never with a small letter."""
    is_name = sources.only_names.get(stem)
    if is_name is None:
        having = [sentence for sentence in sources.sentences if stem in sentence.stem_set]
        is_name = bool(having) and not any(stem in _small_words(sentence) for sentence in having)
        sources.only_names[stem] = is_name
    return is_name


def _small_words(sentence: Sentence) -> frozenset[str]:
    look_up = sentence.lexicon.look_up
    return frozenset(look_up(word).stem for word in _SMALL.findall(sentence.text))
