"""Access to the page: roles, sessions, forged requests, and guesses."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from sinks.page.access import SESSION_SECONDS, Access, AccessToken, Role, is_loopback
from sinks.page.api.session import session_routes
from sinks.page.endpoint import Endpoints
from sinks.page.reply_cache import ReplyCache
from sinks.page.settings import CurrentEvaluator, Objective, PageSettings
from sinks.web.routes import Request
from sinks.web.server import WebServer
from tests.sinks.page.visiting import Browser
from tests.sinks.web.asking import serve

VIEWER, REVIEWER, OPERATOR = "viewer-token-0123456", "reviewer-token-01234", "operator-token-01234"
TOKENS = (
    AccessToken(name="vera", role=Role.VIEWER, secret=VIEWER),
    AccessToken(name="rita", role=Role.REVIEWER, secret=REVIEWER),
    AccessToken(name="olga", role=Role.OPERATOR, secret=OPERATOR),
)
SETTINGS = PageSettings(
    version="1.2.3",
    evaluator=CurrentEvaluator(
        fingerprint="f", multi=MultiCriteria.of(load_catalogue("rag").values()), safety_vote="majority"
    ),
    objective=lambda _app: Objective(0.7, 0.95),
)


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


Visit = Callable[..., Browser]


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def visit(clock: Hands) -> Iterator[Visit]:
    """Opens a page with three secrets, one for each role, and a browser that shows it."""
    with ExitStack() as stack:
        servers: dict[tuple[str, bool, int], WebServer] = {}

        def open_browser(
            *, host: str = "127.0.0.1", is_tls: bool = False, tokens: tuple[AccessToken, ...] = TOKENS, **headers: str
        ) -> Browser:
            key = (host, is_tls, len(tokens))
            if key not in servers:
                servers[key] = stack.enter_context(serve(*routes(Access(tokens, host=host, is_tls=is_tls, now=clock))))
            browser = Browser(servers[key], **headers)
            stack.callback(browser.close)
            return browser

        yield open_browser


def routes(access: Access) -> list[object]:  # type: ignore[type-arg]
    endpoints = Endpoints(access, ReplyCache())
    reading = [
        endpoints.get(f"/{role}", lambda _request, visitor: {"name": visitor.name}, role=role, is_shared=False)
        for role in Role
    ]
    writing = [
        endpoints.change("POST", f"/{role}", lambda _request, visitor: {"name": visitor.name}, role=role)
        for role in Role
    ]
    return [*session_routes(access, SETTINGS), *reading, *writing]


# Roles


@pytest.mark.parametrize(("token", "name", "role"), [(VIEWER, "vera", 0), (REVIEWER, "rita", 1), (OPERATOR, "olga", 2)])
@pytest.mark.parametrize("by", ["cookie", "header"])
def test_a_role_may_do_its_own_and_what_lower_roles_may(
    visit: Visit, token: str, name: str, role: int, by: str
) -> None:
    browser = visit() if by == "cookie" else visit(Authorization=f"Bearer {token}")
    if by == "cookie":
        assert browser.enter(token).json()["role"] == list(Role)[role]
    for number, needed in enumerate(Role):
        reading, writing = browser.get(f"/{needed}"), browser.send("POST", f"/{needed}")
        assert {reading.status_code, writing.status_code} == {200 if number <= role else 403}
        if number <= role:
            assert (reading.json(), writing.json()) == ({"name": name}, {"name": name})
        else:
            sentence = f"this needs the role {needed}; {name} has the role {list(Role)[role]}"
            assert reading.json() == writing.json() == {"error": sentence}


def test_without_a_session_nothing_is_shown_but_who_one_is(visit: Visit) -> None:
    browser = visit()
    session = browser.session()
    assert (session["role"], session["name"], session["needs_token"]) == (None, None, True)
    assert session["note"] is None
    for role in Role:
        assert browser.get(f"/{role}").status_code == 401
        assert browser.send("POST", f"/{role}").status_code == 401


def test_on_loopback_without_tokens_everybody_is_the_local_operator(visit: Visit) -> None:
    browser = visit(tokens=())
    session = browser.session()
    assert (session["role"], session["name"], session["needs_token"]) == ("operator", "local", False)
    assert browser.get("/operator").json() == {"name": "local"}
    assert browser.send("POST", "/operator").json() == {"name": "local"}
    assert browser.enter("some token of anybody").status_code == 409


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "streamjury.example.com"])
def test_without_tokens_another_address_than_loopback_shows_nothing(visit: Visit, host: str) -> None:
    browser = visit(host=host, tokens=())
    session = browser.session()
    assert (session["role"], session["needs_token"]) == (None, True)
    assert "http.tokens" in session["note"]
    for answer in (browser.get("/viewer"), browser.send("POST", "/operator"), browser.enter(OPERATOR)):
        assert answer.status_code == 403
        assert "set http.tokens" in answer.json()["error"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
    ],
)
def test_loopback_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "host", ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil.com:9464", "", "[x"]
)
def test_without_tokens_a_website_cannot_reach_the_page_by_a_name_of_its_own(visit: Visit, host: str) -> None:
    browser = visit(tokens=(), Host=host)
    assert browser.get("/viewer").status_code == 403
    assert browser.get("/api/session").status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:9464", "[::1]:9464"])
def test_without_tokens_the_page_answers_at_its_local_names(visit: Visit, host: str) -> None:
    assert visit(tokens=(), Host=host).get("/viewer").status_code == 200


def test_with_tokens_any_name_may_be_used(visit: Visit) -> None:
    browser = visit(Host="quality.example.com", Authorization=f"Bearer {VIEWER}")
    assert browser.get("/viewer").status_code == 200


# Sessions


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(visit: Visit) -> None:
    cookie = visit().enter(VIEWER).headers["set-cookie"]
    assert cookie.startswith("streamjury=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_SECONDS:.0f}"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert VIEWER not in cookie


def test_under_tls_the_cookie_is_secure(visit: Visit) -> None:
    assert "; Secure" in visit(is_tls=True).enter(VIEWER).headers["set-cookie"]
    behind_proxy = visit(**{"X-Forwarded-Proto": "https"}).enter(VIEWER).headers["set-cookie"]
    assert behind_proxy.startswith("__Host-streamjury=")
    assert "; Secure" in behind_proxy


def test_a_session_ends_after_half_a_day(visit: Visit, clock: Hands) -> None:
    browser = visit()
    browser.enter(VIEWER)
    clock.seconds += SESSION_SECONDS - 1
    assert browser.get("/viewer").status_code == 200
    clock.seconds += 1
    assert browser.get("/viewer").status_code == 401
    assert browser.session()["role"] is None


def test_a_session_that_was_left_is_over_even_with_a_copy_of_the_cookie(visit: Visit) -> None:
    browser = visit()
    browser.enter(VIEWER)
    copy = browser.cookies["streamjury"]
    assert browser.leave().status_code == 200
    assert "streamjury" not in browser.cookies
    assert browser.get("/viewer").status_code == 401
    browser.cookies.set("streamjury", copy)
    assert browser.get("/viewer").status_code == 401


def test_a_forged_cookie_is_no_session(visit: Visit) -> None:
    browser = visit()
    browser.enter(VIEWER)
    content, _, signature = browser.cookies["streamjury"].partition(".")
    operator = urlsafe_b64encode(json.dumps(["me", 2, 1e12]).encode()).decode()
    other = "1" if signature.endswith("0") else "0"
    altered = f"{content}.{signature[:-1]}{other}"
    for forged in (f"{operator}.{signature}", f"{operator}.", operator, altered, "ö.ö", "."):
        browser.cookies.clear()
        headers = {"Cookie": f"streamjury={forged}"}
        assert browser.send_as_is("GET", "/viewer", None, {k: v.encode() for k, v in headers.items()}).status_code in {
            400,
            401,
        }


def test_the_cookie_of_another_process_is_no_session(visit: Visit, clock: Hands) -> None:
    browser = visit()
    browser.enter(OPERATOR)
    other = Access(TOKENS, host="127.0.0.1", now=clock)
    headers = {"cookie": f"streamjury={browser.cookies['streamjury']}"}
    request = Request(method="GET", path="/", headers=headers, query={}, variables={}, body=b"")
    assert other.visitor(request).role is None


# Forged requests


@pytest.mark.parametrize("csrf", ["", "0" * 64, "ü"])
def test_a_request_that_changes_something_needs_the_csrf_token_of_its_session(visit: Visit, csrf: str) -> None:
    browser = visit()
    anonymous = browser.session()["csrf"]
    assert browser.send_as_is("POST", "/api/session", {"token": VIEWER}, {}).status_code == 403
    browser.enter(OPERATOR)
    other = visit()
    other.enter(OPERATOR)
    for wrong in (csrf, anonymous, other.session()["csrf"]):
        headers = {"X-CSRF-Token": wrong.encode()}
        assert browser.send_as_is("POST", "/operator", None, headers).status_code == 403  # type: ignore[arg-type]
        assert browser.send_as_is("DELETE", "/api/session", None, headers).status_code == 403  # type: ignore[arg-type]
    assert browser.send("POST", "/operator").status_code == 200


def test_without_tokens_the_csrf_token_is_needed_as_well(visit: Visit) -> None:
    assert visit(tokens=()).send_as_is("POST", "/operator", None, {}).status_code == 403


def test_a_form_cannot_enter_a_token(visit: Visit) -> None:
    browser = visit()
    headers = {"X-CSRF-Token": browser.session()["csrf"], "Content-Type": "text/plain"}
    answer = browser.send_as_is("POST", "/api/session", {"token": VIEWER}, headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "send the body as Content-Type: application/json")


@pytest.mark.parametrize("body", [[], {}, {"token": 1}, {"token": ""}, {"token": "x" * 2000}, "text", None])
def test_a_body_without_a_token_is_refused(visit: Visit, body: object) -> None:
    assert visit().send("POST", "/api/session", body).status_code == 400


# Guesses


def test_guessing_is_slowed_down_and_ends_with_the_minute(visit: Visit, clock: Hands) -> None:
    browser = visit()
    assert [browser.enter(f"guess-{number}").status_code for number in range(5)] == [401] * 5
    for answer in (browser.enter("guess-5"), browser.enter(OPERATOR), visit(Authorization="Bearer x").get("/viewer")):
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "60"
    clock.seconds += 61
    assert browser.enter(OPERATOR).status_code == 200


def test_a_session_goes_on_while_its_neighbour_guesses(visit: Visit) -> None:
    browser, guesser = visit(), visit()
    browser.enter(VIEWER)
    for number in range(10):
        guesser.enter(f"guess-{number}")
    assert browser.get("/viewer").status_code == 200


def test_wrong_bearer_tokens_count_as_guesses(visit: Visit) -> None:
    answers = [visit(Authorization=f"Bearer guess-{number}").get("/viewer").status_code for number in range(6)]
    assert answers == [401] * 5 + [429]


def test_addresses_of_one_network_count_together(clock: Hands) -> None:
    access = Access(TOKENS, host="::", now=clock)

    def status(client: str) -> int:
        request = Request(
            method="GET",
            path="/",
            headers={"authorization": "Bearer x"},
            query={},
            variables={},
            body=b"",
            client=client,
        )
        with pytest.raises(Exception, match="token") as error:
            access.visitor(request)
        return int(error.value.status)  # type: ignore[attr-defined]

    assert [status(f"2001:db8::{number}") for number in range(6)] == [401] * 5 + [429]
    assert status("2001:db8:0:1::1") == 401
    assert status("192.0.2.1") == 401


@pytest.mark.parametrize("secret", ["x", VIEWER[:-1], VIEWER + "x", VIEWER.upper(), f" {VIEWER} x"])
def test_only_the_whole_token_is_right(visit: Visit, secret: str) -> None:
    assert visit(Authorization=f"Bearer {secret}").get("/viewer").status_code == 401
    assert visit(Authorization=f"Basic {VIEWER}").get("/viewer").status_code == 401
