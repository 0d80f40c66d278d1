"""The monitor's credentials: librdkafka options translated for Faust and its client, and refused ones."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth
from hypothesis import example, given
from hypothesis import strategies as st

from stream.config.sections.kafka import KafkaConfig, is_secret
from stream.errors import StageError
from stream.monitor.faust_app.credentials import broker_credentials
from tests.parts import certificates

PASSWORD = "hunter2-hunter2"
TEST_AUTHORITY = [((("commonName", "test authority"),),)]
LOGIN = {"sasl.username": "streamjury", "sasl.password": PASSWORD}


@pytest.fixture(scope="module")
def pair(authority: certificates.Authority) -> tuple[Path, Path]:
    return authority.sign("client")


def client_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that Faust's Kafka client receives."""
    return dict(credentials_to_aiokafka_auth(broker_credentials(KafkaConfig(options=options).options)))


def refusal(options: dict[str, Any]) -> str:
    with pytest.raises(StageError) as raised:
        broker_credentials(KafkaConfig(options=options).options)
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("options", [{}, {"security.protocol": "PLAINTEXT"}, {"linger.ms": 5, **LOGIN}])
def test_a_plaintext_broker_needs_no_credentials(options: dict[str, Any]) -> None:
    assert broker_credentials(options) is None
    assert client_settings(options) == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "plain", "scram-sha-512"])
def test_a_name_and_a_password_without_encryption(name: str, mechanism: str) -> None:
    assert client_settings({"security.protocol": "SASL_PLAINTEXT", name: mechanism, **LOGIN}) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism.upper(),
        "sasl_plain_username": "streamjury",
        "sasl_plain_password": PASSWORD,
        "ssl_context": None,
    }


def test_a_name_and_a_password_over_tls() -> None:
    client = client_settings({"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", **LOGIN})
    assert client["security_protocol"] == "SASL_SSL"
    context = client["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_password_is_not_in_the_repr_of_the_credentials() -> None:
    credentials = broker_credentials({"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", **LOGIN})
    assert PASSWORD not in repr(credentials)


@pytest.mark.parametrize(
    ("options", "verified", "named"),
    [
        ({}, True, True),
        ({"ssl.endpoint.identification.algorithm": "https"}, True, True),
        ({"ssl.endpoint.identification.algorithm": "none"}, True, False),
        ({"enable.ssl.certificate.verification": False}, False, False),
        ({"enable.ssl.certificate.verification": "false"}, False, False),
        ({"enable.ssl.certificate.verification": "0"}, False, False),
        ({"enable.ssl.certificate.verification": True}, True, True),
        ({"ssl.ca.location": "probe"}, True, True),
    ],
)
def test_the_options_decide_what_is_verified_of_the_broker(
    options: dict[str, Any], verified: bool, named: bool
) -> None:
    context = client_settings({"security.protocol": "ssl", **options})["ssl_context"]
    assert (context.verify_mode is ssl.CERT_REQUIRED, context.check_hostname) == (verified, named)


def trusted_subjects(options: dict[str, Any]) -> list[Any]:
    context: ssl.SSLContext = client_settings({"security.protocol": "SSL", **options})["ssl_context"]
    return [certificate["subject"] for certificate in context.get_ca_certs()]


def test_only_the_given_authority_is_trusted(authority: certificates.Authority) -> None:
    assert trusted_subjects({"ssl.ca.location": str(authority.certificate)}) == TEST_AUTHORITY
    assert trusted_subjects({"ssl.ca.pem": authority.certificate.read_text()}) == TEST_AUTHORITY


def certificate_seen_by_server(
    options: dict[str, Any], authority: certificates.Authority, server_pair: tuple[Path, Path]
) -> dict[str, Any]:
    """Do a handshake in memory and return the client certificate that the server received."""
    context: ssl.SSLContext = client_settings({"security.protocol": "ssl", **options})["ssl_context"]
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(*server_pair)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1].getpeercert() or {}


@pytest.mark.parametrize("form", ["files", "text", "locked"])
def test_a_certificate_is_sent_to_brokers_that_request_it(
    authority: certificates.Authority, pair: tuple[Path, Path], form: str
) -> None:
    certificate, key = pair
    options = {
        "files": {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)},
        "text": {"ssl.certificate.pem": certificate.read_text(), "ssl.key.pem": key.read_text()},
        "locked": {
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(certificates.with_password(key, PASSWORD)),
            "ssl.key.password": PASSWORD,
        },
    }[form]
    certificate_received = certificate_seen_by_server(
        {"ssl.ca.location": str(authority.certificate), **options}, authority, authority.sign("broker")
    )
    assert (("commonName", "client"),) in certificate_received["subject"]


def test_keys_given_as_text_leave_no_file_behind(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    certificate, key = pair
    broker_credentials(
        {
            "security.protocol": "ssl",
            "ssl.certificate.pem": certificate.read_text(),
            "ssl.key.pem": key.read_text(),
        }
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "option", "words"),
    [
        ({"security.protocol": "tls"}, "security.protocol", "sasl_ssl"),
        ({"security.protocol": "sasl_ssl", **LOGIN}, "sasl.mechanism", "not GSSAPI"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "SCRAM-SHA-256"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER"}, "sasl.mechanisms", "not OAUTHBEARER"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}, "sasl.username", "is required"),
        (
            {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "x"},
            "sasl.password",
            "is required",
        ),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.kerberos.principal": "x", **LOGIN},
            "sasl.kerberos.principal",
            "does not support",
        ),
        ({"security.protocol": "ssl", "ssl.keystore.location": "x.p12"}, "ssl.keystore.location", "does not support"),
        ({"security.protocol": "ssl", "ssl.cipher.suites": "ALL"}, "ssl.cipher.suites", "ssl.ca.location"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/none.pem"}, "ssl.ca.location", "No such file"),
        ({"security.protocol": "ssl", "ssl.ca.pem": "junk"}, "ssl.ca.pem", "cannot be used"),
        ({"security.protocol": "ssl", "ssl.certificate.location": "/none"}, "ssl.certificate.location", "No such file"),
        ({"security.protocol": "ssl", "ssl.key.location": "/none"}, "ssl.key.location", "needs its certificate"),
        (
            {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "http"},
            "ssl.endpoint.identification.algorithm",
            "https or none",
        ),
        (
            {"security.protocol": "ssl", "enable.ssl.certificate.verification": "perhaps"},
            "enable.ssl.certificate.verification",
            "true or false",
        ),
    ],
)
def test_an_option_that_cannot_be_translated_is_refused_by_name(
    options: dict[str, Any], option: str, words: str
) -> None:
    message = refusal(options)
    assert message.startswith(f"kafka.options.{option}: ")
    assert words in message


def test_a_problem_with_a_key_is_reported(authority: certificates.Authority, pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    _, other = authority.sign("other")
    locked = certificates.with_password(key, PASSWORD)

    def with_key(path: object, **options: str) -> str:
        files = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(path)}
        return refusal({"security.protocol": "ssl", **files, **{k.replace("_", "."): v for k, v in options.items()}})

    assert with_key("/none") == "kafka.options.ssl.key.location: cannot read /none (No such file or directory)"
    assert "KEY_VALUES_MISMATCH" in with_key(other)
    assert "ssl.key.password: the key is protected" in with_key(locked)
    assert "cannot be used" in with_key(locked, ssl_key_password="wrong")
    assert "cannot be used" in with_key(certificate)


NAMES = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.config",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.providers",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "linger.ms",
)
VALUES = ("ssl", "SASL_SSL", "sasl_plaintext", "PLAIN", "SCRAM-SHA-256", "GSSAPI", "", "none", "https", "true")


@example(options={"security.protocol": "ssl", "ssl.ca.pem": "\x80"})
@given(options=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text(max_size=8), max_size=8))
def test_any_options_give_credentials_or_one_clear_refusal(options: dict[str, str]) -> None:
    options |= {name: PASSWORD for name in options if is_secret(name)}
    refused, credentials = "", None
    try:
        credentials = broker_credentials(options)
    except StageError as error:
        refused = str(error)
    plain = options.get("security.protocol", "plaintext").lower() == "plaintext"
    assert refused.startswith("kafka.options.") or (credentials is None) == plain
    assert PASSWORD not in refused + repr(credentials)
