"""A real Apache Kafka broker in KRaft mode, from the jars that `make kafka` fetches."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tests.parts.certificates import Authority
from tests.parts.patience import patience
from tests.parts.server import free_ports

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".cache" / "kafka"

# Read into memory by every broker, if it exists: a broker starts in about half the time.
_CLASSES = JARS / "classes.jsa"
# The storage of a new broker, if it exists: formatting another takes a JVM.
_FORMATTED = JARS / "formatted"

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_ANSWER_SECONDS = 20.0

# One node is the whole cluster, so every internal topic has one replica and, for a quick start, one partition.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
message.max.bytes=20971520
replica.fetch.max.bytes=20971520
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=60000
# Otherwise the controller writes a record twice a second, also if nobody uses the broker.
metadata.max.idle.interval.ms=5000
"""
# A broker that is late with its heartbeats leads nothing until the next one: all its clients then look for it again,
# which keeps a busy machine so busy that the next one is late, too. So sessions are long. But after a kill the
# controller lets the broker back in only when the session of the killed one has ended, and after a minute without
# this the broker gives up.
_SHORT_SESSION = ("--override", "broker.session.timeout.ms=6000")

# Besides the listeners above: one for SASL (name and password) over TLS, one for clients with a certificate.
_SECURE_PROPERTIES = """\
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller},\
SASL_SSL://127.0.0.1:{sasl_ssl},SSL://127.0.0.1:{ssl}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},SASL_SSL://127.0.0.1:{sasl_ssl},SSL://127.0.0.1:{ssl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.ssl.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""
USER, PASSWORD = "streamjury", "open-sesame"


def why_unavailable() -> str | None:
    """Return a description of what is missing for a broker and how to get it, or None."""
    if shutil.which("java") is None:
        return "no java for Kafka: install a Java 17 runtime (Debian: default-jre-headless)"
    if not list(JARS.glob("kafka_*.jar")):
        return "no Kafka jars: run `make kafka`"
    return None


class KafkaBroker:
    """A broker on free loopback ports; its data lasts for the `with` block, across any number of restarts."""

    def __init__(self, *, for_speed: bool = False, secure: bool = False, properties: str = "") -> None:
        """Start quickly at the price of throughput; `for_speed`, for benchmarks, is the other way round.

        A `secure` broker has two more listeners: TLS with this module's user name and password, and TLS with a client
        certificate of its authority. `properties` are additional lines of the broker's configuration.
        """
        self._properties = properties
        self._for_speed = for_speed
        self._secure = secure
        self._process: subprocess.Popen[bytes] | None = None
        self._was_killed = False
        self._folder = Path()
        self.bootstrap = self.sasl_bootstrap = self.ssl_bootstrap = ""

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="streamjury-kafka-"))
        broker, controller, sasl_ssl, ssl = free_ports(4)
        self.bootstrap = f"127.0.0.1:{broker}"
        settings = _PROPERTIES.format(broker=broker, controller=controller, data=self._folder / "data")
        try:
            if self._secure:
                self.sasl_bootstrap, self.ssl_bootstrap = f"127.0.0.1:{sasl_ssl}", f"127.0.0.1:{ssl}"
                # If a setting occurs twice, the later one counts.
                settings += self._security(broker=broker, controller=controller, sasl_ssl=sasl_ssl, ssl=ssl)
            (self._folder / "server.properties").write_text(settings + self._properties)
            self._format()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def log(self) -> Path:
        """Return the path of the log, which covers all starts."""
        return self._folder / "broker.log"

    def start(self) -> None:
        """Start the broker on its existing data and wait until it answers."""
        assert self._process is None, "the broker is running"
        child = Path(__file__).with_name("child.py")
        options = _SHORT_SESSION if self._was_killed else ()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, child, *self._server(), self._folder / "server.properties", *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """Shut the broker down cleanly and keep its data."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker as a crash would and keep its data as it is."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the broker: its connections stay open and it does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def create_topics(self, *names: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create topics and wait until they exist; topics are never created on first use."""
        settings = dict(config or {})
        topics = [NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings) for name in names]
        deadline = time.monotonic() + _START_SECONDS * patience()
        is_created = self._create(topics)
        while not is_created:
            assert time.monotonic() < deadline, f"the broker does not create {names}"
            is_created = self._create(topics, may_exist=True)
        self._wait_until_led(names, partitions)

    def _create(self, topics: list[NewTopic], *, may_exist: bool = False) -> bool:
        """Ask once, with a new client: one that connects while the broker leads nothing never finds the controller."""
        admin = AdminClient(self._client())  # keep a reference: the client must outlive the wait
        for created in admin.create_topics(topics, request_timeout=_ANSWER_SECONDS).values():
            try:
                created.result()
            except KafkaException as error:
                # On a busy machine, the heartbeats of a broker with a short session may be late.
                if error.args[0].code() in {KafkaError._TIMED_OUT, KafkaError.INVALID_REPLICATION_FACTOR}:
                    return False
                if not may_exist or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        return True

    def _wait_until_led(self, names: Collection[str], partitions: int) -> None:
        """Wait until the broker knows the topics; the controller answers earlier."""
        admin, deadline = AdminClient(self._client()), time.monotonic() + _START_SECONDS * patience()
        while True:
            topics = admin.list_topics(timeout=_START_SECONDS).topics
            leaders = [
                [partition.leader for partition in topics[name].partitions.values()] for name in names if name in topics
            ]
            if len(leaders) == len(names) and all(len(of) == partitions and min(of) >= 0 for of in leaders):
                return
            assert time.monotonic() < deadline, f"the broker does not lead {names}"
            time.sleep(0.05)

    def deny(self, kind: ResourceType, name: str) -> None:
        """Deny this module's user any access to a resource, and wait until the rule is in effect."""
        self._add_rule(kind, name, AclOperation.ALL, AclPermissionType.DENY)

    def allow_only(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """Deny this module's user all but one operation on a resource, and wait until the rule is in effect."""
        self._add_rule(kind, name, operation, AclPermissionType.ALLOW)

    def _add_rule(self, kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType) -> None:
        rule = AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, permission)
        admin = AdminClient(self._client())
        for created in admin.create_acls([rule]).values():
            created.result(timeout=_START_SECONDS)
        # The controller stores the rule before the broker applies it.
        every = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        deadline = time.monotonic() + _START_SECONDS * patience()
        while not admin.describe_acls(every).result(timeout=_START_SECONDS):
            assert time.monotonic() < deadline, "the broker does not know the rule"
            time.sleep(0.05)

    def options(self, mechanism: str, *, password: str = PASSWORD) -> dict[str, str]:
        """Return the librdkafka options for `sasl_bootstrap`."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            "ssl.ca.location": str(self._authority.certificate),
        }

    def certificate_options(self) -> dict[str, str]:
        """Return the librdkafka options for `ssl_bootstrap`."""
        certificate, key = self._authority.sign("client")
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self._authority.certificate),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }

    def _security(self, **ports: int) -> str:
        self._authority = Authority(self._folder)
        certificate, key = self._authority.sign("broker")
        keystore = self._folder / "keystore.pem"
        keystore.write_text(key.read_text() + certificate.read_text())
        files = {"keystore": keystore, "authority": self._authority.certificate}
        return _SECURE_PROPERTIES.format(user=USER, password=PASSWORD, **ports, **files)

    def _server(self) -> list[str]:
        if self._for_speed:
            return ["java", "-Xmx1g", "-cp", f"{JARS}/*", "kafka.Kafka"]
        return _java(512, "kafka.Kafka", *_read_classes())

    def _format(self) -> None:
        if _FORMATTED.exists() and not self._secure:
            shutil.copytree(_FORMATTED, self._folder / "data")
            return
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # A leading dash would be parsed as an option.
        command = ["format", "--cluster-id", cluster_id.replace("-", "_")]
        if self._secure:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                command += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
        process = subprocess.run(
            [
                *_java(128, "kafka.tools.StorageTool", *_read_classes()),
                *command,
                "--config",
                self._folder / "server.properties",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            raise RuntimeError(f"Kafka's storage could not be formatted:\n{process.stdout}{process.stderr}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS * patience()
        client = Consumer({**self._client(), "group.id": "readiness"})
        try:
            while time.monotonic() < deadline and process.poll() is None:
                if _answers(client):
                    return
                time.sleep(0.1)
        finally:
            client.close()
        log_end = self.log.read_text(errors="replace")[-3000:]
        self.kill()
        raise RuntimeError(f"Kafka did not start; the end of its log:\n{log_end}")

    def _client(self) -> dict[str, str | int | float | bool]:
        # log_level 0: otherwise every refused connection is logged while the broker starts.
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        self._was_killed = how is signal.SIGKILL
        assert process.stdin is not None
        if process.poll() is None:
            os.killpg(process.pid, how)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._was_killed = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            process.stdin.close()


def _answers(client: Consumer) -> bool:
    try:
        if not client.list_topics(timeout=1).brokers:
            return False
        # A restarted broker answers before its group coordinator has read the committed offsets.
        client.committed([TopicPartition("any", 0)], timeout=2)
    except KafkaException:
        return False
    return True


def _read_classes() -> list[str]:
    return [f"-XX:SharedArchiveFile={_CLASSES}"] if _CLASSES.exists() else []


def _java(heap_mib: int, main_class: str, *options: str) -> list[str]:
    # Tests run for seconds: the plain collector and the first compiler tier start fastest.
    quick = [f"-Xmx{heap_mib}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *quick, *options, "-cp", f"{JARS}/*", main_class]


class _First(KafkaBroker):
    def _server(self) -> list[str]:
        return _java(512, "kafka.Kafka", f"-XX:ArchiveClassesAtExit={_CLASSES}")

    def _format(self) -> None:
        super()._format()
        shutil.copytree(self._folder / "data", _FORMATTED, dirs_exist_ok=True)


def prepare() -> None:
    """Run a broker once, and keep its empty storage and the classes that it has loaded for the brokers of the tests."""
    with _First() as broker:
        broker.create_topics("any")
        broker.stop()


if __name__ == "__main__":
    prepare()
