"""Credentials for the monitor: turns librdkafka's security options into Faust's.

The sampler and the workers pass `kafka.options` to librdkafka unchanged. Faust's client has other settings. Options
without a counterpart are refused at the start, because a monitor that ignored them would be less secure than it looks.
"""

import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import faust
from faust.types.auth import CredentialsT

from stream.config.sections.kafka import OptionValue
from stream.errors import StageError

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SASL_OPTIONS = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"})
_SSL_OPTIONS = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
# The values that librdkafka reads as true and false.
_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def broker_credentials(options: Mapping[str, OptionValue]) -> CredentialsT | None:
    """Convert `kafka.options` into Faust's credentials; None for a broker without encryption and passwords.

    Like librdkafka, it ignores options that the protocol does not use.
    """
    protocol = _text(options, "security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise _unusable("security.protocol", f"must be one of {', '.join(_PROTOCOLS)}")
    secured, named = protocol.endswith("ssl"), protocol.startswith("sasl")
    if secured:
        _refuse_others(options, _SSL_OPTIONS, ("ssl.", "ssl_", "enable.ssl."))
    if named:
        _refuse_others(options, _SASL_OPTIONS, ("sasl.", "enable.sasl."))
    context = _tls(options) if secured else None
    if named:
        return _sasl(options, context)
    return faust.SSLCredentials(context) if secured else None


def _sasl(options: Mapping[str, OptionValue], context: ssl.SSLContext | None) -> faust.SASLCredentials:
    name = "sasl.mechanisms" if "sasl.mechanisms" in options else "sasl.mechanism"
    mechanism = _text(options, name, "GSSAPI").upper()  # librdkafka's own default
    if mechanism not in _MECHANISMS:
        raise _unusable(name, f"the monitor supports {', '.join(_MECHANISMS)}, not {mechanism}")
    for needed in ("sasl.username", "sasl.password"):
        if not _text(options, needed):
            raise _unusable(needed, f"is required for {mechanism}")
    return faust.SASLCredentials(
        mechanism=mechanism,
        username=_text(options, "sasl.username"),
        password=_text(options, "sasl.password"),
        ssl_context=context,
    )


def _tls(options: Mapping[str, OptionValue]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    algorithm = _text(options, "ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in {"https", "none"}:
        raise _unusable("ssl.endpoint.identification.algorithm", "must be https or none")
    verify = _truth(options, "enable.ssl.certificate.verification", default=True)
    # In this order: a name is only ever compared when the certificate is verified.
    context.check_hostname = verify and algorithm == "https"
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if verify:
        _trust(context, options)
    _identify(context, options)
    return context


def _trust(context: ssl.SSLContext, options: Mapping[str, OptionValue]) -> None:
    """Load the trusted certificates: those of the options, else those of the system."""
    pem, location = _text(options, "ssl.ca.pem"), _text(options, "ssl.ca.location")
    if pem:
        _load("ssl.ca.pem", lambda: context.load_verify_locations(cadata=pem))
    elif location and location != "probe":
        path = "capath" if Path(location).is_dir() else "cafile"
        _load("ssl.ca.location", lambda: context.load_verify_locations(**{path: location}), location)
    else:
        context.load_default_certs()


def _identify(context: ssl.SSLContext, options: Mapping[str, OptionValue]) -> None:
    """Load the certificate for brokers that ask for one."""
    with (
        _as_file(options, "ssl.certificate.pem", "ssl.certificate.location") as (certificate, source),
        _as_file(options, "ssl.key.pem", "ssl.key.location") as (key, key_source),
    ):
        if not certificate:
            if key:
                raise _unusable(key_source, "a key needs its certificate, in ssl.certificate.location")
            return
        if key:
            _load(key_source, lambda: Path(key).read_bytes(), _text(options, "ssl.key.location"))
        password = _text(options, "ssl.key.password")
        location = _text(options, "ssl.certificate.location")
        _load(source, lambda: context.load_cert_chain(certificate, key, _password_callback(password)), location)


@contextmanager
def _as_file(options: Mapping[str, OptionValue], pem: str, location: str) -> Iterator[tuple[str | None, str]]:
    """Yield the path of the file that an option contains or names, if any, and the option's name."""
    if not _text(options, pem):
        yield _text(options, location) or None, location
        return
    # The library reads certificates and keys from files only; this file is private and removed at once.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace", prefix="streamjury-") as file:
        file.write(_text(options, pem))
        file.flush()
        yield file.name, pem


def _password_callback(password: str) -> Callable[[], str]:
    def answer() -> str:
        if not password:  # the library would ask at the terminal, and wait
            raise _unusable("ssl.key.password", "the key is protected by a password")
        return password

    return answer


def _load(option: str, load: Callable[[], object], path: str = "") -> None:
    try:
        load()
    except ssl.SSLError as error:
        what = f"{path} cannot be used" if path else "cannot be used"
        raise _unusable(option, f"{what} ({error.reason or 'not valid PEM of the expected kind'})") from error
    except OSError as error:
        raise _unusable(option, f"cannot read {path} ({error.strerror})") from error
    except (ValueError, TypeError) as error:  # not ASCII, a null character, too long
        raise _unusable(option, f"cannot be used ({error})") from error


def _refuse_others(options: Mapping[str, OptionValue], supported: frozenset[str], prefixes: tuple[str, ...]) -> None:
    for name in options:
        if name.startswith(prefixes) and name not in supported:
            raise _unusable(
                name, f"the monitor does not support this option; it supports {', '.join(sorted(supported))}"
            )


def _truth(options: Mapping[str, OptionValue], name: str, *, default: bool) -> bool:
    value = _text(options, name, str(default)).lower()
    if value not in _TRUTHS:
        raise _unusable(name, "must be true or false")
    return _TRUTHS[value]


def _text(options: Mapping[str, OptionValue], name: str, default: str = "") -> str:
    return str(options.get(name, default))


def _unusable(option: str, why: str) -> StageError:
    """`why` never repeats a password or a key."""
    return StageError(f"kafka.options.{option}: {why}")
