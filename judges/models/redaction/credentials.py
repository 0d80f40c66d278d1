"""Keys, tokens and passwords: by the form that their issuer gives them, or by the words before them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from judges.models.redaction.found import SensitiveSpan, begins

_KIND = "secret"

# Issued with a form: what must be in the text for the pattern to be tried at all, and the pattern.
# Every pattern takes all that it can in one go, so that long runs of look-alikes are read once.
_FORMS = tuple(
    (sign, re.compile(pattern))
    for sign, pattern in (
        ("sk-", r"sk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter and many alike
        ("k_live_", r"[spr]k_live_[A-Za-z0-9]{10,}"),  # Stripe
        ("k_test_", r"[spr]k_test_[A-Za-z0-9]{10,}"),
        ("AKIA", r"AKIA[A-Z0-9]{16,}"),  # Amazon
        ("ASIA", r"ASIA[A-Z0-9]{16,}"),
        ("ghp_", r"ghp_[A-Za-z0-9]{20,}"),  # GitHub
        ("gho_", r"gho_[A-Za-z0-9]{20,}"),
        ("ghu_", r"ghu_[A-Za-z0-9]{20,}"),
        ("ghs_", r"ghs_[A-Za-z0-9]{20,}"),
        ("ghr_", r"ghr_[A-Za-z0-9]{20,}"),
        ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
        ("glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),  # GitLab
        ("xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),  # Slack
        ("xapp-", r"xapp-[A-Za-z0-9-]{10,}"),
        ("AIza", r"AIza[A-Za-z0-9_-]{30,}"),  # Google
        ("ya29.", r"ya29\.[A-Za-z0-9_-]{20,}"),
        ("hf_", r"hf_[A-Za-z0-9]{20,}"),  # Hugging Face
        ("gsk_", r"gsk_[A-Za-z0-9]{20,}"),  # Groq
        ("xai-", r"xai-[A-Za-z0-9]{20,}"),
        ("npm_", r"npm_[A-Za-z0-9]{20,}"),
        ("pypi-", r"pypi-[A-Za-z0-9_-]{20,}"),
        ("SG.", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),  # SendGrid
        ("y0_", r"y0_[A-Za-z0-9_-]{20,}"),  # Yandex
        ("t1.", r"t1\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
        ("AQVN", r"AQVN[A-Za-z0-9_-]{20,}"),
        ("vk1.a.", r"vk1\.a\.[A-Za-z0-9_-]{20,}"),  # VK
        (":AA", r"[0-9]{6,12}:AA[A-Za-z0-9_-]{30,}"),  # Telegram's bots
        ("hooks.slack.com/", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    )
)
# A JSON Web Token: its header is JSON, which in base64 begins so.
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,4}\.?")
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s\\]|-----[A-Z ]{0,40})*")
_USERINFO = re.compile(r"://[^\s/:@]{0,64}:([^\s/@]{1,128})@")


def find_secrets(text: str) -> Iterator[SensitiveSpan]:
    yield from _issued(text)
    yield from _private_keys(text)
    yield from _in_urls(text)
    yield from _named(text)


def _issued(text: str) -> Iterator[SensitiveSpan]:
    for sign, pattern in _FORMS:
        if sign in text:
            yield from _in_form(text, pattern)
    if "eyJ" in text:
        yield from (found for found in _in_form(text, _JWT) if "." in found.key)


def _in_form(text: str, pattern: re.Pattern[str]) -> Iterator[SensitiveSpan]:
    for match in pattern.finditer(text):
        value = match[0].rstrip("-.")
        # Words joined by hyphens, such as sk-learn-contrib, have no digits.
        if begins(text, match.start()) and any(map(str.isdecimal, value)):
            yield SensitiveSpan(match.start(), match.start() + len(value), _KIND, value)


def _private_keys(text: str) -> Iterator[SensitiveSpan]:
    if "PRIVATE KEY" not in text:
        return
    closed, done = True, 0
    for begin in _PEM_BEGIN.finditer(text):
        if begin.start() < done:
            continue
        end = _PEM_END.search(text, begin.end()) if closed else None
        closed = end is not None
        body = end or _PEM_BODY.match(text, begin.end())
        done = body.end() if body else begin.end()
        yield SensitiveSpan(begin.start(), done, _KIND, text[begin.start() : done])


def _in_urls(text: str) -> Iterator[SensitiveSpan]:
    """The password in user:password@host."""
    if "://" in text and "@" in text:
        for match in _USERINFO.finditer(text):
            yield SensitiveSpan(*match.span(1), _KIND, match[1])


# Words that name a secret, in lower case


class _Word(NamedTuple):
    stem: str
    names_one: Callable[[str, int, int], bool]
    """Whether the stem from the second to the third argument is such a word."""
    password: bool = False
    strong: bool = True


_OTHER_KEYS = re.compile(
    r"(?:primary|foreign|public|cache|partition|sort|message|routing|composite|unique|row|object|s3|idempotency|hash"
    r"|первичн\w*|внешн\w*|открыт\w*|публичн\w*|составн\w*)[\s_-]{1,2}\Z"
)
_COMPOUNDS = re.compile(r"(?:api|access|secret|private|auth|ssh|account|master|service|shared|signing|encryption)\Z")


def _is_key(lower: str, start: int, end: int) -> bool:
    before = lower[max(0, start - 20) : start]
    if before[-1:].isalpha() and not _COMPOUNDS.search(before):
        return False
    return not lower[end : end + 1].isalpha() and not _OTHER_KEYS.search(before)


def _is_russian_key(lower: str, start: int, end: int) -> bool:
    before = lower[max(0, start - 20) : start]
    return not before[-1:].isalpha() and not _OTHER_KEYS.search(before) and not lower.startswith("ев", end)


def _is_token(lower: str, start: int, end: int) -> bool:
    return not lower.startswith(("iz", "is", "из"), end)


def _always(lower: str, start: int, end: int) -> bool:
    return True


_WORDS = (
    _Word("key", _is_key, strong=False),
    _Word("token", _is_token),
    _Word("secret", _always),
    _Word("passw", _always, password=True),
    _Word("pwd", _always, password=True),
    _Word("passphrase", _always, password=True),
    _Word("credential", _always),
    _Word("bearer", _always),
    _Word("authorization", _always),
    _Word("ключ", _is_russian_key, strong=False),
    _Word("токен", _is_token),
    _Word("секрет", _always),
    _Word("парол", _always, password=True),
)
_STRONG_KEY = re.compile(r"(?:api|access|secret|auth|секретн\w*|доступа)[\s_-]{0,2}\Z")
_MAX_GAP = 40
_LONG = re.compile(r"[\s\S]{0,40}?(?<![A-Za-z0-9+/_.~-])([A-Za-z0-9+/_.~-]{16,512}(?:={1,2}(?![A-Za-z0-9]))?)")
_PASSWORD = re.compile(
    r"""\w{0,12}["'`*»]{0,3}\s{0,3}(?:[:=]{1,2}|is\b|это\b|[-—])\s{0,3}["'`*«]{0,3}([^\s"'`<>«»&,;|]{6,128})"""
)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def _named(text: str) -> Iterator[SensitiveSpan]:
    lower = text.lower()
    for word in _WORDS:
        start, done = lower.find(word.stem), 0
        while start >= 0:
            end = start + len(word.stem)
            found = (
                _after(text, lower, start, end, word) if start >= done and word.names_one(lower, start, end) else None
            )
            if found:
                yield found
                done = found.end
            start = lower.find(word.stem, end)


def _after(text: str, lower: str, start: int, end: int, word: _Word) -> SensitiveSpan | None:
    """The secret that the word names, which follows it."""
    if word.password:
        match = _PASSWORD.match(text, end)
        value = match[1].rstrip(".:)*]}") if match else ""
        if match and len(value) >= 6 and any(map(str.isdecimal, value)) and "://" not in value:
            return SensitiveSpan(match.start(1), match.start(1) + len(value), _KIND, value)
    strong = word.strong or _STRONG_KEY.search(lower, max(0, start - 16), start) is not None
    at = end
    while at <= end + _MAX_GAP and (match := _LONG.match(text, at)) and match.start(1) <= end + _MAX_GAP:
        value = match[1].rstrip(".-~/")
        if _is_secret(value, strong=strong) and not value.startswith("//"):
            return SensitiveSpan(match.start(1), match.start(1) + len(value), _KIND, value)
        at = match.end(1)
    return None


def _is_secret(value: str, *, strong: bool) -> bool:
    if _UUID.fullmatch(value):
        return strong
    return len(value) >= 16 and looks_random(value)


def looks_random(value: str) -> bool:
    """Whether no person chose these characters: not a name, a path, a version or words joined by hyphens."""
    if _bits_per_char(value) < 3.0:
        return False
    if value.endswith("=") and value[0] != "=":
        return True
    return _is_base64(value) or any(_is_mixed(piece) for piece in re.split(r"[-_./+~=]", value))


def _is_base64(value: str) -> bool:
    """Long, with digits and as many capitals as words never have."""
    if len(value) < 24 or not re.fullmatch(r"[A-Za-z0-9+/]+", value) or _bits_per_char(value) < 4.0:
        return False
    capitals = sum(map(str.isupper, value))
    return capitals >= len(value) / 4 and any(map(str.isdecimal, value)) and any(map(str.islower, value))


def _is_mixed(piece: str) -> bool:
    if len(piece) < 8 or piece.isalpha() or piece.isdecimal():
        return False
    changes = sum(_class_of(one) != _class_of(other) for one, other in pairwise(piece))
    return changes >= max(3, len(piece) / 4)


def _class_of(char: str) -> int:
    return 0 if char.isdecimal() else 1 if char.isupper() else 2


def _bits_per_char(value: str) -> float:
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
