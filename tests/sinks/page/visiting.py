"""A browser for the tests of the page: by default it keeps its cookie and sends the CSRF token."""

from typing import Any

import httpx

from sinks.web.server import WebServer
from tests.parts import local_http
from tests.parts.patience import patience


class Browser:
    """A visitor of the page."""

    def __init__(self, server: WebServer, **headers: str) -> None:
        self._client = local_http.client(base_url=server.url, timeout=30 * patience(), headers=headers)

    def close(self) -> None:
        self._client.close()

    @property
    def cookies(self) -> httpx.Cookies:
        return self._client.cookies

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self._client.get(path, params=parameters or None)

    def get_json(self, path: str, **parameters: Any) -> Any:
        answer = self.get(path, **parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def session(self) -> Any:
        return self.get_json("/api/session")

    def enter(self, token: str) -> httpx.Response:
        return self.send("POST", "/api/session", {"token": token})

    def leave(self) -> httpx.Response:
        return self.send("DELETE", "/api/session")

    def send(self, method: str, path: str, body: object = None, *, csrf: str | None = None) -> httpx.Response:
        token = self.session()["csrf"] if csrf is None else csrf
        return self.send_as_is(method, path, body, {"X-CSRF-Token": token})

    def send_as_is(self, method: str, path: str, body: object, headers: dict[str, str]) -> httpx.Response:
        content = {} if body is None else {"json": body}
        return self._client.request(method, path, headers=headers, **content)  # type: ignore[arg-type]
