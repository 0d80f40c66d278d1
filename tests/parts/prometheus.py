"""A real Prometheus from the system's packages, and its query API."""

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.parts import local_http
from tests.parts.patience import patience
from tests.parts.server import Server

_PROGRAM = "prometheus"


def why_unavailable() -> str | None:
    """Return a description of the missing program and how to install it, or None."""
    return None if shutil.which(_PROGRAM) else "no prometheus: install it (Debian: prometheus)"


class Sample(NamedTuple):
    """One value of one series."""

    labels: dict[str, str]
    value: float
    at: float


class Series(NamedTuple):
    """All values of one series within a period, oldest first."""

    labels: dict[str, str]
    points: list[tuple[float, float]]


class QueryError(RuntimeError):
    """An error of Prometheus about an invalid query."""


class Prometheus(Server):
    """Prometheus with this configuration; relative paths in it start at `folder`."""

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
        """Return the `data` field of the answer of `/api/v1/<path>`."""
        answer = local_http.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=20 * patience())
        body = answer.json()
        if body["status"] != "success":
            raise QueryError(f"{body['errorType']}: {body['error']}")
        return body["data"]

    def query(self, expression: str, *, at: float | None = None) -> list[Sample]:
        """Evaluate an expression to an instant vector or a scalar at a time (default: now)."""
        response = self._instant(expression, at)
        if response["resultType"] == "scalar":
            moment, value = response["result"]
            return [Sample({}, float(value), float(moment))]
        return [
            Sample(sample["metric"], float(sample["value"][1]), float(sample["value"][0]))
            for sample in response["result"]
        ]

    def value(self, expression: str, *, at: float | None = None) -> float:
        """Return the only value of an expression; NaN when there is none."""
        samples = self.query(expression, at=at)
        assert len(samples) <= 1, f"{expression}: {samples}"
        return samples[0].value if samples else math.nan

    def samples(self, selector: str, *, at: float | None = None) -> list[Series]:
        """Return the scraped samples of a range selector such as `up[5m]`."""
        return _series(self._instant(selector, at)["result"])

    def query_range(self, expression: str, *, start: float, end: float, step: float = 1.0) -> list[Series]:
        """Evaluate an expression at each step of a period."""
        return _series(self.get("query_range", query=expression, start=start, end=end, step=step)["result"])

    def _instant(self, expression: str, at: float | None) -> Any:
        return self.get("query", query=expression, **({} if at is None else {"time": at}))


def _series(result: Sequence[Mapping[str, Any]]) -> list[Series]:
    return [
        Series(series["metric"], [(float(moment), float(value)) for moment, value in series["values"]])
        for series in result
    ]
