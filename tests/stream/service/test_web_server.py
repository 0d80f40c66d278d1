"""The web server of a process: a port in use is an error with advice, and port 0 takes any free one."""

import pytest
from prometheus_client import CollectorRegistry

from sinks.web.health import Health
from stream.config.sections.stages import HttpConfig
from stream.errors import StageError
from stream.service.web_server import open_web_server


def test_two_processes_on_one_host_need_different_ports() -> None:
    with open_web_server(HttpConfig(port=0), CollectorRegistry(), Health()) as first:
        port = int(first.url.rsplit(":", 1)[1])
        with (
            pytest.raises(StageError, match=rf"127\.0\.0\.1:{port} .*STREAMJURY__HTTP__PORT to another one, or to 0"),
            open_web_server(HttpConfig(port=port), CollectorRegistry(), Health()),
        ):
            pass
        with open_web_server(HttpConfig(port=0), CollectorRegistry(), Health()) as second:
            assert second.url != first.url
