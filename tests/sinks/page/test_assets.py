"""The files of the page: types, headers, and that nothing else can be read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.page.assets import asset_routes
from sinks.web.server import WebServer
from tests.parts import local_http
from tests.parts.patience import patience
from tests.sinks.web.asking import ask, serve


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("static")
    (folder / "index.html").write_text("<!doctype html><p>index")
    (folder / "screens").mkdir()
    (folder / "screens" / "one.js").write_text("export {};")
    (folder / "secret.txt").write_text("not part of the page")
    (folder.parent / "outside.js").write_text("not part of the page")
    with serve(*asset_routes(folder), token="for metrics") as running:
        yield running


def test_the_page_is_shown_without_a_token_under_a_strict_policy(server: WebServer) -> None:
    answer = ask(server, "/")
    assert (answer.status_code, answer.text) == (200, "<!doctype html><p>index")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"


def test_a_module_has_its_type(server: WebServer) -> None:
    answer = ask(server, "/static/screens/one.js")
    assert (answer.status_code, answer.text) == (200, "export {};")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


def test_a_file_that_the_browser_has_is_not_sent_again(server: WebServer) -> None:
    etag = ask(server, "/").headers["etag"]
    for sent in (etag, f'"other", {etag}'):
        answer = ask(server, "/", headers={"If-None-Match": sent})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert ask(server, "/", headers={"If-None-Match": '"other"'}).status_code == 200
    assert ask(server, "/").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["secret.txt", "../outside.js", "..%2foutside.js", "screens", "screens/", "%2e%2e/outside.js", "none.js"]
)
def test_nothing_but_the_files_of_the_page_can_be_read(server: WebServer, path: str) -> None:
    with local_http.client(timeout=30 * patience()) as client:
        request = client.build_request("GET", server.url)
        request.url = request.url.copy_with(raw_path=f"/static/{path}".encode())
        answer = client.send(request)
    assert answer.status_code in {401, 404}
    assert "not part of the page" not in answer.text


def test_the_shipped_page_has_an_index() -> None:
    folder = Path(asset_routes.__code__.co_filename).parent / "static"
    assert (folder / "index.html").is_file()
    with serve(*asset_routes()) as running:
        assert ask(running, "/").status_code == 200
