"""A web server in a thread of its own, and one that is ready at once."""

import threading
from http.server import HTTPServer
from socketserver import TCPServer
from typing import Self


class QuickBind(HTTPServer):
    """Does not look the host's name up, which can take seconds without a network."""

    def server_bind(self) -> None:
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)


class Serving:
    """Serves from `with` to the end of the block."""

    def __init__(self, server: HTTPServer, *, name: str, scheme: str = "http", look_seconds: float = 0.5) -> None:
        """`look_seconds` is how soon it notices that it is to end."""
        self._server = server
        self._scheme = scheme
        self._thread = threading.Thread(target=server.serve_forever, args=(look_seconds,), name=name, daemon=True)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{self._scheme}://{host if isinstance(host, str) else host.decode()}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
