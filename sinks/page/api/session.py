"""`/api/session`: the visitor, signing in and out."""

from sinks.page.access import NEEDS_TOKENS, Access, Visitor
from sinks.page.endpoint import bare_route
from sinks.page.replies import json_reply
from sinks.page.requests import read_body, text_in
from sinks.page.settings import PageSettings
from sinks.web.routes import Reply, Request, Route


def session_routes(access: Access, settings: PageSettings) -> tuple[Route, ...]:
    def describe(visitor: Visitor) -> dict[str, object]:
        return {
            "role": visitor.role,
            "name": visitor.name,
            "csrf": visitor.csrf,
            "needs_token": access.needs_token,
            "version": settings.version,
            "note": NEEDS_TOKENS if access.is_closed else None,
        }

    def show(request: Request) -> Reply:
        return json_reply(describe(access.visitor(request)))

    def sign_in(request: Request) -> Reply:
        access.check_csrf(request, access.visitor(request))
        visitor, cookie = access.open_session(request, text_in(read_body(request), "token"))
        return json_reply(describe(visitor), headers={"Set-Cookie": cookie})

    def sign_out(request: Request) -> Reply:
        access.check_csrf(request, access.visitor(request))
        return json_reply({}, headers={"Set-Cookie": access.end_session(request)})

    return (
        bare_route("GET", "/api/session", show),
        bare_route("POST", "/api/session", sign_in),
        bare_route("DELETE", "/api/session", sign_out),
    )
