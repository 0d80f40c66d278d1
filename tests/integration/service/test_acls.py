"""The permissions listed in docs/security.md suffice for every stage and command; with fewer, access is denied."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.span_data import encode, make_trace
from sinks.archive.database import Database
from sinks.metrics import Outcome, Stage
from sinks.page.backend import NewLabel
from stream.cli.main import main
from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.config.sections.otlp import OtlpConfig
from stream.kafka.producers import exclusive
from stream.kafka.topics import plan_topics
from stream.page.backend import open_backend
from stream.service.service import Service
from stream.service.setup.config_file import load
from tests.integration.pipeline import headers_of, produce_all, read_all, wait_until
from tests.parts import certificates, kafka
from tests.parts.archive import Judged, fill
from tests.parts.documents.pages import ROOT
from tests.parts.patience import patience
from tests.parts.required import unavailable

pytestmark = pytest.mark.slow

PASSWORD = "open-sesame"
RECORDS = 10
# The listener without passwords, used by the tests and the controller, has all permissions.
AUTHORIZER = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


class Rights(NamedTuple):
    """A row of the table."""

    reads: list[str]
    writes: list[str]
    groups: list[str]
    transactional_ids: list[str]


def documented_rights() -> dict[str, Rights]:
    """Return the table of the page, by principal."""
    page = (ROOT / "docs/security.md").read_text()
    table = page.split("| principal |")[1].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {name: Rights(*(re.findall("`([^`]+)`", cell) for cell in cells)) for name, *cells in rows}


def grants(principal: str, rights: Rights) -> Iterator[AclBinding]:
    kinds = (
        (ResourceType.TOPIC, AclOperation.READ, rights.reads),
        (ResourceType.TOPIC, AclOperation.WRITE, rights.writes),
        (ResourceType.GROUP, AclOperation.READ, rights.groups),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, rights.transactional_ids),
    )
    for kind, operation, names in kinds:
        for name in names:
            pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
            yield AclBinding(
                kind,
                name.removesuffix("*"),
                pattern,
                f"User:{user_of(principal)}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )


def user_of(principal: str) -> str:
    return re.sub("[^a-z]+", "-", principal)


@pytest.fixture(scope="module")
def guarded_kafka() -> Iterator[kafka.KafkaBroker]:
    """A broker with the topics of the default configuration; each principal has the permissions of its row."""
    if reason := kafka.why_unavailable() or certificates.why_unavailable():
        unavailable(reason)
    with kafka.KafkaBroker(secure=True, properties=AUTHORIZER) as broker:
        broker.create_topics(
            *(plan.name for plan in plan_topics(Config(input=InputConfig(otlp=OtlpConfig())))), partitions=2
        )
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        futures = [
            *admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(user_of(name), how, PASSWORD.encode()) for name in documented_rights()]
            ).values(),
            *admin.create_acls(
                [rule for name, rights in documented_rights().items() for rule in grants(name, rights)]
            ).values(),
        ]
        for future in futures:
            future.result(timeout=30 * patience())
        yield broker


def options(broker: kafka.KafkaBroker, principal: str) -> dict[str, str]:
    return broker.options("SCRAM-SHA-512", password=PASSWORD) | {"sasl.username": user_of(principal)}


def content(broker: kafka.KafkaBroker, principal: str, **more: Any) -> dict[str, Any]:
    access = {"bootstrap": broker.sasl_bootstrap, "options": options(broker, principal)}
    return {"kafka": access, "sampling": {"rate": 1.0}, "http": {"port": 0}, **more}


def command(broker: kafka.KafkaBroker, folder: Path, principal: str, *words: str) -> str:
    path = folder / f"{user_of(principal)}.yaml"
    path.write_text(json.dumps(content(broker, principal)))
    result = CliRunner().invoke(main, [*words, "--config", str(path)])
    assert result.exit_code == 0, f"{words}: {result.output}"
    return result.output


def read_count(service: Service, stage: Stage, outcome: Outcome) -> int:
    service.check()
    return service.metrics.read_count(stage, outcome)


def test_the_rights_of_the_table_are_enough(
    guarded_kafka: kafka.KafkaBroker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A replay fails if the broker does not take its records within this time, and says to run it again.
    monkeypatch.setattr(exclusive, "TRANSACTION_TIMEOUT_MS", int(exclusive.TRANSACTION_TIMEOUT_MS * patience()))
    broker = guarded_kafka
    canary = {"id": "c", "question": "Is it open?", "answer": "It is open."}
    (tmp_path / "canaries.jsonl").write_text(json.dumps(canary))
    monitored = content(
        broker, "monitor", detection={"canaries": {"file": str(tmp_path / "canaries.jsonl"), "every_minutes": 0.05}}
    )
    (tmp_path / "monitor.json").write_text(json.dumps(monitored))
    bodies = ({**canary, "id": f"i-{number}", "app": "shop"} for number in range(RECORDS))
    producer = Producer({"bootstrap.servers": broker.sasl_bootstrap, **options(broker, "your service")})
    for body in bodies:
        producer.produce("rag.interactions", key=body["id"], value=json.dumps(body))
    # With a key the sampler does not parse the record, and the worker finds the error.
    for key in (None, "key"):
        producer.produce("rag.interactions", key=key, value=b"no interaction")
    assert not producer.flush(30 * patience())
    archive = {"url": f"sqlite:///{tmp_path}/archive.db"}
    produce_all(broker.bootstrap, "rag.labels", [{"value": b"no label"}])
    produce_all(broker.bootstrap, "rag.alerts", [{"value": b"no alert"}])
    spans = Producer({"bootstrap.servers": broker.sasl_bootstrap, **options(broker, "your Collector")})
    spans.produce("otlp_spans", value=encode([replace(make_trace(0)[-1], attributes={})]))
    assert not spans.flush(30 * patience())
    otlp = {"otlp": {"quiet_seconds": 0.2}}
    with ExitStack() as stack:
        _assembler, sampler, worker, monitor, archivist = (
            stack.enter_context(Service(config, [stage]))
            for config, stage in (
                (Config.model_validate(content(broker, "assembler", input=otlp)), Stage.ASSEMBLER),
                (Config.model_validate(content(broker, "sampler")), Stage.SAMPLER),
                (Config.model_validate(content(broker, "worker")), Stage.WORKER),
                (load(tmp_path / "monitor.json", {}), Stage.MONITOR),
                (Config.model_validate(content(broker, "archivist", archive=archive)), Stage.ARCHIVIST),
            )
        )
        produce_all(broker.bootstrap, "rag.evaluations", [{"value": b"no evaluation"}])
        wait_until(lambda: read_count(monitor, Stage.MONITOR, Outcome.SEEN) == RECORDS, seconds=60, what="all are seen")
        wait_until(
            lambda: read_count(monitor, Stage.MONITOR, Outcome.DEADLETTER) == 2, seconds=30, what="two are refused"
        )
        wait_until(
            lambda: read_count(monitor, Stage.MONITOR, Outcome.FILTERED) >= 1, seconds=30, what="a canary is judged"
        )
        wait_until(
            lambda: (
                read_count(archivist, Stage.ARCHIVIST, Outcome.SEEN) >= 2 * RECORDS
                and read_count(archivist, Stage.ARCHIVIST, Outcome.REFUSED) == 4
            ),
            seconds=30,
            what="texts and evaluations are archived, and one record of each topic is refused",
        )
        wait_until(
            lambda: (
                read_count(sampler, Stage.SAMPLER, Outcome.DEADLETTER) == 1
                and read_count(worker, Stage.WORKER, Outcome.DEADLETTER) == 1
            ),
            seconds=30,
            what="the sampler and the worker refuse one each",
        )
        wait_until(lambda: len(read_all(broker.bootstrap, "rag.traces")) > 0, seconds=30, what="a trace is finished")
        wait_until(lambda: len(read_all(broker.bootstrap, "rag.detection")) > 0, seconds=30, what="states are stored")
    letters = read_all(broker.bootstrap, "rag.deadletter")
    assert sorted(headers_of(letter)["sj-error-stage"] for letter in letters) == [
        "monitor",
        "monitor",
        "sampler",
        "worker",
    ]
    assert "uthorization" not in caplog.text, "nothing was denied"
    reader = "tail, alerts"
    assert "shop" in command(broker, tmp_path, reader, "tail", "--from-beginning", "--limit", "1", "--app", "shop")
    command(broker, tmp_path, reader, "alerts", "list")
    assert "balanced" in command(broker, tmp_path, "audit", "audit", "--json")
    check_page(Config.model_validate(content(broker, "page", archive={"url": f"sqlite:///{tmp_path}/archive.db"})))
    command(broker, tmp_path, "replay", "replay", "--yes")
    command(broker, tmp_path, "backfill", "backfill", "--yes", "--since", "1h")


def check_page(config: Config) -> None:
    """Check that the page can read and write its topics."""
    with Database(config.archive.url) as database, open_backend(config, database) as backend:
        fill(database, [Judged(id="e", scores={"clarity": 1.0})])
        assert backend.labels is not None
        assert backend.letters is not None
        assert backend.pipeline is not None
        backend.labels.write(NewLabel(evaluation_id="e", criterion="clarity", option="clear", who="ada"))
        groups = {lag.group for lag in backend.pipeline.state().lag}
        assert groups == {stage.group for stage in (config.sampler, config.worker, config.monitor, config.archive)}
        letters = backend.letters.list_letters(cursor=None, limit=10).letters
        [place] = [letter.place for letter in letters if letter.stage == "sampler"]
        assert backend.letters.replay([place], who="ada").replayed == 1


def test_a_group_that_the_page_may_not_read_is_left_out(guarded_kafka: kafka.KafkaBroker, tmp_path: Path) -> None:
    config = Config.model_validate(content(guarded_kafka, "tail, alerts"))
    with Database(f"sqlite:///{tmp_path}/archive.db") as database, open_backend(config, database) as backend:
        assert backend.pipeline is not None
        assert backend.pipeline.state().lag == []


@pytest.mark.parametrize("topic", ["rag.scores", "rag.detection", "rag.evaluations", "rag.sampled", "rag.alerts"])
def test_a_service_that_logs_interactions_can_write_to_no_other_topic(
    guarded_kafka: kafka.KafkaBroker, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": guarded_kafka.sasl_bootstrap, **options(guarded_kafka, "your service")})
    refused: list[KafkaError | None] = []
    producer.produce(topic, b"forged", on_delivery=lambda error, _message: refused.append(error))
    producer.flush(30 * patience())
    assert [error.code() for error in refused if error is not None] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
