"""The command `streamjury archivist` ends in good order, also while the broker is dead."""

import json
import time
from pathlib import Path

import pytest

from tests.integration.pipeline import StageProcess, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

TOPICS = {name: f"archive.end.{name}" for name in ("evaluations", "sampled", "alerts", "labels")}


@pytest.mark.slow
def test_the_command_ends_soon_with_and_without_a_broker(own_kafka: KafkaBroker, tmp_path: Path) -> None:
    own_kafka.create_topics(*TOPICS.values())
    config = tmp_path / "streamjury.yaml"
    config.write_text(json.dumps({"topics": TOPICS, "archive": {"url": f"sqlite:///{tmp_path}/archive.db"}}))
    for is_dead in (False, True):
        log = tmp_path / f"archivist-{is_dead}.log"
        with StageProcess("archivist", bootstrap=own_kafka.bootstrap, log=log, config=config) as process:
            wait_until(lambda: process.said("assigned: archive.end"), seconds=40, what="it is at work")
            if is_dead:
                own_kafka.kill()
                time.sleep(1)
            began = time.monotonic()
            status = process.terminate(20)
        text = log.read_text()
        assert "Traceback" not in text
        assert "archivist started; metrics and health at http://" in text
        assert time.monotonic() - began < 20 * patience()
        assert is_dead or status == 0, text
