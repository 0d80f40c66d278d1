"""A real Alertmanager from the system's packages."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.parts import local_http
from tests.parts.patience import patience
from tests.parts.server import Server

_PROGRAM = "prometheus-alertmanager"


def why_unavailable() -> str | None:
    """Return a description of the missing program and how to install it, or None."""
    return None if shutil.which(_PROGRAM) else f"no {_PROGRAM}: install it (Debian: {_PROGRAM})"


class Alertmanager(Server):
    """A single Alertmanager with this configuration, without clustering."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        super().__init__(folder, name=_PROGRAM, ready="/-/ready")
        self._file = folder / "alertmanager.yml"
        self._file.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")

    def command(self) -> Sequence[str | Path]:
        return [
            _PROGRAM,
            f"--config.file={self._file}",
            f"--storage.path={self.folder / 'alertmanager-data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]

    def alerts(self) -> list[dict[str, Any]]:
        """Return its current alerts."""
        alerts: list[dict[str, Any]] = local_http.get(f"{self.url}/api/v2/alerts", timeout=20 * patience()).json()
        return alerts
