"""Light stemming of English and Russian words: enough that forms of one word meet, and no more."""

# Longer stems are cut: derived words differ behind this point (register, registration; возврат, возвращать).
_ENGLISH_STEM = 7
_RUSSIAN_STEM = 6

_VOWELS = frozenset("aeiouyаеиоуыэюя")

# Ending and the least number of letters that must remain before it. Longest first.
_ENGLISH_ENDINGS: tuple[tuple[str, int], ...] = (
    ("isation", 4), ("ization", 4), ("ational", 4), ("ability", 4), ("ibility", 4), ("ations", 4),
    ("ation", 4), ("ition", 4), ("ments", 3), ("ment", 3), ("ness", 4), ("able", 4), ("ible", 4),
    ("ance", 4), ("ence", 4), ("sion", 4), ("tion", 4), ("ical", 4), ("ity", 4), ("ive", 4),
    ("ant", 5), ("ent", 5), ("ous", 4), ("ful", 4), ("ate", 4), ("ally", 4), ("ily", 3),
    ("ly", 4), ("al", 5), ("er", 4), ("or", 5), ("ee", 4),
)  # fmt: skip

_RUSSIAN_ENDINGS: tuple[str, ...] = tuple(
    sorted(
        (
            "ироваться ировать ирование ирования ируется ируются ирует ируют ированный ываться иваться ывается ивается "
            "ываются иваются ывать ивать ывает ивает ывают ивают ование ования овать ующий ющий ующая ующие ющая ющие "
            "иями ями ами иях ях ах иям ям ам ием ем ом ией ей ой ий ый ие ые ое ее ую юю ая яя ого его ому ему ыми ими "
            "ых их ым им ию ью ия ья ов ев ешь ете ет ит ите ить ать ять еть уть ют ут ат ят аю яю ает яет ают яют ал ала "
            "ало али ил ила ило или ел ела ело ели ен ена ены ено ан ана аны ано анный енный анная енная анные енные анное "
            "енное анных енных ишь йте уйте айте яйте ейте ует уют ение ения ению ением ений ание ания анию анием аний "
            "ость ости остью остей ник ника нику ником ники ников никам нный нная нное нные нных ный ная ное ные ных ного "
            "ной ному ным ными ную ский ская ское ские ского ской ских ским тель теля телю телем тели телей телям "
            "а е и й о у ы ь э ю я"
        ).split(),
        key=lambda ending: -len(ending),
    )
)
_RUSSIAN_LEAST = 3


def stem(word: str) -> str:
    """The stem of a lower-case word; words in neither alphabet come back as they are."""
    if "а" <= word[:1] <= "я":
        return _russian(word)
    return _english(word) if word.isascii() else word


def _english(word: str) -> str:
    word = word.removesuffix("'s").replace("'", "")
    if len(word) <= 3:
        return word
    word = _without_tense(_without_plural(word))
    for ending, least in _ENGLISH_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word[: -len(ending)]
            break
    if len(word) > 4 and word[-1] in "ey":
        word = word[:-1]
    return _single(word)[:_ENGLISH_STEM]


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_tense(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ed", "ing"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= 3 and not _VOWELS.isdisjoint(rest) and not word.endswith("eed"):
            return rest
    return word


def _single(word: str) -> str:
    """Without the doubled consonant that endings bring (cancelled, shipping)."""
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word


def _russian(word: str) -> str:
    if len(word) > 5 and word.endswith(("ся", "сь")):
        word = word[:-2]
    for ending in _RUSSIAN_ENDINGS:
        rest = word[: -len(ending)]
        if len(rest) >= _RUSSIAN_LEAST and word.endswith(ending) and not _VOWELS.isdisjoint(rest):
            return _single(rest)[:_RUSSIAN_STEM]
    return word[:_RUSSIAN_STEM]
