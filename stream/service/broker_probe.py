"""The broker probe: asks the broker for metadata every few seconds, so that readiness reflects its state."""

import logging
import threading
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sinks.web.health import Health
from stream.config.sections.kafka import KafkaConfig

log = logging.getLogger(__name__)

_PROBE_SECONDS = 3.0


class BrokerProbe:
    """Asks the broker for its metadata every few seconds, so that readiness fails while it is away."""

    def __init__(self, kafka: KafkaConfig, health: Health) -> None:
        self._kafka = kafka
        self._problem: str | None = "not checked yet"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-probe", daemon=True)
        health.add("broker", ready=lambda: self._problem)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(2 * _PROBE_SECONDS)

    def answers(self) -> bool:
        return self._problem is None

    def _run(self) -> None:
        client = AdminClient(self._kafka.client_options() | {"log_level": 0}, logger=log)
        while True:
            try:
                client.poll(0)  # passes on the client's log lines, if its options ask for that
                client.list_topics(timeout=_PROBE_SECONDS)
                self._problem = None
            except KafkaException as error:
                self._problem = f"no answer from {self._kafka.bootstrap}: {error.args[0].str()}"
            if self._stop.wait(_PROBE_SECONDS):
                return
