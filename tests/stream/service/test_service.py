"""The web server of a service as configured: with or without a token and a certificate."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stream.config.model import Config
from stream.errors import StageError
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.parts import certificates, local_http
from tests.parts.patience import patience


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


def service(broker: EmbeddedBroker, **http: object) -> Service:
    """Return a service without stages."""
    return Service(
        Config.model_validate({"kafka": {"bootstrap": broker.bootstrap}, "http": {"port": 0, **http}}), stages=[]
    )


def test_without_settings_metrics_are_open_and_plain(broker: EmbeddedBroker) -> None:
    with service(broker) as running:
        assert running.url.startswith("http://127.0.0.1:")
        assert local_http.get(f"{running.url}/metrics", timeout=30 * patience()).status_code == 200


def test_token_and_certificate_of_the_configuration_are_used(
    broker: EmbeddedBroker, authority: certificates.Authority
) -> None:
    certificate, key = authority.sign("server")
    with service(broker, token="let-me-in", certificate=str(certificate), key=str(key)) as running:
        assert running.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=authority.certificate)
        with httpx.Client(base_url=running.url, verify=context, trust_env=False, timeout=30 * patience()) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/metrics").status_code == 401
            assert client.get("/metrics", headers={"Authorization": "Bearer let-me-in"}).status_code == 200


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_an_unreadable_file_stops_the_program_at_startup(
    broker: EmbeddedBroker, authority: certificates.Authority, tmp_path: Path, part: str
) -> None:
    certificate, key = authority.sign("server")
    missing = str(tmp_path / "missing.pem")
    files = {"certificate": str(certificate), "key": str(key), part: missing}
    with (
        pytest.raises(StageError, match=rf"^http\.{part}: cannot read {missing} \(No such file or directory\)$"),
        service(broker, **files),
    ):
        pytest.fail("the service has started")
