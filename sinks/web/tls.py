"""Certificates for HTTPS, checked before a server starts with them."""

import ssl
from pathlib import Path
from typing import Literal


class CertificateError(Exception):
    """A certificate or key that cannot be used; `part` says which of the two."""

    def __init__(self, part: Literal["certificate", "key"], message: str) -> None:
        super().__init__(message)
        self.part = part


def server_tls(certificate: str, key: str) -> ssl.SSLContext:
    """Make the TLS settings of a server from these two PEM files."""
    if "-----BEGIN CERTIFICATE-----" not in _pem("certificate", certificate):
        raise CertificateError("certificate", f"{certificate} has no certificate in PEM form")
    if "PRIVATE KEY-----" not in _pem("key", key):
        raise CertificateError("key", f"{key} has no private key in PEM form")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError("key", f"{key} does not match {certificate}") from error
        raise CertificateError("certificate", f"cannot use {certificate} and {key} ({error})") from error
    except _PasswordError as error:
        raise CertificateError("key", f"{key} is encrypted; use a key without a password") from error
    return context


def _pem(part: Literal["certificate", "key"], path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise CertificateError(part, f"cannot read {path} ({error.strerror})") from error


class _PasswordError(Exception):
    pass


def _no_password() -> str:
    """Refuse to give a password; otherwise the library would ask at the terminal, and wait."""
    raise _PasswordError
