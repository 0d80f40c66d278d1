"""Access to the page: roles, sessions, and protection against forged requests.

- Without tokens, on a loopback address, every visitor is an operator: users of this machine can read the database
  anyway. Only requests for the local host names are answered, so that a website cannot reach the page through a host
  name that it points at this machine.
- Without tokens, on any other address, no data is served.
- With tokens, a browser sends one once and gets a signed cookie; a program sends `Authorization: Bearer`.

A request that changes something needs the header `X-CSRF-Token`, unless it carries a bearer token: other websites can
make a browser send its cookie, but can neither read this value nor set this header.
"""

import hashlib
import hmac
import ipaddress
import json
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from sinks.page.replies import RefusedRequestError
from sinks.web.routes import Request

SESSION_SECONDS = 12 * 3600.0
"""A working day; after that, the page asks for the token again."""

# More than a person mistypes in a minute, and too few for a program to guess a token.
_WRONG_TOKENS = 5
_WRONG_SECONDS = 60.0
# Maximum number of remembered addresses and of ended sessions; the oldest are forgotten first.
_REMEMBERED = 10_000
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

NEEDS_TOKENS = (
    "without tokens, the page is not served on an address that other machines can reach: set http.tokens, or set "
    "http.host to 127.0.0.1"
)


class Role(StrEnum):
    """Permissions of a visitor; each role includes those before it."""

    VIEWER = "viewer"
    REVIEWER = "reviewer"
    """May label answers."""
    OPERATOR = "operator"
    """May replay dead letters, and read the audit log."""

    def includes(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token, the name of its owner, and the role that it grants."""

    name: str
    role: Role
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The sender of a request."""

    name: str | None
    role: Role | None
    """None: no session."""
    csrf: str
    is_program: bool = False
    """Whether the request carried a bearer token, which a website cannot make a browser send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageSession:
    id: str
    token: int
    """Index of the token that opened the session."""
    expires: float


class Access:
    """Decides which requests are allowed. Thread-safe."""

    def __init__(
        self,
        tokens: Sequence[AccessToken],
        *,
        host: str,
        is_tls: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`host` is the address that the server listens on."""
        self._tokens = tuple(tokens)
        self._host = host
        self._is_tls = is_tls
        self._now = now
        # Generated at every start: sessions end with the process, and no secret is stored.
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._wrong_tokens: OrderedDict[str, list[float]] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    @property
    def needs_token(self) -> bool:
        return bool(self._tokens) or self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether the page is refused to all visitors, because anyone on the network could read it."""
        return not self._tokens and not is_loopback(self._host)

    def visitor(self, request: Request) -> Visitor:
        """Return the sender of a request; raises RefusedRequestError for a wrong bearer token or foreign host name."""
        if not self._tokens:
            self._check_host(request)
            role = None if self.is_closed else Role.OPERATOR
            return Visitor(name=None if role is None else "local", role=role, csrf=self._csrf("local"))
        if "authorization" in request.headers:
            scheme, _, secret = request.headers["authorization"].partition(" ")
            token = self._tokens[self._find_token(request, secret.strip() if scheme.lower() == "bearer" else "")]
            return Visitor(name=token.name, role=token.role, csrf="", is_program=True)
        session = self._session(request)
        if session is None:
            return Visitor(name=None, role=None, csrf=self._csrf("nobody"))
        token = self._tokens[session.token]
        return Visitor(name=token.name, role=token.role, csrf=self._csrf(session.id))

    def admit(self, request: Request, role: Role) -> Visitor:
        """Return the sender of a request that needs a role; raises RefusedRequestError if it is not allowed."""
        visitor = self.visitor(request)
        if self.is_closed:
            raise RefusedRequestError(NEEDS_TOKENS, HTTPStatus.FORBIDDEN)
        if visitor.role is None:
            raise RefusedRequestError("sign in with a token first", HTTPStatus.UNAUTHORIZED)
        if not visitor.role.includes(role):
            raise RefusedRequestError(
                f"this needs the role {role}; {visitor.name} has the role {visitor.role}",
                HTTPStatus.FORBIDDEN,
            )
        if request.method not in {"GET", "HEAD"}:
            self.check_csrf(request, visitor)
        return visitor

    def check_csrf(self, request: Request, visitor: Visitor) -> None:
        """Refuse a request that another website may have caused."""
        sent = request.headers.get("x-csrf-token", "").encode("utf-8", "surrogateescape")
        if not visitor.is_program and not hmac.compare_digest(sent, visitor.csrf.encode()):
            raise RefusedRequestError(
                "the header X-CSRF-Token is missing or out of date; reload the page", HTTPStatus.FORBIDDEN
            )

    # Sessions

    def open_session(self, request: Request, secret: str) -> tuple[Visitor, str]:
        """Return the visitor with this token, and the header `Set-Cookie`; raises RefusedRequestError."""
        if self.is_closed:
            raise RefusedRequestError(NEEDS_TOKENS, HTTPStatus.FORBIDDEN)
        if not self._tokens:
            raise RefusedRequestError("this server needs no token", HTTPStatus.CONFLICT)
        number = self._find_token(request, secret)
        session = _PageSession(id=secrets.token_urlsafe(18), token=number, expires=self._now() + SESSION_SECONDS)
        token = self._tokens[number]
        cookie = self._cookie(request, self._seal(session), int(SESSION_SECONDS))
        return Visitor(name=token.name, role=token.role, csrf=self._csrf(session.id)), cookie

    def end_session(self, request: Request) -> str:
        """End the session of a request, so that copies of its cookie stop working; return the header `Set-Cookie`."""
        session = self._session(request)
        if session is not None:
            with self._lock:
                self._ended[session.id] = None
                _forget_oldest(self._ended)
        return self._cookie(request, "", 0)

    def _session(self, request: Request) -> _PageSession | None:
        try:
            cookies = SimpleCookie(request.headers.get("cookie", ""))
        except CookieError:
            return None
        cookie = cookies.get(self._cookie_name(request))
        session = None if cookie is None else self._unseal(cookie.value)
        if session is None or session.expires <= self._now() or session.token >= len(self._tokens):
            return None
        with self._lock:
            return None if session.id in self._ended else session

    def _seal(self, session: _PageSession) -> str:
        content = urlsafe_b64encode(json.dumps([session.id, session.token, session.expires]).encode())
        return f"{content.decode()}.{self._sign(content)}"

    def _unseal(self, value: str) -> _PageSession | None:
        content, _, signature = value.partition(".")
        signed = content.encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(signature.encode("utf-8", "surrogateescape"), self._sign(signed).encode()):
            return None
        # Only this process can have signed it, so its form is right.
        session_id, token, expires = json.loads(urlsafe_b64decode(signed))
        return _PageSession(id=session_id, token=token, expires=expires)

    def _csrf(self, session_id: str) -> str:
        return self._sign(f"csrf {session_id}".encode())

    def _sign(self, content: bytes) -> str:
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def _cookie(self, request: Request, value: str, seconds: int) -> str:
        secure = "; Secure" if self._has_tls(request) else ""
        return f"{self._cookie_name(request)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    def _cookie_name(self, request: Request) -> str:
        # With this prefix, browsers accept the cookie only from this host, and only over TLS.
        return "__Host-streamjury" if self._has_tls(request) else "streamjury"

    def _has_tls(self, request: Request) -> bool:
        # A client that forges this header only changes its own cookie.
        return self._is_tls or request.headers.get("x-forwarded-proto", "").lower() == "https"

    # Tokens

    def _find_token(self, request: Request, secret: str) -> int:
        """Return the index of a token, in constant time; raises RefusedRequestError."""
        client = _network(request.client)
        self._refuse_guessing(client)
        digest = self._sign(secret.encode("utf-8", "surrogateescape"))
        # Compares digests with all tokens: the time reveals neither which token matched nor a correct prefix.
        matches = [
            number
            for number, token in enumerate(self._tokens)
            if hmac.compare_digest(digest, self._sign(token.secret.encode()))
        ]
        if matches:
            return matches[0]
        with self._lock:
            self._wrong_tokens.setdefault(client, []).append(self._now())
            self._wrong_tokens.move_to_end(client)
            _forget_oldest(self._wrong_tokens)
        raise RefusedRequestError("unknown token", HTTPStatus.UNAUTHORIZED)

    def _refuse_guessing(self, client: str) -> None:
        with self._lock:
            times = [moment for moment in self._wrong_tokens.get(client, []) if moment > self._now() - _WRONG_SECONDS]
            if not times:
                self._wrong_tokens.pop(client, None)
                return
            self._wrong_tokens[client] = times
        if len(times) >= _WRONG_TOKENS:
            wait = max(1, round(times[-_WRONG_TOKENS] + _WRONG_SECONDS - self._now()))
            raise RefusedRequestError(
                f"too many wrong tokens; try again in {wait} seconds",
                HTTPStatus.TOO_MANY_REQUESTS,
                {"Retry-After": str(wait)},
            )

    def _check_host(self, request: Request) -> None:
        """Refuse a foreign host name: a website could point its own name at this machine and read the page."""
        try:
            name = urlsplit(f"//{request.headers.get('host', '')}").hostname
        except ValueError:
            name = None
        if not self.is_closed and name not in {*_LOCAL_NAMES, self._host.lower()}:
            raise RefusedRequestError(
                "without http.tokens, the page is served only at localhost and at http.host", HTTPStatus.FORBIDDEN
            )


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _network(client: str) -> str:
    """Return the address, or the part of it that a client cannot choose freely."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return client if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))


def _forget_oldest(entries: OrderedDict[str, object] | OrderedDict[str, None] | OrderedDict[str, list[float]]) -> None:
    while len(entries) > _REMEMBERED:
        entries.popitem(last=False)
