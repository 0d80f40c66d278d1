"""Addresses that are known by a sign in them: e-mail by its @, IPv6 by its colons."""

import ipaddress
import re
from collections.abc import Iterator

from judges.models.redaction.found import SensitiveSpan, begins, ends

_MAX_LOCAL_CHARS = 64
# Read from the @ to the left, so that a long word without an @ costs nothing.
_LOCAL_REVERSED = re.compile(r"[\w.%&+-]+")
_LOCAL_EDGES = ".%&+-"
_ESCAPED = ("n", "r", "t")
_DOMAIN = re.compile(r"(?:[\w-]{1,63}\.)+(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})", re.IGNORECASE)
# Names of picture files for dense screens, such as icon@2x.png.
_DENSITY = re.compile(r"[1-9](?:\.\d)?x\.", re.IGNORECASE)
_USERINFO = re.compile(r"://[^\s/@]*:[^\s/@]*\Z")
_USERINFO_CHARS = 200

_IPV6 = re.compile(r"[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,40}(?:\.[0-9]{1,3}){0,3}")
_LOOSE_START, _LOOSE_END = re.compile(r":(?!:)|:::"), re.compile(r"(?:[^:]:|:::)\Z")


def find_emails(text: str) -> Iterator[SensitiveSpan]:
    at = text.find("@")
    while at >= 0:
        found = _email(text, at)
        if found:
            yield found
        at = text.find("@", found.end if found else at + 1)


def _email(text: str, at: int) -> SensitiveSpan | None:
    domain = _DOMAIN.match(text, at + 1)
    if domain is None or _DENSITY.match(text, at + 1):
        return None
    before = text[max(0, at - _MAX_LOCAL_CHARS) : at]
    local = _LOCAL_REVERSED.match(before[::-1])
    name = local[0][::-1].lstrip(_LOCAL_EDGES) if local else ""
    if name[:1] in _ESCAPED and text[at - len(name) - 1 : at - len(name)] == "\\":
        name = name[1:]
    # git@host:repository is an address of a repository, user:password@host of a service.
    if not name or (name == "git" and text[domain.end() : domain.end() + 1] == ":"):
        return None
    if _USERINFO.search(text, max(0, at - _USERINFO_CHARS), at):
        return None
    return SensitiveSpan(at - len(name), domain.end(), "email", f"{name}@{domain[0]}".casefold())


def find_ipv6(text: str) -> Iterator[SensitiveSpan]:
    if "::" not in text and text.count(":") < 6:
        return
    for match in _IPV6.finditer(text):
        found = _ipv6(text, match)
        if found:
            yield found


def _ipv6(text: str, match: re.Match[str]) -> SensitiveSpan | None:
    start, written = match.start(), match[0].rstrip(".")
    # A colon before or after the address is none of its own.
    if _LOOSE_START.match(written):
        start, written = start + 1, written[1:]
    if _LOOSE_END.search(written):
        written = written[:-1]
    end = start + len(written)
    # Without a digit it is rather a name in a program, such as A::B.
    if not begins(text, start) or not ends(text, end) or not any(map(str.isdecimal, written)):
        return None
    try:
        address = ipaddress.IPv6Address(written)
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified else SensitiveSpan(start, end, "ip", str(address))
