"""Takes out of a sentence what refers to its sources, and writes quarters of a year in one way.

Every replacement keeps the length of the text, so that places in it stay valid.
"""

import re

KINDS = (
    r"kb|docs?|documents?|sources?|src|refs?|references?|passages?|pages?|p|pp|chunks?|contexts?|fragments?|excerpts?"
    r"|articles?|snippets?|results?|cite|citation|источники?|документы?|док|фрагменты?|контексты?|отрывк\w{1,2}|отрывок"
    r"|стр|страниц\w"
)
NUMBERS = r"\d{1,4}(?:\s?(?:,|;|-|–|&|and|и)\s?\d{1,4}){0,9}"

# "[1]", "[1, 3]", "【2】", "[^4]", "[doc 1]", "(kb-7)", "(source: 3)", "(see passages 1 and 2)", "[faq-12]".
CITATION = re.compile(
    rf"[\[【]\^?{NUMBERS}(?:†[^\]】]{{0,20}})?[\]】]"
    rf"|[(\[【](?:(?:see|from|cf\.?|см\.?)\s)?(?:the\s)?(?:{KINDS})\.?\s?[-_#:№]?\s?{NUMBERS}(?:\.\w{{1,5}})?[)\]】]"
    r"|[(\[【][a-zа-я]{1,20}[-_#]\d{1,6}(?:\.\w{1,5})?[)\]】]",
    re.IGNORECASE,
)
_KNOWN_KIND = re.compile(rf"\W(?:(?:see|from|cf\.?|см\.?)\s)?(?:the\s)?(?:{KINDS})(?![^\W\d_])", re.IGNORECASE)

# "Passage 1", "documents 2 and 3", with the colon that may follow.
NUMBERED = re.compile(
    rf"\b(?:passages?|sources?|contexts?|fragments?|excerpts?|snippets?|documents?|фрагмент\w{{0,3}}|источник\w{{0,3}}"
    rf"|отрывк\w{{1,3}}|документ\w{{0,3}})\s[#№]?{NUMBERS}\b:?",
    re.IGNORECASE,
)

# "According to the passages provided,", «Согласно документам,».
_LEAD_IN = re.compile(
    r"(?:sure[,!.]\s)?(?:according to|based (?:up)?on|as (?:stated|mentioned|described|noted|per|given)(?: in)?"
    r"|per|from|in)"
    r"(?:\s(?:the|this|these|those|your|my|all|both|only|given|provided|available|above|retrieved|following|information|"
    r"in|from|of|context|details?|text)){0,8}"
    r"\s(?:passages?|contexts?|documents?|documentation|sources?|texts?|information|excerpts?|articles?|snippets?"
    r"|materials?|context)(?:\s(?:provided|given|above|you provided|you gave me|available|below)){0,2}"
    r"(?:\s(?:here is|here's|here are)(?=\s))?\s?[,:]"
    r"|(?:согласно|исходя из|судя по|по|на основе|на основании)"
    r"(?:\s(?:предоставленн\w{2,3}|приведённ\w{2,3}|приведенн\w{2,3}|данн\w{2,3}|этим|эт\w{2}|информации|из)){0,4}"
    r"\s(?:документ\w{0,4}|контекст\w{0,4}|источник\w{0,4}|фрагмент\w{0,4}|информаци\w|текст\w{0,3}|материал\w{0,3})\s?[,:]",
    re.IGNORECASE,
)
_FIRST_LETTERS = frozenset("sabpfiSABPFIсинСИНпП")
_DIGIT = re.compile(r"\d")

_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "i": 1, "ii": 2}
_ORDINALS |= {"iii": 3, "iv": 4, "перв": 1, "втор": 2, "трет": 3, "четв": 4, "1": 1, "2": 2, "3": 3, "4": 4}
_QUARTER = re.compile(
    r"\b(?P<before>first|second|third|fourth|1st|2nd|3rd|4th|[1-4](?:-[йм]|-ом|-го)?|IV|I{1,3}|перв\w{2,3}|втор\w{2,3}"
    r"|треть\w{1,3}|третий|четв[её]рт\w{2,3})(?:\s|-)(?:(?:fiscal|calendar)\s)?(?:quarter|квартал(?:а|е|у|ом)?)\b"
    r"|\b(?:quarter|квартал)\s(?P<after>[1-4])\b|\b(?P<short>[1-4])Q\b|\bQ(?P<plain>[1-4])(?=['’`]\d\d\b|[12]\d\d\d\b|FY)",
    re.IGNORECASE,
)


def comparable(text: str) -> str:
    """Return a sentence without references to its sources, with "Q4" for "fourth quarter", at the same length."""
    if "[" in text or "(" in text or "【" in text:
        text = CITATION.sub(_blank_citation, text)
    if text[:1] in _FIRST_LETTERS:
        lead_in = _LEAD_IN.match(text)
        if lead_in:
            text = " " * lead_in.end() + text[lead_in.end() :]
    if _DIGIT.search(text):
        text = NUMBERED.sub(_blank, text)
    if "uarter" in text or "вартал" in text or "Q" in text:
        text = _QUARTER.sub(_quarter, text)
    return text


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _blank_citation(match: re.Match[str]) -> str:
    """Keep "(COVID-19)": a code in capitals is part of the text, unless it is named as a source."""
    is_code = match[0][1:2].isupper() and not _KNOWN_KIND.match(match[0])
    return match[0] if is_code else _blank(match)


def _quarter(match: re.Match[str]) -> str:
    word = (match["before"] or match["after"] or match["short"] or match["plain"]).lower()
    number = next(_ORDINALS[word[:length]] for length in (len(word), 4, 3, 1) if word[:length] in _ORDINALS)
    return f"Q{number}".ljust(len(match[0]))
