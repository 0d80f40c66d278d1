"""A real Schema Registry: Apicurio, from the files that `make registry` fetches, with schemas in memory."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.parts.server import Server

JARS = Path(__file__).parents[2] / ".cache" / "registry"


def why_unavailable() -> str | None:
    """Return a description of what is missing for a registry and how to get it, or None."""
    if shutil.which("java") is None:
        return "no java for the Schema Registry: install a Java 17 runtime (Debian: default-jre-headless)"
    if not (JARS / "registry.jar").exists():
        return "no Schema Registry: run `make registry`"
    return None


class SchemaRegistry(Server):
    """A registry on a free loopback port; `api` is the address of its Confluent-compatible API."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, name="registry", ready="/apis/ccompat/v7/subjects")

    @property
    def api(self) -> str:
        return f"{self.url}/apis/ccompat/v7"

    def command(self) -> Sequence[str | Path]:
        # It runs for seconds: the plain collector and the first compiler tier start fastest.
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        settings = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.log.level=WARN"]
        return [*java, *settings, "-jar", JARS / "registry.jar"]
