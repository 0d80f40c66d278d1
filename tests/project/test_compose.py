"""The compose file and its mounts: it parses, fits together, leaks no secret, and its commands exist."""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import click
import pytest
import yaml

from stream.cli.main import main
from stream.cli.terminal.alertmanager_webhook import PATHS
from stream.config.judge_kinds.openai import OpenAIJudgeConfig
from stream.config.model import Config
from stream.service.setup.config_file import load
from tests.parts.required import unavailable

ROOT = Path(__file__).parents[2]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
COMPOSE: dict[str, Any] = yaml.load((ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# Runs once and exits; every other service stays up.
ONE_SHOT = {"kafka-topics", "ollama-model"}
# Kafka's image writes its configuration beside its scripts.
WRITES_ITS_ROOT = {"kafka"}
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("streamjury:")]
EXAMPLES = sorted((ROOT / "docs/examples").glob("*.yaml"))

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())


def is_pinned(image: str) -> bool:
    """Return whether an image names at least a major, minor and patch version."""
    return re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+[a-z0-9.-]*", image) is not None


def looks_secret(name: str, value: str) -> bool:
    """Return whether a setting holds a secret itself, rather than a reference to one."""
    named = re.search(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|CREDENTIAL", name, re.IGNORECASE) is not None
    reference = value == "" or value.startswith("${") or name.endswith("__FILE")
    opaque = re.search(r"(?<![\w/.-])(sk-\S{8,}|[A-Za-z0-9+/_-]{32,}={0,2})(?![\w/.-])", value) is not None
    return (named and not reference) or opaque


def names_host_path(volume: str) -> bool:
    return volume.startswith((".", "/", "~"))


def interpolate(text: str, **variables: str) -> str:
    """Expand `${NAME:-default}` as Compose does."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: variables.get(match[1]) or match[2], text)


def mounted_files(service: dict[str, Any]) -> dict[PurePosixPath, Path]:
    """Return the mounted files of the repository by their path in the service."""
    pairs = [volume.split(":")[:2] for volume in service.get("volumes", []) if names_host_path(volume)]
    return {PurePosixPath(target): ROOT / source for source, target in pairs}


def find_mounted_file(service: dict[str, Any], path: PurePosixPath) -> Path:
    """Return the file of the repository that a service finds at a path."""
    for target, source in mounted_files(service).items():
        if path == target or target in path.parents:
            return source / path.relative_to(target)
    raise AssertionError(f"nothing is mounted at {path}")


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_the_compose_file_has_the_whole_installation_and_its_extras_only_on_request() -> None:
    services_by_profile: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        for profile in service.get("profiles", ["always"]):
            services_by_profile.setdefault(profile, set()).add(name)
    assert services_by_profile == {
        "always": {"kafka", "kafka-topics", "streamjury", "alerts", "prometheus", "alertmanager", "grafana"},
        "demo": {"traffic"},
        "ollama": {"ollama", "ollama-model"},
    }


@every_service
def test_an_image_is_pinned_to_a_version(service: dict[str, Any]) -> None:
    assert is_pinned(service["image"])


@pytest.mark.parametrize("image", ["grafana/grafana", "prom/prometheus:latest", "apache/kafka:3", "python:3.12-slim"])
def test_a_floating_image_tag_is_noticed(image: str) -> None:
    assert not is_pinned(image)


def test_the_image_is_built_from_a_pinned_base() -> None:
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert bases
    assert all(is_pinned(base) for base in bases)


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - ONE_SHOT))
def test_a_service_that_stays_up_has_a_health_check_and_is_restarted(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert SERVICES[name]["restart"] == "unless-stopped"


@every_service
def test_a_service_waits_for_its_dependencies_to_be_healthy_or_done(service: dict[str, Any]) -> None:
    for name, dependency in service.get("depends_on", {}).items():
        expected = "service_completed_successfully" if name in ONE_SHOT else "service_healthy"
        assert dependency["condition"] == expected
        # Compose refuses to start a service that depends on one left out by a profile.
        left_out = set(SERVICES[name].get("profiles", [])) - set(service.get("profiles", []))
        assert dependency.get("required", True) is not bool(left_out)


@every_service
def test_a_service_has_limits_that_a_small_machine_can_give(service: dict[str, Any]) -> None:
    limits = service["deploy"]["resources"]["limits"]
    # Docker refuses limits above the number of processors.
    assert 0 < float(interpolate(limits["cpus"])) <= 2
    assert re.fullmatch(r"\d+[mg]", interpolate(limits["memory"]))


@every_service
def test_the_log_of_a_service_cannot_fill_the_disk(service: dict[str, Any]) -> None:
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}


@every_service
def test_a_port_is_published_on_loopback_only(service: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@every_service
def test_a_service_has_no_capabilities_and_gets_none(service: dict[str, Any]) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")


@every_service
def test_a_service_runs_as_a_numbered_user_who_is_not_root(service: dict[str, Any]) -> None:
    assert re.fullmatch(r"[1-9]\d*:\d+", service["user"])


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_runs_as_the_user_of_the_image(name: str) -> None:
    assert [SERVICES[name]["user"]] == dockerfile()["USER"]


@every_service
def test_no_volume_is_in_the_home_of_root(service: dict[str, Any]) -> None:
    """Only root may enter it."""
    assert not [volume for volume in service.get("volumes", []) if volume.split(":")[1].startswith("/root")]


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - WRITES_ITS_ROOT))
def test_a_service_has_a_read_only_root_and_a_small_tmp(name: str) -> None:
    assert SERVICES[name]["read_only"] is True
    [tmp] = SERVICES[name]["tmpfs"]
    target, options = tmp.split(":")
    assert target == "/tmp"
    assert {"noexec", "nosuid", "nodev"} <= set(options.split(","))
    assert "size=" in options


def dockerfile() -> dict[str, list[str]]:
    """Return the instructions of the stage that becomes the image, by name."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    final = text[text.rindex("\nFROM ") :]
    instructions: dict[str, list[str]] = {}
    for line in final.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            instructions.setdefault(name, []).append(" ".join(rest.split()))
    return instructions


def test_the_image_has_the_extras_of_a_server() -> None:
    """Exporters, the PostgreSQL driver and decoders cannot be added to an image with a read-only root."""
    build = (ROOT / "Dockerfile").read_text().partition("\nFROM ")[0]
    [install] = re.findall(r"pip install .*", build)
    assert install.endswith('.whl)[encoder,otel,postgres,registry]"')
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"encoder", "otel", "postgres", "registry"} <= extras.keys()


def test_the_image_runs_as_a_numbered_user_who_is_not_root() -> None:
    [user] = dockerfile()["USER"]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    uid, gid = user.split(":")
    [created] = [line for line in dockerfile()["RUN"] if "useradd" in line]
    assert f"--uid {uid} " in created
    assert f"--gid {gid} " in created


def test_the_image_writes_to_tmp_and_its_archive_alone() -> None:
    [environment] = dockerfile()["ENV"]
    variables = dict(pair.split("=", 1) for pair in environment.split())
    assert variables["TMPDIR"] == variables["HOME"] == "/tmp"
    assert variables["PYTHONDONTWRITEBYTECODE"] == "1"
    [folder] = dockerfile()["VOLUME"]
    assert variables["STREAMJURY__ARCHIVE__URL"] == f"sqlite:///{folder}/archive.db"
    [created] = [line for line in dockerfile()["RUN"] if "useradd" in line]
    assert created.endswith(f"install --directory --owner 10001 --group 10001 {folder}")
    assert f"streamjury-data:{folder}" in SERVICES["streamjury"]["volumes"]


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
        # Without a value, it is that of the shell that starts Compose.
        assert value is None or not looks_secret(name, value), name


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
def test_a_secret_is_distinguished_from_a_setting(name: str, value: str, secret: bool) -> None:
    assert looks_secret(name, value) is secret


def test_the_tests_and_the_compose_file_run_the_same_kafka() -> None:
    pom = ElementTree.parse(ROOT / "tests/parts/kafka_jars/pom.xml")
    maven = {"m": "http://maven.apache.org/POM/4.0.0"}
    versions = {
        dependency.findtext("m:artifactId", namespaces=maven): dependency.findtext("m:version", namespaces=maven)
        for dependency in pom.iterfind("m:dependencies/m:dependency", maven)
    }
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{versions['kafka_2.13']}"


def test_the_compose_file_names_the_version_it_builds() -> None:
    assert {SERVICES[name]["image"] for name in OURS} == {f"streamjury:{VERSION}"}


def test_one_service_builds_the_image_and_the_others_wait_for_it_or_use_it() -> None:
    """Four builds of one image take four times as long, and a registry may have another image of this name."""
    [builder] = [name for name, service in SERVICES.items() if "build" in service]
    assert len(OURS) == 4
    assert builder in OURS
    assert {SERVICES[name]["pull_policy"] for name in OURS} == {"never"}
    # It must be part of every start: no profile may leave it out.
    assert "profiles" not in SERVICES[builder]


def test_the_file_says_which_compose_it_needs() -> None:
    """`required` in `depends_on` came with Compose 2.20."""
    assert any("required" in dependency for service in SERVICES.values() for dependency in dependencies(service))
    assert "Docker Compose 2.20 or newer" in (ROOT / "docker-compose.yml").read_text()
    assert "Docker Compose 2.20 or newer" in (ROOT / "docs/alerts.md").read_text()


def dependencies(service: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from service.get("depends_on", {}).values()


def test_the_demo_drops_within_two_minutes_of_its_start() -> None:
    """One minute is left for Kafka to start and for the topics to be created."""
    options = parse_options(SERVICES["traffic"]["command"])
    assert options["regime"] == "scenario"
    assert options["first_drop"] <= 60
    drop_minutes = 0.3 * options["period"] / 60
    assert drop_minutes > 10, "long enough to be seen on a dashboard"


def parse_options(arguments: list[str]) -> dict[str, Any]:
    """Parse one of our command lines as the program does, without running it, and return its options."""
    command: click.Command = main
    name, rest, context = "streamjury", list(arguments), None
    while isinstance(command, click.Group):
        context = click.Context(command, info_name=name, parent=context)
        subcommand_name, subcommand, rest = command.resolve_command(context, rest)
        assert subcommand_name is not None
        assert subcommand is not None
        name, command = subcommand_name, subcommand
    return command.make_context(name, rest, parent=context).params


@pytest.mark.parametrize("name", OURS)
def test_a_command_of_ours_exists_and_takes_its_options(name: str) -> None:
    parse_options([interpolate(word) for word in SERVICES[name]["command"]])


@pytest.mark.parametrize("arguments", [["serve"], ["webhook", "--colour"], ["topics", "make"], ["traffic", "--rate=0"]])
def test_a_command_that_would_not_start_is_noticed(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parse_options(arguments)


def load_config(name: str, **variables: str) -> Config:
    """Return the configuration that one of our services starts with."""
    service = SERVICES[name]
    environment = {key: value for key, value in service.get("environment", {}).items() if value is not None}
    environ = {key: interpolate(value, **variables) for key, value in environment.items()}
    file = environ.pop("STREAMJURY_CONFIG", None)
    return load(None if file is None else find_mounted_file(service, PurePosixPath(file)), environ)


@pytest.mark.parametrize("judges", ["", *(file.stem for file in EXAMPLES)])
@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_starts_with_a_valid_configuration(name: str, judges: str) -> None:
    config = load_config(name, JUDGES=judges)
    if "STREAMJURY__KAFKA__BOOTSTRAP" in SERVICES[name].get("environment", {}):
        assert config.kafka.bootstrap == "kafka:9092"
    for port in SERVICES[name].get("ports", []):
        assert (config.http.host, str(config.http.port)) == ("0.0.0.0", port.split(":")[-1])


def test_the_model_that_is_fetched_is_the_one_that_judges() -> None:
    asked = [
        judge_config
        for judge_config in load_config("streamjury", JUDGES="ollama").judges.panel
        if judge_config.kind == "openai"
    ]
    [judge] = [judge_config for judge_config in asked if isinstance(judge_config, OpenAIJudgeConfig)]
    assert SERVICES["ollama-model"]["command"] == ["pull", judge.model]
    assert SERVICES["ollama-model"]["environment"]["OLLAMA_HOST"] == urlsplit(judge.base_url).netloc == "ollama:11434"
    assert SERVICES["ollama-model"]["image"] == SERVICES["ollama"]["image"]


@pytest.mark.parametrize("name", ["streamjury", "alerts"])
def test_a_health_check_asks_where_the_service_listens(name: str) -> None:
    options = parse_options(SERVICES[name]["command"])
    port = options["port"] if name == "alerts" else load_config(name).http.port
    assert f"http://127.0.0.1:{port}/healthz" in SERVICES[name]["healthcheck"]["test"][-1]


def test_the_prometheus_configuration_is_valid() -> None:
    if shutil.which("promtool") is None:
        unavailable("no promtool: install Prometheus (Debian: prometheus)")
    file = ROOT / "dashboards/prometheus/prometheus.yml"
    process = subprocess.run(["promtool", "check", "config", file], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def prometheus_addresses(config: dict[str, Any]) -> Iterator[str]:
    """Return every host:port in the configuration of Prometheus."""
    for part in (*config["scrape_configs"], *config["alerting"]["alertmanagers"]):
        for group in part["static_configs"]:
            yield from group["targets"]


def test_prometheus_scrapes_and_alerts_services_of_the_compose_file() -> None:
    targets = set(prometheus_addresses(read_yaml("dashboards/prometheus/prometheus.yml")))
    assert {f"streamjury:{load_config('streamjury').http.port}", "alertmanager:9093"} <= targets
    assert {target.split(":")[0] for target in targets} <= {*SERVICES, "localhost"}


def test_prometheus_finds_its_rules() -> None:
    folder = PurePosixPath("/etc/prometheus")
    files = read_yaml("dashboards/prometheus/prometheus.yml")["rule_files"]
    rule_files = [
        yaml.safe_load(find_mounted_file(SERVICES["prometheus"], folder / file).read_text()) for file in files
    ]
    rules = [rule for rule_file in rule_files for group in rule_file["groups"] for rule in group["rules"]]
    assert {"alert", "record"} <= {key for rule in rules for key in rule}


def test_prometheus_keeps_data_for_the_period_of_the_objective() -> None:
    [days] = re.findall(r"retention\.time=(\d+)d", " ".join(SERVICES["prometheus"]["command"]))
    assert int(days) > Config().objectives.days


def receivers(route: dict[str, Any]) -> Iterator[str]:
    if "receiver" in route:
        yield route["receiver"]
    for inner in route.get("routes", []):
        yield from receivers(inner)


def test_every_alert_reaches_the_service_that_prints_it() -> None:
    config = read_yaml("dashboards/alertmanager/alertmanager.yml")
    hooks = {
        receiver["name"]: [hook["url"] for hook in receiver["webhook_configs"]] for receiver in config["receivers"]
    }
    wanted = set(receivers(config["route"]))
    assert wanted
    port = parse_options(SERVICES["alerts"]["command"])["port"]
    for name in wanted:
        assert hooks[name]
        for url in map(urlsplit, hooks[name]):
            assert (url.scheme, url.netloc) == ("http", f"alerts:{port}")
            assert (url.path or "/") in PATHS


def test_grafana_finds_prometheus_and_knows_how_often_it_scrapes() -> None:
    [source] = read_yaml("dashboards/grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert (source["uid"], source["url"]) == ("prometheus", "http://prometheus:9090")
    scraping = read_yaml("dashboards/prometheus/prometheus.yml")["global"]
    assert source["jsonData"]["timeInterval"] == scraping["scrape_interval"]


def test_grafana_finds_the_dashboards_and_the_runbooks() -> None:
    [folder] = (ROOT / "dashboards/grafana/provisioning/dashboards").glob("*.yml")
    for provider in yaml.safe_load(folder.read_text())["providers"]:
        path = find_mounted_file(SERVICES["grafana"], PurePosixPath(provider["options"]["path"]))
        assert list(path.glob("*.json"))
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert find_mounted_file(SERVICES["grafana"], PurePosixPath(home)).is_file()
    runbooks = find_mounted_file(SERVICES["grafana"], PurePosixPath("/usr/share/grafana/public/runbooks"))
    assert list(runbooks.glob("Streamjury*.html"))
