"""The page says which judges of its process are paused, and why."""

import json
from pathlib import Path

from sinks.archive.database import Database
from sinks.metrics import Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.page.backend import open_backend
from stream.service.service import Service
from tests.integration.pipeline import produce_all, wait_until


def test_a_judge_whose_endpoint_is_away_is_paused_with_the_reason(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": embedded_broker.bootstrap},
            "http": {"port": 0},
            "judges": {
                "panel": [
                    {"kind": "local"},
                    {"kind": "openai", "name": "away", "model": "m", "base_url": "http://127.0.0.1:1/v1"},
                ]
            },
        }
    )
    body = {"question": "Is it open?", "answer": "It is open.", "contexts": [{"text": "It is open."}]}
    records = [{"key": f"{number}", "value": json.dumps({**body, "id": f"i-{number}"})} for number in range(30)]
    produce_all(embedded_broker.bootstrap, config.topics.sampled, records)
    with (
        Service(config, [Stage.WORKER]) as service,
        Database(f"sqlite:///{tmp_path}/archive.db") as database,
        open_backend(config, database, service) as backend,
    ):
        judges = backend.paused_judges
        assert judges is not None

        def is_paused() -> bool:
            service.check()
            return judges.list_paused().keys() == {"away"}

        wait_until(is_paused, seconds=60, what="the judge is paused")
        assert "127.0.0.1:1" in judges.list_paused()["away"]
