"""The files of the page: HTML, styles and modules, each with its ETag and a strict Content-Security-Policy."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from sinks.page.replies import SAFETY_HEADERS
from sinks.web.routes import Reply, Request, Route, text_reply

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No inline scripts, no other hosts: user text that slips into the page as HTML stays harmless."""

_FOLDER = Path(__file__).parent / "static"
_INDEX = "index.html"
_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asset:
    body: bytes
    content_type: str
    etag: str


def asset_routes(folder: Path = _FOLDER) -> tuple[Route, ...]:
    """Return `/` and `/static/NAME`. They contain no data and need no token; the page itself asks for one."""
    assets = {
        path.relative_to(folder).as_posix(): _read(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }

    def show_index(request: Request) -> Reply:
        return _reply(request, assets.get(_INDEX))

    def show_asset(request: Request) -> Reply:
        return _reply(request, assets.get(request.variables["name"]))

    return (
        Route(method="GET", path="/", handler=show_index, needs_token=False),
        Route(method="GET", path="/static/{name:.+}", handler=show_asset, needs_token=False, max_threads=8),
    )


def _read(path: Path) -> _Asset:
    body = path.read_bytes()
    return _Asset(body=body, content_type=_TYPES[path.suffix], etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _reply(request: Request, asset: _Asset | None) -> Reply:
    if asset is None:
        return text_reply("no such file", HTTPStatus.NOT_FOUND)
    headers = {
        **SAFETY_HEADERS,
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        # Revalidate every time: after an update, modules of two versions must not be mixed.
        "Cache-Control": "no-cache",
        "ETag": asset.etag,
    }
    if asset.etag in (value.strip() for value in request.headers.get("if-none-match", "").split(",")):
        return Reply(status=HTTPStatus.NOT_MODIFIED, content_type=asset.content_type, headers=headers)
    return Reply(body=asset.body, content_type=asset.content_type, headers=headers)
