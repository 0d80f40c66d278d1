"""The project's own files: the compose file, the package's metadata, the pinned versions, the import arrows, the rules
of the test run."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.parts.required import unavailable

ROOT = Path(__file__).parents[1]
PACKAGES = ("judges", "sinks", "stream")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# Runs once and ends; every other service stays up.
ONE_SHOT = {"kafka-topics"}
# Kafka's image writes its configuration beside its scripts.
WRITES_ITS_ROOT = {"kafka"}

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())


def pinned(image: str) -> bool:
    """Whether an image names a version that says at least major, minor and patch."""
    return re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+[a-z0-9.-]*", image) is not None


def looks_secret(name: str, value: str) -> bool:
    """Whether a setting holds a secret itself, rather than a reference to one."""
    named = re.search(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|CREDENTIAL", name, re.IGNORECASE) is not None
    reference = value == "" or value.startswith("${") or name.endswith("__FILE")
    opaque = re.search(r"(?<![\w/.-])(sk-\S{8,}|[A-Za-z0-9+/_-]{32,}={0,2})(?![\w/.-])", value) is not None
    return (named and not reference) or opaque


def names_host_path(volume: str) -> bool:
    return volume.startswith((".", "/", "~"))


def test_the_compose_file_has_the_whole_installation() -> None:
    assert set(SERVICES) == {"kafka", "kafka-topics", "streamjury", "prometheus", "alertmanager", "grafana"}


@every_service
def test_an_image_is_pinned_to_a_version(service: dict[str, Any]) -> None:
    assert pinned(service["image"])


@pytest.mark.parametrize("image", ["grafana/grafana", "prom/prometheus:latest", "apache/kafka:3", "python:3.12-slim"])
def test_a_floating_image_tag_is_noticed(image: str) -> None:
    assert not pinned(image)


def test_the_image_is_built_from_a_pinned_base() -> None:
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert bases
    assert all(pinned(base) for base in bases)


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - ONE_SHOT))
def test_a_service_that_stays_up_has_a_health_check_and_is_restarted(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert SERVICES[name]["restart"] == "unless-stopped"


@every_service
def test_a_service_waits_for_what_it_needs_to_be_healthy_or_done(service: dict[str, Any]) -> None:
    for name, dependency in service.get("depends_on", {}).items():
        expected = "service_completed_successfully" if name in ONE_SHOT else "service_healthy"
        assert dependency["condition"] == expected


@every_service
def test_a_port_is_published_on_loopback_only(service: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@every_service
def test_a_service_has_no_capabilities_and_gets_none(service: dict[str, Any]) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - WRITES_ITS_ROOT))
def test_a_service_has_a_read_only_root_and_a_small_tmp(name: str) -> None:
    assert SERVICES[name]["read_only"] is True
    [tmp] = SERVICES[name]["tmpfs"]
    target, options = tmp.split(":")
    assert target == "/tmp"
    assert {"noexec", "nosuid", "nodev"} <= set(options.split(","))
    assert "size=" in options


def dockerfile() -> dict[str, list[str]]:
    """The instructions of the stage that becomes the image, by name."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    final = text[text.rindex("\nFROM ") :]
    found: dict[str, list[str]] = {}
    for line in final.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(" ".join(rest.split()))
    return found


def test_the_image_runs_as_a_numbered_user_who_is_not_root() -> None:
    [user] = dockerfile()["USER"]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    uid, gid = user.split(":")
    [created] = [line for line in dockerfile()["RUN"] if "useradd" in line]
    assert f"--uid {uid} " in created
    assert f"--gid {gid} " in created


def test_the_image_writes_to_tmp_alone() -> None:
    [environment] = dockerfile()["ENV"]
    variables = dict(pair.split("=", 1) for pair in environment.split())
    assert variables["TMPDIR"] == variables["HOME"] == "/tmp"
    assert variables["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "VOLUME" not in dockerfile()


@every_service
def test_a_bind_mount_is_there_and_read_only(service: dict[str, Any]) -> None:
    for volume in filter(names_host_path, service.get("volumes", [])):
        source, _target, mode = volume.split(":")
        assert (ROOT / source).exists()
        assert mode == "ro"


@every_service
def test_a_named_volume_is_declared(service: dict[str, Any]) -> None:
    named = [volume.split(":")[0] for volume in service.get("volumes", []) if not names_host_path(volume)]
    assert set(named) <= set(COMPOSE["volumes"])


@every_service
def test_no_secret_stands_in_the_compose_file(service: dict[str, Any]) -> None:
    for name, value in service.get("environment", {}).items():
        assert not looks_secret(name, value), name


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GF_SECURITY_ADMIN_PASSWORD", "admin", True),
        ("OPENAI_API_KEY", "x", True),
        ("ENDPOINT", "key=sk-abcdefgh12345678", True),
        ("CLIENT", "0123456789abcdef0123456789abcdef", True),
        ("OPENAI_API_KEY", "${OPENAI_API_KEY}", False),
        ("GF_SECURITY_ADMIN_PASSWORD__FILE", "/run/secrets/grafana", False),
        ("KAFKA_LOG_DIRS", "/var/lib/kafka/data", False),
    ],
)
def test_a_secret_is_told_from_a_setting(name: str, value: str, secret: bool) -> None:
    assert looks_secret(name, value) is secret


def test_the_tests_and_the_compose_file_run_the_same_kafka() -> None:
    pom = ElementTree.parse(ROOT / "tests/parts/kafka/pom.xml")
    maven = {"m": "http://maven.apache.org/POM/4.0.0"}
    versions = {
        dependency.findtext("m:artifactId", namespaces=maven): dependency.findtext("m:version", namespaces=maven)
        for dependency in pom.iterfind("m:dependencies/m:dependency", maven)
    }
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{versions['kafka_2.13']}"


def test_the_compose_file_names_the_version_it_builds() -> None:
    built = {service["image"] for service in SERVICES.values() if "build" in service}
    assert built == {f"streamjury:{PROJECT['version']}"}


def test_the_prometheus_configuration_is_valid() -> None:
    if shutil.which("promtool") is None:
        unavailable("no promtool: install Prometheus (Debian: prometheus)")
    file = ROOT / "dashboards/prometheus/prometheus.yml"
    done = subprocess.run(["promtool", "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_and_alerts_services_of_the_compose_file() -> None:
    config = yaml.safe_load((ROOT / "dashboards/prometheus/prometheus.yml").read_text())
    groups = [group for job in config["scrape_configs"] for group in job["static_configs"]]
    groups += [group for manager in config["alerting"]["alertmanagers"] for group in manager["static_configs"]]
    targets = {target for group in groups for target in group["targets"]}
    assert targets >= {"streamjury:9464", "alertmanager:9093"}
    assert {target.split(":")[0] for target in targets} <= {*SERVICES, "localhost"}


def test_every_alert_has_a_receiver() -> None:
    config = yaml.safe_load((ROOT / "dashboards/alertmanager/alertmanager.yml").read_text())
    assert config["route"]["receiver"] in {receiver["name"] for receiver in config["receivers"]}


def test_grafana_finds_prometheus() -> None:
    file = ROOT / "dashboards/grafana/provisioning/datasources/prometheus.yml"
    sources = yaml.safe_load(file.read_text())["datasources"]
    assert [(source["uid"], source["url"]) for source in sources] == [("prometheus", "http://prometheus:9090")]


def test_the_command_is_declared() -> None:
    assert PROJECT["scripts"] == {"streamjury": "stream.cli:main"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_shipped_and_typed(package: str) -> None:
    assert package in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert (ROOT / package / "py.typed").is_file()


def test_the_license_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def declared_requirements() -> list[Requirement]:
    groups: list[list[str]] = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return [Requirement(line) for group in groups for line in group]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("requirement", declared_requirements(), ids=lambda requirement: requirement.name)
def test_the_pinned_version_satisfies_what_is_declared(requirement: Requirement) -> None:
    assert requirement.specifier.contains(constraints()[canonicalize_name(requirement.name)])


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_import_arrows_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "wrong"), [("judges", "import sinks"), ("judges", "import stream"), ("sinks", "import stream")]
)
def test_an_import_against_the_arrows_is_caught(tmp_path: Path, module: str, wrong: str) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / module / "astray.py").write_text(f"{wrong}\n")

    done = lint_imports(tmp_path)

    assert done.returncode == 1
    assert f"{module}.astray -> {wrong.split()[1]}" in done.stdout


def run_pytest(folder: Path, sources: list[str], *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs test files with our conftest, and without any plugin but xdist."""
    shutil.copy(ROOT / "tests/conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for number, source in enumerate(sources):
        (folder / f"test_{number}.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "xdist", *options, str(folder)]
    variables = os.environ | environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


SKIPPING = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="something is missing")
def test_is_left_out():
    pass
"""
SKIPPING_WHOLE = """
import pytest

pytest.skip("something is missing", allow_module_level=True)
"""


SKIPLESS = "def test_passes():\n    pass\n"


@pytest.mark.parametrize(
    ("sources", "required", "workers", "code"),
    [
        ([SKIPPING, SKIPPING_WHOLE], "1", "2", 1),
        ([SKIPPING, SKIPPING_WHOLE], "1", "0", 1),
        ([SKIPPING, SKIPPING_WHOLE], "", "0", 0),
        ([SKIPLESS], "1", "0", 0),
    ],
    ids=["skips in workers", "skips", "skips allowed", "no skips"],
)
def test_a_skip_fails_the_run_where_everything_is_required(
    tmp_path: Path, sources: list[str], required: str, workers: str, code: int
) -> None:
    done = run_pytest(tmp_path, sources, "-n", workers, STREAMJURY_REQUIRE_ALL=required)

    assert done.returncode == code, done.stdout + done.stderr
    named = done.stdout.partition("STREAMJURY_REQUIRE_ALL=1 allows none")[2]
    assert re.findall(r"^test_\d.py\S*", named, re.MULTILINE) == (["test_0.py::test_is_left_out", "test_1.py"] * code)


GROUPED = """
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_of_a_group(number):
    pass
"""


def test_tests_of_one_group_run_in_one_worker(tmp_path: Path) -> None:
    """Some pairs of pytest and xdist ignore groups without a word, and every worker would start parts of its own."""
    done = run_pytest(tmp_path, [GROUPED], "-n", "2", "--dist", "loadgroup", "-v")
    workers = re.findall(r"^\[(gw\d)\].* PASSED", done.stdout, re.MULTILINE)
    assert len(workers) == 6
    assert len(set(workers)) == 1
