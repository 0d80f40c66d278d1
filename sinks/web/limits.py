"""Limits of the web server, so that one client, or many slow ones, cannot keep a process from its work."""

import resource
from dataclasses import dataclass

# The broker, the judges and the caches need files and sockets too, and more of them than the web server.
_SHARE_OF_OPEN_FILES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The defaults are for a few scrapers, probes and browsers."""

    connections: int = 128
    """A connection is a file descriptor; 1,024 of them is a common limit for a process."""

    header_line_bytes: int = 8_190
    """The request line, or one header. Browsers with large cookies and most proxies stay below 8 KiB."""

    headers: int = 64
    """Prometheus sends 6 and a browser about 20. Together with the line size, this bounds a connection's memory."""

    idle_seconds: float = 30.0
    """From the opening of a connection, or its last reply, to the last byte of the next request's headers.

    Both a client that sends its headers slowly and an idle keep-alive connection end here. It is longer than the usual
    scrape interval of 15 s, so that a scraper keeps its connection.
    """

    handshake_seconds: float = 10.0
    """A TLS handshake takes three packets."""

    body_seconds: float = 15.0
    """From the headers to the last byte of the body; the longest body, 4 MiB, needs 280 kB/s."""

    handler_seconds: float = 30.0
    """Prometheus gives up after 10 s, probes sooner: no client waits for a later reply."""

    write_seconds: float = 30.0
    """To hand the reply to the network: a client that does not read is cut off."""

    linger_seconds: float = 5.0
    """A refused body is discarded for this long: many clients read the reply only after they have sent it all."""

    stop_seconds: float = 2.0
    """Time for requests in flight when the server stops."""

    def connection_limit(self) -> int:
        """Return `connections`, or a share of this process's open-file limit if that is less."""
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if open_files == resource.RLIM_INFINITY:
            return self.connections
        return max(1, min(self.connections, open_files // _SHARE_OF_OPEN_FILES))
