"""Certificates for tests, made by the `openssl` command: an authority and the certificates it signs."""

import shutil
import subprocess
from pathlib import Path


def why_unavailable() -> str | None:
    """Return a description of the missing program and how to install it, or None."""
    if shutil.which("openssl") is None:
        return "no openssl for certificates: install it (Debian: openssl)"
    return None


class Authority:
    """A certificate authority in a folder; its certificates are valid for the loopback address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "authority.pem"
        self._key = folder / "authority.key"
        _openssl("genpkey", *_CURVE, "-out", self._key)
        about = ["-subj", "/CN=test authority", "-addext", "basicConstraints=critical,CA:TRUE"]
        _openssl("req", "-x509", "-new", "-key", self._key, "-days", "2", *about, "-out", self.certificate)

    def sign(self, name: str, *, addresses: str = "IP:127.0.0.1,DNS:localhost") -> tuple[Path, Path]:
        """Return the files of a new certificate and its key (without a password)."""
        certificate, key, request, extensions = (
            self._folder / f"{name}{ending}" for ending in (".pem", ".key", ".csr", ".ext")
        )
        extensions.write_text(f"subjectAltName={addresses}\n")
        _openssl("genpkey", *_CURVE, "-out", key)
        _openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        signer = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", "2")
        _openssl("x509", "-req", "-in", request, *signer, "-extfile", extensions, "-out", certificate)
        return certificate, key


def with_password(key: Path, password: str) -> Path:
    """Return a copy of the key that is encrypted with the password."""
    locked = key.with_suffix(".locked")
    _openssl("pkcs8", "-topk8", "-in", key, "-passout", f"pass:{password}", "-out", locked)
    return locked


_CURVE = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def _openssl(*arguments: str | Path) -> None:
    process = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"openssl {arguments[0]}: {process.stderr}")
