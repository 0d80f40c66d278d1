"""Light stemming of English and Russian words: just enough to match the forms of one word."""

# Longer stems are cut: derived words differ after this point (register, registration; возврат, возвращать).
_ENGLISH_STEM = 7
_RUSSIAN_STEM = 6

_VOWELS = frozenset("aeiouyаеиоуыэюя")

# Endings without a final e or y, and the minimum number of letters before them. Longest first.
_ENGLISH_ENDINGS: tuple[tuple[str, int], ...] = (
    ("isation", 4), ("ization", 4), ("ational", 4), ("abilit", 4), ("ibilit", 4), ("ation", 4), ("ition", 4),
    ("ment", 3), ("ness", 4), ("sion", 4), ("tion", 4), ("ical", 4), ("abl", 4), ("ibl", 4), ("anc", 4), ("enc", 4),
    ("ant", 5), ("ent", 5), ("ous", 4), ("ful", 4), ("it", 4), ("iv", 4), ("at", 4), ("al", 5), ("er", 4), ("or", 5),
)  # fmt: skip

# Longest first.
_RUSSIAN_ENDINGS: tuple[str, ...] = (
    "ироваться", "ированный", "ирование", "ирования", "ировать", "ируется", "ируются", "ываться", "иваться",
    "ывается", "ивается", "ываются", "иваются", "ование", "ования", "ирует", "ируют", "ывать", "ивать", "ывает",
    "ивает", "ывают", "ивают", "овать", "ующий", "ующая", "ующие", "анный", "енный", "анная", "енная", "анные",
    "енные", "анное", "енное", "анных", "енных", "ением", "анием", "остью", "остей", "ником", "ников", "никам",
    "ского", "телем", "телей", "телям", "ющий", "ющая", "ющие", "иями", "уйте", "айте", "яйте", "ейте", "ение",
    "ения", "ению", "ений", "ание", "ания", "анию", "аний", "ость", "ости", "ника", "нику", "ники", "нный", "нная",
    "нное", "нные", "нных", "ного", "ному", "ными", "ский", "ская", "ское", "ские", "ской", "ских", "ским", "тель",
    "теля", "телю", "тели", "ями", "ами", "иях", "иям", "ием", "ией", "ого", "его", "ому", "ему", "ыми", "ими", "ешь",
    "ете", "ите", "ить", "ать", "ять", "еть", "уть", "ает", "яет", "ают", "яют", "ала", "ало", "али", "ила", "ило",
    "или", "ела", "ело", "ели", "ена", "ены", "ено", "ана", "аны", "ано", "ишь", "йте", "ует", "уют", "ник", "ный",
    "ная", "ное", "ные", "ных", "ной", "ным", "ную", "ях", "ах", "ям", "ам", "ем", "ом", "ей", "ой", "ий", "ый", "ие",
    "ые", "ое", "ее", "ую", "юю", "ая", "яя", "ых", "их", "ым", "им", "ию", "ью", "ия", "ья", "ов", "ев", "ет", "ит",
    "ют", "ут", "ат", "ят", "аю", "яю", "но", "ал", "ил", "ел", "ен", "ан", "а", "е", "и", "й", "о", "у", "ы", "ь", "э",
    "ю", "я",
)  # fmt: skip
_RUSSIAN_LEAST = 3

# Verb endings that nouns have, too (билет, кредит): they need more letters before them.
_LIKE_NOUNS = frozenset(
    {"ет", "ит", "ат", "ят", "ут", "ют", "ал", "ел", "ил", "ан", "ен", "ем", "ей", "ой", "им", "ам"}
)


def stem(word: str) -> str:
    """Return the stem of a lower-case word; a word in neither alphabet is returned unchanged."""
    if "а" <= word[:1] <= "я":
        return _russian(word)
    return _english(word) if word.isascii() else word


def _english(word: str) -> str:
    word = word.removesuffix("'s").replace("'", "")
    if len(word) <= 3:
        return word
    word = _without_tense(_without_plural(word))
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    word = _bare(word)
    for ending, least in _ENGLISH_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = _bare(word[: -len(ending)])
            break
    return _single(word)[:_ENGLISH_STEM]


def _bare(word: str) -> str:
    """Remove a final e or y, which forms of one word may lack (delivery, deliver; employee, employer)."""
    while len(word) > 4 and word[-1] in "ey":
        word = word[:-1]
    return word


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
    """Remove the doubled consonant before an ending (cancelled, shipping)."""
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def _russian(word: str) -> str:
    if len(word) > 5 and word.endswith(("ся", "сь")):
        word = word[:-2]
    # Twice, because the stem of a noun may itself look as if it had an ending: кредита, кредит.
    return _single(_without_ending(_without_ending(word)))[:_RUSSIAN_STEM]


def _without_ending(word: str) -> str:
    for ending in _RUSSIAN_ENDINGS:
        rest = word[: -len(ending)]
        least = _RUSSIAN_LEAST + (ending in _LIKE_NOUNS)
        if len(rest) >= least and word.endswith(ending) and not _VOWELS.isdisjoint(rest):
            return rest
    return word
