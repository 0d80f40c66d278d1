"""Addresses that are recognised by a character in them: e-mail by its @, IPv6 by its colons."""

import ipaddress
import re
from collections.abc import Iterator

from judges.models.redaction.span import SensitiveSpan, can_begin, can_end

_MAX_LOCAL_CHARS = 64
# Matched from the @ to the left, so that a long word without an @ costs nothing.
_LOCAL_REVERSED = re.compile(r"[\w.%&+-]+(?:['~!#][\w.%&+-]+)*")
# At most a first and a last name: a quoted sentence before an @ has to stay readable.
_QUOTED_REVERSED = re.compile(r'"[^"\s]{1,40}(?: [^"\s]{1,20})?"')
_LOCAL_EDGES = ".%&+-"
_ESCAPED = ("n", "r", "t")
_DOMAIN = re.compile(r"(?:[\w-]{1,63}\.)+(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})", re.IGNORECASE)
_DOMAIN_LITERAL = re.compile(r"\[(?:IPv6:)?[0-9A-Fa-f.:]{3,45}\]")
# Names of picture files for dense screens, such as icon@2x.png.
_DENSITY = re.compile(r"[1-9](?:\.\d)?x\.", re.IGNORECASE)
_USERINFO = re.compile(r"://[^\s/@]*:[^\s/@]*\Z")
_USERINFO_CHARS = 200

# An @ and dots as words, which people write to hide an address from programs: ann [at] example [dot] com, ann at
# example dot com. Without brackets only some top-level domains count, because "look at the dot com boom" is no address.
# Few labels count, because a sentence could spell out its dots, too.
_DOT = r"(?:\s?[\[({]\s?(?:dot|\.|точка)\s?[\])}]\s?|\.)"
_IN_BRACKETS = re.compile(
    rf"[\w.+-]{{1,64}}\s?[\[({{]\s?(?:at|@|собака)\s?[\])}}]\s?(?:[\w-]{{1,63}}{_DOT}){{1,3}}[^\W\d_]{{2,24}}",
    re.IGNORECASE,
)
_TOP = r"(?:com|org|net|edu|gov|info|io|co|me|dev|app|uk|de|fr|es|it|ru|ua|nl|pl|br|in|cn|jp|au|ca)"
_IN_WORDS = re.compile(
    r"[\w.+-]{1,64} at (?!the |a |an |this |that |our |my |your )(?:mail dot )?[\w-]{1,63}"
    rf"(?: dot (?:ac|co|com|edu|gov|net|org))? dot {_TOP}(?!\w)",
    re.IGNORECASE,
)
_SPACED = re.compile(rf"[\w.+-]{{1,64}} @ (?:[\w-]{{1,63}}\.)+{_TOP}(?!\w)", re.IGNORECASE)
_BRACKETED_AT = re.compile(r"[\[({]\s?(?:at|@|собака)\s?[\])}]", re.IGNORECASE)

_IPV6 = re.compile(r"[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,40}(?:\.[0-9]{1,3}){0,3}")
_LOOSE_START, _LOOSE_END = re.compile(r":(?!:)|:::"), re.compile(r"(?:[^:]:|:::)\Z")


def find_emails(text: str) -> Iterator[SensitiveSpan]:
    if " @ " in text:
        yield from _find_disguised(text, _SPACED)
    if _BRACKETED_AT.search(text):
        yield from _find_disguised(text, _IN_BRACKETS)
    if " dot " in text or " DOT " in text:
        yield from _find_disguised(text, _IN_WORDS)
    position = text.find("@")
    while position >= 0:
        span = _email(text, position)
        if span:
            yield span
        position = text.find("@", span.end if span else position + 1)


def _find_disguised(text: str, form: re.Pattern[str]) -> Iterator[SensitiveSpan]:
    return (SensitiveSpan(*match.span(), "email", match[0].casefold()) for match in form.finditer(text))


def _email(text: str, at_sign: int) -> SensitiveSpan | None:
    domain = _DOMAIN.match(text, at_sign + 1) or _DOMAIN_LITERAL.match(text, at_sign + 1)
    if domain is None or _DENSITY.match(text, at_sign + 1):
        return None
    before = text[max(0, at_sign - _MAX_LOCAL_CHARS) : at_sign]
    local = _LOCAL_REVERSED.match(before[::-1])
    name = local[0][::-1].lstrip(_LOCAL_EDGES) if local else ""
    if before.endswith('"'):
        quoted = _QUOTED_REVERSED.match(before[::-1])
        name = quoted[0][::-1] if quoted else ""
    if name[:1] in _ESCAPED and text[at_sign - len(name) - 1 : at_sign - len(name)] == "\\":
        name = name[1:]
    # git@host:repository is the address of a repository, user:password@host that of a service.
    if not name or (name == "git" and text[domain.end() : domain.end() + 1] == ":"):
        return None
    if _USERINFO.search(text, max(0, at_sign - _USERINFO_CHARS), at_sign):
        return None
    return SensitiveSpan(at_sign - len(name), domain.end(), "email", f"{name}@{domain[0]}".casefold())


def find_ipv6(text: str) -> Iterator[SensitiveSpan]:
    if "::" not in text and text.count(":") < 6:
        return
    for match in _IPV6.finditer(text):
        span = _ipv6(text, match)
        if span:
            yield span


def _ipv6(text: str, match: re.Match[str]) -> SensitiveSpan | None:
    start, candidate = match.start(), match[0].rstrip(".")
    # A single colon before or after the address does not belong to it.
    if _LOOSE_START.match(candidate):
        start, candidate = start + 1, candidate[1:]
    if _LOOSE_END.search(candidate):
        candidate = candidate[:-1]
    end = start + len(candidate)
    # Without a digit it is more likely a name in a program, such as A::B.
    if not can_begin(text, start) or not can_end(text, end) or not any(map(str.isdecimal, candidate)):
        return None
    try:
        address = ipaddress.IPv6Address(candidate)
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified else SensitiveSpan(start, end, "ip", str(address))
