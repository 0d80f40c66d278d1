"""An endpoint that speaks only HTTP/2, over TLS, and answers every request in the same way."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded


class Http2Endpoint:
    """A context manager; `connections` and `requests` are counts, `headers` are those of the last request."""

    def __init__(self, body: bytes, certificate: tuple[Path, Path]) -> None:
        self._body = body
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(*certificate)
        self._tls.set_alpn_protocols(["h2"])
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.connections = 0
        self.requests = 0
        self.headers: dict[str, str] = {}

    @property
    def base_url(self) -> str:
        return f"https://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join()

    def _run(self, work: "object", *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(accepted)
            self._run(self._serve, accepted)

    def _serve(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), self._tls.wrap_socket(accepted, server_side=True) as connection:
            self._open.append(connection)
            self.connections += 1
            http2 = H2Connection(config=H2Configuration(client_side=False, header_encoding="utf-8"))
            http2.initiate_connection()
            connection.sendall(http2.data_to_send())
            while data := connection.recv(65536):
                for event in http2.receive_data(data):
                    self._react(http2, event)
                connection.sendall(http2.data_to_send())

    def _react(self, http2: H2Connection, event: object) -> None:
        if isinstance(event, RequestReceived):
            self.headers = {str(name): str(value) for name, value in event.headers or ()}
        elif isinstance(event, DataReceived):
            http2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        elif isinstance(event, StreamEnded):
            self.requests += 1
            stream = event.stream_id or 0
            http2.send_headers(stream, [(":status", "200"), ("content-type", "application/json")])
            http2.send_data(stream, self._body, end_stream=True)
