"""A Kafka broker with authentication over TLS: all stages work on it, and a refused client gets a clear error."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AclOperation, ResourceType

from sinks.metrics import Outcome, Stage
from stream.cli.main import main
from stream.config.model import Config
from stream.errors import StageError
from stream.service.service import Service
from tests.integration.pipeline import (
    JUDGING,
    StageProcess,
    count_archived,
    produce_all,
    read_json,
    to_create,
    topic_names,
    wait_until,
)
from tests.parts import certificates, kafka
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint
from tests.parts.patience import patience
from tests.parts.required import unavailable
from tests.stream.cli.terminal.test_run_summary import evaluation

pytestmark = [pytest.mark.xdist_group("secure-kafka"), pytest.mark.slow]

RECORDS = 20


@pytest.fixture(scope="module")
def secure_kafka() -> Iterator[kafka.KafkaBroker]:
    if reason := kafka.why_unavailable() or certificates.why_unavailable():
        unavailable(reason)
    with kafka.KafkaBroker(secure=True) as broker:
        yield broker


def topics(broker: kafka.KafkaBroker, prefix: str) -> dict[str, str]:
    """Create separate topics, with records to judge in the first."""
    names = topic_names(prefix)
    broker.create_topics(*to_create(names), partitions=2)
    values = [{"id": f"i-{n}", "question": "Is it open?", "answer": "It is open."} for n in range(RECORDS)]
    produce_all(broker.bootstrap, names["interactions"], [{"value": json.dumps(value).encode()} for value in values])
    return names


def config(bootstrap: str, options: dict[str, str], names: dict[str, str]) -> Config:
    return Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap, "options": options},
            "sampling": {"rate": 1.0},
            "http": {"port": 0},
            "topics": names,
        }
    )


def monitor_config(broker: kafka.KafkaBroker, names: dict[str, str], detects: bool) -> Config:
    settings = config(broker.sasl_bootstrap, broker.options("PLAIN"), names).model_dump()
    monitor = {**settings["monitor"], "group": names["scores"]}
    return Config.model_validate(
        {**settings, "monitor": monitor, "detection": {**settings["detection"], "enabled": detects}}
    )


def count_seen(service: Service) -> int:
    service.check()
    return int(service.metrics.read_count(Stage.MONITOR, Outcome.SEEN))


def count_done(service: Service) -> int:
    """Return the number of evaluations and scores that the monitor has finished."""
    service.check()
    [monitor] = [stage for stage in service._stages if stage.stage is Stage.MONITOR]
    return monitor.pulse.done


def read_backlogs(service: Service) -> list[int]:
    """Return the backlogs of the worker and the monitor, as the watchdog sees them."""
    service.check()
    return [stage.pulse.backlog for stage in service._stages if stage.stage is not Stage.SAMPLER]


def test_all_stages_work_over_tls_with_a_password(secure_kafka: kafka.KafkaBroker) -> None:
    """The monitor uses another client than the other stages. Transaction markers do not count as backlog."""
    names = topics(secure_kafka, "all")
    options = secure_kafka.options("SCRAM-SHA-512")
    with Service(config(secure_kafka.sasl_bootstrap, options, names), JUDGING) as service:
        wait_until(lambda: count_seen(service) == RECORDS, seconds=60, what="all are judged and seen")
        # The scores of the last evaluations come back to the monitor a little later: a new backlog.
        wait_until(lambda: count_done(service) == 2 * RECORDS, seconds=30, what="all scores are read")
        wait_until(lambda: read_backlogs(service) == [0, 0], seconds=10, what="nothing waits")
        wait_until(lambda: service.health.ready().ok, seconds=10, what="ready")
        for _ in range(10):
            time.sleep(0.1)
            assert read_backlogs(service) == [0, 0]
        assert all(stage.pulse.done for stage in service._stages)
    assert len(read_json(secure_kafka.bootstrap, names["evaluations"])) == RECORDS


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-256", "certificate"])
def test_the_monitor_authenticates_in_other_ways_and_knows_its_backlog(
    secure_kafka: kafka.KafkaBroker, how: str
) -> None:
    names = topics(secure_kafka, f"monitor.{how.lower()}")
    certified = how == "certificate"
    bootstrap = secure_kafka.ssl_bootstrap if certified else secure_kafka.sasl_bootstrap
    options = secure_kafka.certificate_options() if certified else secure_kafka.options(how)
    many = 2000  # 4 MB a partition; the client fetches 1 MB at a time
    produce_all(secure_kafka.bootstrap, names["evaluations"], [{"value": b"no evaluation" * 300}] * many)
    with Service(config(bootstrap, options, names), [Stage.MONITOR]) as service:
        backlogs = {0}

        def all_read() -> bool:
            backlogs.update(read_backlogs(service))
            return count_done(service) == many

        deadline = time.monotonic() + 30 * patience()
        while not all_read():
            assert time.monotonic() < deadline, "not all were read"
            time.sleep(0.01)
        wait_until(lambda: read_backlogs(service) == [0], seconds=10, what="nothing waits")
        assert service.metrics.read_count(Stage.MONITOR, Outcome.DEADLETTER) == many
    assert 0 < max(backlogs) <= many


@pytest.mark.parametrize(
    ("stage", "closed"), [(Stage.SAMPLER, "interactions"), (Stage.WORKER, "overflow"), (Stage.MONITOR, "scores")]
)
def test_a_topic_that_a_stage_may_not_access_is_not_reported_as_missing(
    secure_kafka: kafka.KafkaBroker, stage: Stage, closed: str
) -> None:
    names = topics(secure_kafka, f"closed.{stage}")
    secure_kafka.deny(ResourceType.TOPIC, names[closed])
    reason = run_until_error(config(secure_kafka.sasl_bootstrap, secure_kafka.options("PLAIN"), names), stage)
    expected = f"{stage} failed: access to topic {names[closed]} denied (Broker: Topic authorization failed); "
    assert reason == expected + "grant it with an ACL"


@pytest.mark.parametrize("detects", [True, False])
@pytest.mark.parametrize("closed", ["evaluations", "deadletter"])
def test_the_monitor_does_not_start_without_access_to_its_input_and_dead_letters(
    secure_kafka: kafka.KafkaBroker, closed: str, detects: bool
) -> None:
    names = topics(secure_kafka, f"{closed}.closed.{detects}".lower())
    secure_kafka.deny(ResourceType.TOPIC, names[closed])
    reason = run_until_error(monitor_config(secure_kafka, names, detects), Stage.MONITOR)
    assert f"access to topic {names[closed]} denied" in reason


def test_the_monitor_does_not_start_without_access_to_its_group(secure_kafka: kafka.KafkaBroker) -> None:
    """Other stages log that they are denied, and go on asking."""
    names = topics(secure_kafka, "group.closed")
    settings = monitor_config(secure_kafka, names, True)
    secure_kafka.deny(ResourceType.GROUP, settings.monitor.group)
    reason = run_until_error(settings, Stage.MONITOR)
    assert "denied access (" in reason
    assert "Group authorization failed" in reason


@pytest.mark.parametrize("detects", [True, False])
def test_a_refused_record_does_not_end_a_monitor_that_may_not_write_dead_letters(
    secure_kafka: kafka.KafkaBroker, detects: bool, caplog: pytest.LogCaptureFixture
) -> None:
    names = topics(secure_kafka, f"letters.unwritable.{detects}".lower())
    secure_kafka.allow_only(ResourceType.TOPIC, names["deadletter"], AclOperation.DESCRIBE)
    good = evaluation(0.5, "shop").model_dump_json()
    records = [{"value": b"no evaluation", "partition": 0}, {"value": good, "partition": 0}]
    produce_all(secure_kafka.bootstrap, names["evaluations"], records)
    with Service(monitor_config(secure_kafka, names, detects), [Stage.MONITOR]) as service:
        wait_until(lambda: count_seen(service) == 1, seconds=60, what="the record behind the refused one is seen")
        wait_until(lambda: "rejected and skipped" in caplog.text, seconds=30, what="the refused record is in the log")
        if detects:
            wait_until(
                lambda: len(read_json(secure_kafka.bootstrap, names["scores"])) == 1, seconds=30, what="its score"
            )
    assert f"rejected and skipped the record at {names['evaluations']}/0@0: invalid_record: " in caplog.text
    assert "no evaluation" not in caplog.text


def test_a_denied_transactional_id_is_not_taken_for_an_unreachable_broker(
    secure_kafka: kafka.KafkaBroker,
) -> None:
    names = topics(secure_kafka, "transactions")
    secure_kafka.deny(ResourceType.TRANSACTIONAL_ID, "closed-sampler-one")
    settings = config(secure_kafka.sasl_bootstrap, secure_kafka.options("PLAIN"), names).model_dump()
    settings["sampler"] |= {"group": "closed-sampler", "instance": "one"}
    reason = run_until_error(Config.model_validate(settings), Stage.SAMPLER)
    assert "denied access (" in reason
    assert "Transactional Id authorization failed" in reason


@pytest.mark.parametrize("command", [["tail"], ["send", "-"], ["replay", "--yes"]])
def test_a_command_does_not_report_a_denied_topic_as_missing(
    secure_kafka: kafka.KafkaBroker, tmp_path: Path, command: list[str]
) -> None:
    names = topics(secure_kafka, f"closed.{command[0]}")
    for topic in ("evaluations", "interactions", "deadletter"):
        secure_kafka.deny(ResourceType.TOPIC, names[topic])
    options = secure_kafka.options("PLAIN")
    settings = {"kafka": {"bootstrap": secure_kafka.sasl_bootstrap, "options": options}, "topics": names}
    path = tmp_path / "streamjury.yaml"
    path.write_text(json.dumps(settings))
    result = CliRunner().invoke(main, [*command, "--config", str(path)], input="{}\n")
    assert result.exit_code == 3
    assert "denied (Broker: Topic authorization failed); grant it with an ACL" in result.output


def run_until_error(settings: Config, stage: Stage) -> str:
    """Return the error that ends a service of this stage."""
    begun = time.monotonic()
    with (  # noqa: PT012 - whenever the stage ends
        pytest.raises(StageError) as raised,
        Service(settings, [stage]) as service,
    ):
        while time.monotonic() - begun < 30 * patience():
            service.check()
            time.sleep(0.1)
    return str(raised.value)


def test_a_wrong_password_ends_the_monitor_at_once_with_the_reason(secure_kafka: kafka.KafkaBroker) -> None:
    names = topics(secure_kafka, "wrong")
    wrong = config(secure_kafka.sasl_bootstrap, secure_kafka.options("SCRAM-SHA-512", password="guessed-at"), names)
    begun = time.monotonic()
    with (  # noqa: PT012 - whenever the stage ends
        pytest.raises(StageError, match=r"monitor failed: Kafka at .* refused the login: .*uthentication") as raised,
        Service(wrong, [Stage.MONITOR]) as service,
    ):
        while time.monotonic() - begun < 20 * patience():
            service.check()
            time.sleep(0.1)
    assert "guessed-at" not in str(raised.value)


@pytest.mark.parametrize(("stage", "mistake"), [(Stage.SAMPLER, "password"), (Stage.WORKER, "authority")])
def test_a_command_that_cannot_authenticate_ends_with_the_reason(
    secure_kafka: kafka.KafkaBroker, tmp_path: Path, stage: Stage, mistake: str
) -> None:
    options = secure_kafka.options("PLAIN", password="guessed-at" if mistake == "password" else kafka.PASSWORD)
    if mistake == "authority":
        options["ssl.ca.location"] = str(certificates.Authority(tmp_path).certificate)
    path = tmp_path / "streamjury.yaml"
    path.write_text(json.dumps({"kafka": {"options": options}}))
    environ = {**os.environ, "STREAMJURY__KAFKA__BOOTSTRAP": secure_kafka.sasl_bootstrap}
    command = [sys.executable, "-m", "stream.cli.main", stage.value, "--config", str(path)]
    process = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30 * patience(), check=False)
    assert process.returncode == 3
    output = process.stdout + process.stderr
    assert "guessed-at" not in output
    assert ("uthentication" if mistake == "password" else "certificate verify failed") in output


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_at_debug_no_stage_and_no_library_logs_a_secret(
    secure_kafka: kafka.KafkaBroker, tmp_path: Path, mechanism: str
) -> None:
    """All stages and the page, a judge with a key, and an unreachable collector, so that its client logs errors."""
    names = topics(secure_kafka, f"debug.{mechanism.lower()}")
    spans, traces = f"debug.{mechanism.lower()}.otlp", f"debug.{mechanism.lower()}.traces"
    secure_kafka.create_topics(spans, traces)
    secrets = {"key": "key-of-the-judge", "header": "header-of-the-collector", "token": "token-of-the-metrics"}
    with JudgeEndpoint() as endpoint:
        judge = {"kind": "openai", "name": "m", "model": "m", "base_url": endpoint.base_url}
        settings = {
            "kafka": {"options": secure_kafka.options(mechanism)},
            "topics": names | {"traces": traces},
            "input": {"otlp": {"topics": [spans], "keyed": True}},
            "sampling": {"rate": 1.0},
            "judges": {"panel": [judge]},
            "telemetry": {"endpoint": "http://127.0.0.1:9", "headers": {"authorization": secrets["header"]}},
            "http": {"token": secrets["token"]},
            "logging": {"level": "debug", "format": "json"},
        }
        path, log = tmp_path / "streamjury.yaml", tmp_path / "run.log"
        path.write_text(json.dumps(settings))
        key = {"judges__panel__0__api_key": secrets["key"]}
        with StageProcess("run", bootstrap=secure_kafka.sasl_bootstrap, log=log, config=path, **key) as stages:
            wait_until(
                lambda: len(read_json(secure_kafka.bootstrap, names["scores"])) == RECORDS,
                seconds=60,
                what=lambda: f"all are judged and seen: {log.read_text()[-2000:]}",
            )
            wait_until(lambda: f"assigned: {spans}" in log.read_text(), seconds=60, what="the assembler reads")
            wait_until(lambda: count_archived(tmp_path / "archive.db") == RECORDS, seconds=60, what="all are archived")
            assert stages.terminate() == 0
    text = log.read_text()
    loggers = {json.loads(line)["logger"] for line in text.splitlines() if line.startswith('{"time')}
    assert {"urllib3.connectionpool", "aiokafka.consumer.group_coordinator"} <= loggers, "the libraries are heard"
    assert any(name.startswith("opentelemetry") for name in loggers)
    assert not [secret for secret in (*secrets.values(), kafka.PASSWORD, "sasl_auth_bytes") if secret in text]
