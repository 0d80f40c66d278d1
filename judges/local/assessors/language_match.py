"""Language: is the answer in the language of the question?

The rules tell English and Russian from each other, from languages in other letters, and from common languages in the
same letters. They do not tell other languages from one another.
"""

import re
import unicodedata
from collections import Counter

from judges.local.case_reading import ANSWER_LIMIT, CaseReading
from judges.local.finding import Assessment, CannotJudgeError, say
from judges.local.language.text import sentences_of
from judges.local.lexicon import Lexicon
from judges.values.cyrillic import is_russian

MISMATCH = 0
MATCH = 1

# Words from which a sentence of an answer counts: shorter ones in Latin letters may be names, titles or terms.
_SENTENCE_WORDS = 2
_LATIN_WORDS = 4
# Share of the words of an answer in another language from which it does not match; a quotation has less.
_FOREIGN_SHARE = 0.25
# Share of words in the letters of a language from which a text may be in it.
_MOSTLY = 0.6
# Share of grammatical words of a language from which a text in its letters is in it: English has some 40 %.
_GRAMMAR_SHARE = 0.2
# Characters of a script without spaces that count as a word.
_CHARS_OF_WORD = 2

_CODE = re.compile(r"```.*?(?:```|$)|`[^`\n]*`|https?://\S+|«[^»\n]{0,200}»|[“\"][^”\"\n]{0,200}[”\"]", re.DOTALL)
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]+(?:['’][A-Za-z]+)?")
_CYRILLIC = re.compile("[\u0400-\u04ff]+")
_OTHER = re.compile("[^\\W\\d_A-Za-z\u00aa\u00b5\u00ba\u00c0-\u024f\u0400-\u04ff]+")
_ASKS_FOR_LANGUAGE = re.compile(
    r"\btranslat|\b(?:in|into|to) (?:english|russian|german|french|spanish|italian|portuguese|chinese|japanese)\b"
    r"|\bпереве(?:д|ст)|\bперевод|\b(?:на|по)[ -](?:англ|русск|немец|франц|испан|итал|китай|япон|араб)\w+",
    re.IGNORECASE,
)
# Frequent words of German, French, Spanish, Italian, Portuguese, Dutch and Polish that are not English.
_NEIGHBOUR_WORDS = (
    "der das und ist nicht ein eine einen für mit von zu den dem sie wird werden kann auch bei auf im sich wie "
    "le la les des est pas une un pour dans que qui sur avec vous nous ne et du au sont il elle ce cette "
    "el los las es una por con para del se su y en lo como más pero está son "
    "che di non sono della il è gli nel alla questo anche "
    "não uma os com em da é são você seu sua mais "
    "het een van niet zijn dat de voor met wordt ook naar "
    "nie jest się na że jak są przez"
)
_NEIGHBOURS = frozenset(_NEIGHBOUR_WORDS.split())
_ENGLISH, _RUSSIAN, _LATIN_OTHER, _CYRILLIC_OTHER = "English", "Russian", "another Latin", "another Cyrillic"
_UNKNOWN = "unknown"
_PUNCTUATION = " .,;:!?-–—*#_'\"«»“”()[]"


def assess(reading: CaseReading) -> Assessment:
    question = reading.full_question
    if _ASKS_FOR_LANGUAGE.search(question):
        raise CannotJudgeError("the question may ask for another language")
    asked = _language_of(question, reading.lexicon)
    if asked == _UNKNOWN:
        raise CannotJudgeError("the question has too few words to tell its language")
    words = _words_by_language(reading.full_answer[:ANSWER_LIMIT], reading.lexicon)
    foreign = {language: count for language, count in words.items() if language not in {asked, _UNKNOWN}}
    is_foreign = bool(foreign) and sum(foreign.values()) >= _FOREIGN_SHARE * sum(words.values())
    if not is_foreign and asked in {_LATIN_OTHER, _CYRILLIC_OTHER}:
        raise CannotJudgeError("the question is in a language that the rules do not know")
    return Assessment(level=MISMATCH if is_foreign else MATCH, explanation=_explain(reading, is_foreign) + reading.cut)


def _explain(reading: CaseReading, is_foreign: bool) -> str:
    if is_foreign:
        return say(
            reading.language,
            en="The answer is not in the language of the question, wholly or in part.",
            ru="Ответ весь или частично не на языке вопроса.",
        )
    return say(reading.language, en="The answer is in the language of the question.", ru="Ответ на языке вопроса.")


def _words_by_language(text: str, lexicon: Lexicon) -> Counter[str]:
    """Count the words of an answer by the language of their sentence; code and quotations do not count."""
    words: Counter[str] = Counter()
    for sentence, _ in sentences_of(_CODE.sub(" ", text), lexicon):
        count = _count_words(sentence)
        fewest = _LATIN_WORDS if _LATIN.match(sentence.lstrip(_PUNCTUATION)) else _SENTENCE_WORDS
        words[_language_of(sentence, lexicon) if count >= fewest else _UNKNOWN] += count
    return words


def _count_words(text: str) -> int:
    other = sum(len(part) for part in _OTHER.findall(text))
    return len(_LATIN.findall(text)) + len(_CYRILLIC.findall(text)) + -(-other // _CHARS_OF_WORD)


def _language_of(text: str, lexicon: Lexicon) -> str:
    latin, cyrillic, total = _LATIN.findall(text), _CYRILLIC.findall(text), _count_words(text)
    if total == 0:
        return _UNKNOWN
    if len(cyrillic) >= _MOSTLY * total:
        return _RUSSIAN if is_russian(text) else _CYRILLIC_OTHER
    if len(latin) >= _MOSTLY * total:
        return _latin_language([word.lower() for word in latin], lexicon)
    other = _OTHER.search(text)
    return _script_of(other[0]) if other and total - len(latin) - len(cyrillic) >= _MOSTLY * total else _UNKNOWN


def _latin_language(words: list[str], lexicon: Lexicon) -> str:
    english = sum(not lexicon.look_up(word).content and word not in _NEIGHBOURS for word in words)
    neighbours = sum(word in _NEIGHBOURS for word in words)
    if max(english, neighbours) < _GRAMMAR_SHARE * len(words) or english == neighbours:
        return _UNKNOWN
    return _ENGLISH if english > neighbours else _LATIN_OTHER


def _script_of(text: str) -> str:
    """Return the script of the first letter, as Unicode names it: Chinese and Japanese share one."""
    script = unicodedata.name(text[0], _UNKNOWN).split(" ", 1)[0]
    return "CJK" if script in {"HIRAGANA", "KATAKANA", "CJK"} else script
