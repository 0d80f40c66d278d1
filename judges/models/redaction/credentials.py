"""Keys, tokens and passwords: recognised by the form that their issuer gives them, or by the words before them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from judges.models.redaction.span import SensitiveSpan, can_begin

_KIND = "secret"

# Forms of issuers: a text that must occur before the pattern is tried, and the pattern.
# Every pattern matches greedily, so that long runs of look-alikes are read only once.
_FORMS = tuple(
    (sign, re.compile(pattern))
    for sign, pattern in (
        ("sk-", r"sk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter and many others
        ("k_live_", r"[spr]k_live_[A-Za-z0-9]{10,}"),  # Stripe
        ("k_test_", r"[spr]k_test_[A-Za-z0-9]{10,}"),
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
        ("secret_", r"secret_[A-Za-z0-9]{32,}"),  # Notion
        ("ntn_", r"ntn_[A-Za-z0-9]{32,}"),
        ("key-", r"key-[0-9a-z]{32,}"),  # Mailgun
        ("whsec_", r"whsec_[A-Za-z0-9+/=]{20,}"),  # Stripe's webhooks
        ("shp", r"shp(?:at|ca|pa|ss|ua|tka)_[A-Za-z0-9]{24,}"),  # Shopify
        ("_v1_", r"do[opr]_v1_[0-9a-f]{32,}"),  # DigitalOcean
        ("hv", r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),  # HashiCorp's Vault
        ("AC", r"AC[0-9a-f]{32}"),  # Twilio
        ("SK", r"SK[0-9a-f]{32}"),
        ("dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,}"),  # Docker
        ("glsa_", r"glsa_[A-Za-z0-9_]{32,}"),  # Grafana
        ("glc_", r"glc_[A-Za-z0-9+/=]{32,}"),
        ("gl", r"gl(?:ptt|dt|rt|cbt|ft|soat|agent)-[A-Za-z0-9_-]{20,}"),  # GitLab's other tokens
        ("sib-", r"x(?:key|smtp)sib-[0-9a-f]{32,}-[A-Za-z0-9]{16}"),  # Brevo
        ("nvapi-", r"nvapi-[A-Za-z0-9_-]{32,}"),  # NVIDIA
        ("r8_", r"r8_[A-Za-z0-9]{30,}"),  # Replicate
        ("pplx-", r"pplx-[A-Za-z0-9]{32,}"),  # Perplexity
        ("dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),  # Databricks
        ("figd_", r"figd_[A-Za-z0-9_-]{30,}"),  # Figma
        ("sbp_", r"sbp_[0-9a-f]{40}"),  # Supabase
        ("tskey-", r"tskey-[a-z]+-[A-Za-z0-9-]{20,}"),  # Tailscale
        ("PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
        ("pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}"),  # PlanetScale
        ("rubygems_", r"rubygems_[0-9a-f]{48}"),
        ("sntry", r"sntry[su]_[A-Za-z0-9_+/=-]{40,}"),  # Sentry
        ("sq0", r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,}"),  # Square
        ("EAAA", r"EAAA[A-Za-z0-9+=-]{56,}"),
        ("lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),  # Linear
        ("NRAK-", r"NRAK-[A-Z0-9]{27}"),  # New Relic
        ("LTAI", r"LTAI[A-Za-z0-9]{16,24}"),  # Alibaba
        ("ATATT3", r"ATATT3[A-Za-z0-9_=-]{60,}"),  # Atlassian
        ("shippo_", r"shippo_(?:live|test)_[0-9a-f]{40}"),
        ("pul-", r"pul-[0-9a-f]{40}"),  # Pulumi
        ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
        ("fo1_", r"fo1_[A-Za-z0-9_-]{40,}"),  # Fly
        ("CFPAT-", r"CFPAT-[A-Za-z0-9_-]{40,}"),  # Contentful
        ("sgp_", r"sgp_[0-9a-zA-Z_]{40,}"),  # Sourcegraph
        ("tfp_", r"tfp_[A-Za-z0-9]{40,}"),  # Typeform
        ("A3-", r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),  # 1Password
        ("ops_eyJ", r"ops_eyJ[A-Za-z0-9+/]{100,}={0,3}"),
        ("Q~", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),  # Azure
        ("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),  # Google's OAuth
        ("FLWSECK", r"FLWSECK(?:_TEST)?-[0-9a-f]{12,}-X"),  # Flutterwave
        ("dp.", r"dp\.(?:pt|st|ct|scim|audit)\.[A-Za-z0-9.]{40,}"),  # Doppler
        ("rdme_", r"rdme_[0-9a-z]{70}"),
        ("discord.com/api/webhooks/", r"discord\.com/api/webhooks/[0-9]{15,22}/[A-Za-z0-9_-]{50,}"),
        ("hooks.slack.com/", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    )
)
# Amazon's key ids: of fixed length, and too short to distinguish them from words by their letters. But 96 % of
# them contain a digit.
_AMAZON = re.compile(r"A[KS]IA(?=[A-Z]{0,15}[0-9])[A-Z0-9]{16}(?![A-Za-z0-9])")
# A JSON Web Token: its header is JSON, which begins like this in base64.
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,4}\.?")
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# A line break, also in the notations of JSON, HTML and URLs.
_BREAK = r"(?:\s|\\{1,8}(?:[nrt]|u000[ad])|(?i:<br ?/?>|&#(?:10|13|xa|xd);|%0[ad]))"
# Marks around the lines of a quoted key: in mail, a list, a comment, a table, a diff, or the strings of a program. They
# have no letters and digits, so that no words disappear with them.
_PEM_GAP = re.compile(rf"(?:{_BREAK}|(?!-----)[!-/:-<>-@\[-`{{-~]){{0,240}}")
# Headers of an encrypted key have values of a fixed form. All other headers may contain words, which stay readable.
_PEM_CIPHER = r"(?:AES|ARIA|BF|CAMELLIA|CAST5?|DES|IDEA|RC2|SEED|SM4)(?:-EDE3|-[0-9]{2,3})?-(?:CBC|CFB|ECB|OFB)"
_PEM_FIXED_HEADER = re.compile(
    rf"(?:Proc-Type: 4,ENCRYPTED|DEK-Info: {_PEM_CIPHER},[0-9A-F]{{6,32}})"
    r"""(?=[ \t\r>#*|"'+,;.]{0,80}(?:[\n\\]|DEK-Info: | [A-Za-z0-9+/]{16}))"""
)
_PEM_HEADER = re.compile(
    rf"(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash): (?:(?!-----)[^\n\\]){{0,80}}(?={_BREAK})"
)
# No line of words is this long without a space; only the last line of a key may be shorter.
_PEM_LINE = re.compile(r"[A-Za-z0-9+/]{16,16384}={0,2}")
_PEM_LINE_START = re.compile(r"[A-Za-z0-9+/]{16}")
_PEM_LAST_LINE = re.compile(r"[A-Za-z0-9+/]{0,15}={0,2}")
_PEM_ZEROS = re.compile("A{3,}")  # zero bytes, no word in capitals
_MAX_PEM_TEXT_CHARS = 80  # between two lines, such as the number of a line or a header
_PEM_CHECKSUM = re.compile(r"=[A-Za-z0-9+/]{4}")
_MAX_PEM_CHARS = 16_384  # a key of RSA with 16,384 bits has 12,800
_MIN_KEY_BITS_PER_CHAR = 2.5
_MIN_TOKEN_CHARS = 12
_USERINFO = re.compile(r"://[^\s/:@]{0,64}:([^\s/@]{1,128})@")


def find_secrets(text: str) -> Iterator[SensitiveSpan]:
    yield from _find_issued(text)
    yield from _find_private_keys(text)
    yield from _find_in_urls(text)
    yield from _find_named(text)


def _find_issued(text: str) -> Iterator[SensitiveSpan]:
    # Few words are as long as a token: searching these takes a fraction of the time for the whole text.
    long_words = " ".join([word for word in text.split() if len(word) >= _MIN_TOKEN_CHARS])
    if not long_words:
        return
    for sign, pattern in _FORMS:
        if sign in long_words:
            yield from _find_form(text, pattern)
    if "KIA" in long_words or "SIA" in long_words:
        ids = (match for match in _AMAZON.finditer(text) if can_begin(text, match.start()))
        yield from (SensitiveSpan(*match.span(), _KIND, match[0]) for match in ids)
    if "eyJ" in long_words:
        yield from (span for span in _find_form(text, _JWT) if "." in span.key)


def _find_form(text: str, pattern: re.Pattern[str]) -> Iterator[SensitiveSpan]:
    for match in pattern.finditer(text):
        value = match[0].rstrip("-.")
        if can_begin(text, match.start()) and _is_key_material(value):
            yield SensitiveSpan(match.start(), match.start() + len(value), _KIND, value)


def _is_key_material(value: str) -> bool:
    """Return whether it is as random as a key: words joined by hyphens are not, even with a number among them."""
    return _bits_per_char(value) >= _MIN_KEY_BITS_PER_CHAR and not _is_made_of_words(value)


def _find_private_keys(text: str) -> Iterator[SensitiveSpan]:
    if "PRIVATE KEY" not in text:
        return
    position = 0
    for begin in _PEM_BEGIN.finditer(text):
        if begin.start() >= position:
            for start, end in _parts_of_key(text, begin):
                position = end
                yield SensitiveSpan(start, end, _KIND, text[start:end])


def _parts_of_key(text: str, begin: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield where a key begins and ends, with its BEGIN line and, if present, its END line.

    Text between two lines stays, and divides the key into parts. A header with words leaves only the base64.
    """
    limit = begin.end() + _MAX_PEM_CHARS
    body, has_free_header = _skip_headers(text, _skip(_PEM_GAP, text, begin.end()), limit)
    lines = list(_find_pem_lines(text, body, limit))
    if not _is_mixed("".join([line[0] for line in lines])):
        return
    start, end = body if has_free_header else begin.start(), body
    for line in lines:
        if line.start() != _skip(_PEM_GAP, text, end):
            if end > body:
                yield start, end
            start = line.start()
        end = line.end()
    yield start, _skip_end_of_key(text, end)


def _find_pem_lines(text: str, position: int, limit: int) -> Iterator[re.Match[str]]:
    """Find the lines of base64 that are not words."""
    while True:
        position = _skip(_PEM_GAP, text, position)
        window = min(limit, position + _MAX_PEM_TEXT_CHARS + 16)
        line_start = _PEM_LINE_START.search(text, position, window)
        if line_start is None or "-----" in text[position : line_start.start()]:
            return
        line = _PEM_LINE.match(text, line_start.start(), limit)
        if line is None:
            return
        if not _is_made_of_words(_PEM_ZEROS.sub("", line[0])):
            yield line
        position = line.end()


def _skip_end_of_key(text: str, end: int) -> int:
    """Return where the END line ends. What is shorter than a line belongs to the key only if that line follows."""
    position = end
    for rest in (_PEM_LAST_LINE, _PEM_CHECKSUM):
        position = _skip(_PEM_GAP, text, _skip(rest, text, _skip(_PEM_GAP, text, position)))
        closing = _PEM_END.match(text, position)
        if closing:
            return closing.end()
    return end


def _skip_headers(text: str, position: int, limit: int) -> tuple[int, bool]:
    """Return where the base64 begins, and whether a header before it may contain words."""
    has_free_header = False
    while position < limit:
        header = _PEM_FIXED_HEADER.match(text, position)
        if header is None:
            header = _PEM_HEADER.match(text, position)
            has_free_header = has_free_header or header is not None
        if header is None:
            break
        position = _skip(_PEM_GAP, text, header.end())
    return position, has_free_header


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _find_in_urls(text: str) -> Iterator[SensitiveSpan]:
    """Find the password in user:password@host."""
    if "://" in text and "@" in text:
        for match in _USERINFO.finditer(text):
            if not _is_sentence(match[1]):
                yield SensitiveSpan(*match.span(1), _KIND, match[1])


# Words that name a secret, in lower case


class _ShortForm(NamedTuple):
    """A value that may be shorter than a key, because of the sign between it and the word."""

    after_word: re.Pattern[str]
    is_value: Callable[[str], bool]


class _Word(NamedTuple):
    stem: str
    names_secret: Callable[[str, int, int], bool]
    """Whether the stem from the second to the third argument names a secret."""
    short_form: _ShortForm | None = None
    strong: bool = True


_OTHER_KEYS = re.compile(
    r"(?:primary|foreign|public|cache|partition|sort|message|routing|composite|unique|row|object|s3|idempotency|hash"
    r"|первичн\w*|внешн\w*|открыт\w*|публичн\w*|составн\w*)[\s_-]{1,2}\Z"
)
_SESSION_ID = re.compile(r"[\s_-]?(?:id|key|cookie|token)?[\"']?\s?[:=]|[\s_-]?(?:id|cookie) is\b")
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


def _is_session(lower: str, start: int, end: int) -> bool:
    """Return whether the id of a session follows: as a cookie, as a parameter, or in words."""
    return _SESSION_ID.match(lower, end) is not None


def _always(lower: str, start: int, end: int) -> bool:
    return True


def _is_password(value: str) -> bool:
    return len(value) >= 6 and any(map(str.isdecimal, value)) and "://" not in value and not _is_sentence(value)


def _is_session_id(value: str) -> bool:
    """Return whether it is an id: years have no letters, and words few digits."""
    has_both = any(map(str.isdecimal, value)) and any(map(str.isalpha, value))
    return len(value) >= 8 and has_both and not _is_made_of_words(value)


_PASSWORD = _ShortForm(
    re.compile(
        r"""\w{0,12}["'`*»]{0,3}\s{0,3}(?:[:=]{1,2}|is\b|это\b|[-—])\s{0,3}["'`*«]{0,3}([^\s"'`<>«»&,;|]{6,128})"""
    ),
    _is_password,
)
_SESSION = _ShortForm(re.compile(r"""[\w-]{0,12}["']?\s?=\s?["']?([A-Za-z0-9_.%~+/-]{8,512}={0,2})"""), _is_session_id)
_WORDS = (
    _Word("key", _is_key, strong=False),
    _Word("token", _is_token),
    _Word("secret", _always),
    _Word("passw", _always, _PASSWORD),
    _Word("pwd", _always, _PASSWORD),
    _Word("passphrase", _always, _PASSWORD),
    _Word("credential", _always),
    _Word("bearer", _always),
    _Word("authorization", _always),
    _Word("session", _is_session, _SESSION),
    _Word("sessid", _always, _SESSION),
    _Word("ключ", _is_russian_key, strong=False),
    _Word("токен", _is_token),
    _Word("секрет", _always),
    _Word("парол", _always, _PASSWORD),
)
_STRONG_KEY = re.compile(r"(?:api|access|secret|auth|секретн\w*|доступа)[\s_-]{0,2}\Z")
_MAX_GAP = 40
_LONG = re.compile(r"[\s\S]{0,40}?(?<![A-Za-z0-9+/_.~-])([A-Za-z0-9+/_.~-]{16,512}(?:={1,2}(?![A-Za-z0-9]))?)")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def _find_named(text: str) -> Iterator[SensitiveSpan]:
    lower = text.lower()
    for word in _WORDS:
        start, position = lower.find(word.stem), 0
        while start >= 0:
            end = start + len(word.stem)
            is_name = start >= position and word.names_secret(lower, start, end)
            span = _find_after(text, lower, start, end, word) if is_name else None
            if span:
                yield span
                position = span.end
            start = lower.find(word.stem, end)


def _find_after(text: str, lower: str, start: int, end: int, word: _Word) -> SensitiveSpan | None:
    """Return the secret after the word that names it."""
    match = word.short_form.after_word.match(text, end) if word.short_form else None
    if word.short_form and match:
        value = match[1].rstrip(".:)*]}")
        if word.short_form.is_value(value):
            return SensitiveSpan(match.start(1), match.start(1) + len(value), _KIND, value)
    strong = word.strong or _STRONG_KEY.search(lower, max(0, start - 16), start) is not None
    position = end
    while position <= end + _MAX_GAP and (match := _LONG.match(text, position)) and match.start(1) <= end + _MAX_GAP:
        value = match[1].rstrip(".-~/")
        if _is_secret(value, strong=strong) and not value.startswith("//"):
            return SensitiveSpan(match.start(1), match.start(1) + len(value), _KIND, value)
        position = match.end(1)
    return None


def _is_secret(value: str, *, strong: bool) -> bool:
    if _UUID.fullmatch(value):
        return strong
    return len(value) >= 16 and looks_random(value) and not _is_sentence(value)


def looks_random(value: str) -> bool:
    """Return whether the characters look random: not a name, a path, a version or words joined by hyphens."""
    if _bits_per_char(value) < 3.0:
        return False
    if value.endswith("=") and value[0] != "=":
        return True
    return _is_base64(value) or any(_is_mixed(piece) for piece in re.split(r"[-_./+~=]", value))


def _is_base64(value: str) -> bool:
    """Return whether it is long, and has digits and more capitals than words have."""
    if len(value) < 24 or not re.fullmatch(r"[A-Za-z0-9+/]+", value) or _bits_per_char(value) < 4.0:
        return False
    capitals = sum(map(str.isupper, value))
    return capitals >= len(value) / 4 and any(map(str.isdecimal, value)) and any(map(str.islower, value))


_WORD_RUN = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{4,}|[^\W\d_A-Za-z]{3,}")
# Of random keys, up to 2 % with 16 to 24 characters have more, and 0.2 % with 32 or more.
_MAX_SHARE_OF_WORDS = 0.8
_MIN_CHANGES_PER_CHAR = 0.15
# Where a password is expected, it is better to hide words than to show random letters.
_MAX_SHARE_IN_PASSWORD = 0.85
_MAX_PASSPHRASE_CHARS = 40  # six words with hyphens between them


def _is_made_of_words(value: str, *, max_share: float = _MAX_SHARE_OF_WORDS) -> bool:
    """Return whether most of it is runs of letters. A key without capitals has many, too, but digits between them."""
    body = re.sub(r"[\W_]", "", value)
    if sum(map(len, _WORD_RUN.findall(body))) <= max_share * len(body):
        return False
    has_one_case = body.islower() or body.isupper()
    changes = sum(_class_of(one) != _class_of(other) for one, other in pairwise(body))
    return not has_one_case or changes < _MIN_CHANGES_PER_CHAR * len(body)


def _is_sentence(value: str) -> bool:
    """Return whether it is words, and more of them than people choose for a password."""
    return len(value) > _MAX_PASSPHRASE_CHARS and _is_made_of_words(value, max_share=_MAX_SHARE_IN_PASSWORD)


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
