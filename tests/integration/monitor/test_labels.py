"""The monitor with labels: corrected means as metrics, and uncorrected ones until there are enough labels."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from judges.values.label import Label
from sinks.metrics import Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.integration.pipeline import produce_all, wait_until
from tests.sinks.metrics.measured import dimension, evaluation, verdict

NOW = datetime.now(UTC)


def publish_answers(config: Config, numbers: range) -> None:
    """Publish answers whose scores are too high by 0.5 for half of them."""
    records = [
        evaluation(
            0.75,
            evaluation_id=f"e-{number}",
            interaction_id=f"i-{number}",
            probability=0.5,
            dimensions={"clarity": dimension(1.0, verdict("local", score=1.0))},
            evaluated_at=NOW - timedelta(minutes=number % 50),
            model="gpt-4o",
        )
        for number in numbers
    ]
    produce_all(
        config.kafka.bootstrap,
        config.topics.evaluations,
        [{"key": record.evaluation_id, "value": record.model_dump_json()} for record in records],
    )


def publish_labels(config: Config, numbers: range) -> None:
    lots = Random(1)
    records = [
        Label(
            label_id=f"l-{number}",
            interaction_id=f"i-{number}",
            criterion="clarity",
            score=lots.choice((0.5, 1.0)),
            who="ada",
            labelled_at=NOW,
            probability=0.25,
        )
        for number in numbers
    ]
    produce_all(
        config.kafka.bootstrap,
        config.topics.labels,
        [{"key": record.interaction_id, "value": record.model_dump_json()} for record in records],
    )


@pytest.mark.slow
def test_labels_correct_the_mean_of_their_app(embedded_broker: EmbeddedBroker) -> None:
    config = Config.model_validate({"kafka": {"bootstrap": embedded_broker.bootstrap}, "http": {"port": 0}})
    with Service(config, [Stage.MONITOR]) as service:

        def gauge(name: str) -> float | None:
            labels = {"app": "shop", "dimension": "clarity"}
            return service.registry.get_sample_value(f"streamjury_corrected_{name}", labels)

        publish_labels(config, range(20))
        publish_answers(config, range(100))
        # The gauges are set one after another, in another thread.
        first = {"labelled": 20.0, "uncorrected": 1.0, "score": None, "judges_score": 1.0}
        wait_until(lambda: {name: gauge(name) for name in first} == first, seconds=60, what="the first labels count")
        publish_labels(config, range(60))
        wait_until(
            lambda: (gauge("labelled"), gauge("uncorrected")) == (60.0, 0.0),
            seconds=60,
            what="all labels count, each once",
        )
        low, mean, high = (gauge(name) or 0.0 for name in ("score_low", "score", "score_high"))
        assert 0.6 < low < mean < high < 0.9

        def judge(name: str) -> float | None:
            labels = {"app": "shop", "criterion": "clarity", "judge": "local"}
            return service.registry.get_sample_value(f"streamjury_judge_agreement_{name}", labels)

        # Half of the labels are 0.5 below the score.
        figures = {
            "labels": 60.0,
            "bias": pytest.approx(0.25, abs=0.1),
            "mean": pytest.approx(0.75, abs=0.1),
            "fallen": 0.0,
            "target": None,
        }

        def shown() -> dict[str, float | None]:
            return {name: judge(name) for name in figures}

        wait_until(
            lambda: shown() == figures, seconds=60, what=lambda: f"{figures} compared with all labels, not {shown()}"
        )

        def of_family(name: str) -> float | None:
            labels = {"app": "shop", "criterion": "clarity", "judge": "local", "attribute": "family", "value": "gpt"}
            return service.registry.get_sample_value(f"streamjury_judge_agreement_slice_{name}", labels)

        wait_until(
            lambda: (of_family("labels"), of_family("bias")) == (60.0, judge("bias")),
            seconds=60,
            what="the judge is compared on the family",
        )
