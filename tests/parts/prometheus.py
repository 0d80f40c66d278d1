"""A real Prometheus from the system's packages, and its query API."""

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from tests.parts.server import Server

_PROGRAM = "prometheus"


def why_unavailable() -> str | None:
    """What is missing and what to install, or None."""
    return None if shutil.which(_PROGRAM) else "no prometheus: install it (Debian: prometheus)"


class Sample(NamedTuple):
    """One value of one series."""

    labels: dict[str, str]
    value: float
    at: float


class Series(NamedTuple):
    """All values of one series within a time, oldest first."""

    labels: dict[str, str]
    points: list[tuple[float, float]]


class QueryError(RuntimeError):
    """What Prometheus says of a query that it refuses."""


class Prometheus(Server):
    """Prometheus with this configuration; files that it names are looked for in `folder`."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        super().__init__(folder, name=_PROGRAM, ready="/-/ready")
        self._file = folder / "prometheus.yml"
        self._file.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")

    def command(self) -> Sequence[str | Path]:
        return [
            _PROGRAM,
            f"--config.file={self._file}",
            f"--storage.tsdb.path={self.folder / 'prometheus-data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--enable-feature=exemplar-storage",
            "--log.level=warn",
        ]

    def get(self, path: str, **parameters: Any) -> Any:
        """What is in `data` of the answer of `/api/v1/<path>`."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=20)
        body = answer.json()
        if body["status"] != "success":
            raise QueryError(f"{body['errorType']}: {body['error']}")
        return body["data"]

    def query(self, expression: str, *, at: float | None = None) -> list[Sample]:
        """The instant vector, or the scalar, that an expression has at a moment, now without one."""
        found = self._instant(expression, at)
        if found["resultType"] == "scalar":
            moment, value = found["result"]
            return [Sample({}, float(value), float(moment))]
        return [Sample(each["metric"], float(each["value"][1]), float(each["value"][0])) for each in found["result"]]

    def value(self, expression: str, *, at: float | None = None) -> float:
        """The one value of an expression; NaN when there is none."""
        found = self.query(expression, at=at)
        assert len(found) <= 1, f"{expression}: {found}"
        return found[0].value if found else math.nan

    def samples(self, selector: str, *, at: float | None = None) -> list[Series]:
        """The samples as they were scraped: the selector has a range, as in `up[5m]`."""
        return _series(self._instant(selector, at)["result"])

    def query_range(self, expression: str, *, start: float, end: float, step: float = 1.0) -> list[Series]:
        """The values of an expression, step by step."""
        return _series(self.get("query_range", query=expression, start=start, end=end, step=step)["result"])

    def _instant(self, expression: str, at: float | None) -> Any:
        return self.get("query", query=expression, **({} if at is None else {"time": at}))


def _series(result: Sequence[Mapping[str, Any]]) -> list[Series]:
    return [Series(each["metric"], [(float(at), float(value)) for at, value in each["values"]]) for each in result]
