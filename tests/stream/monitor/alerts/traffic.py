"""Score records of a simulated app, for tests of the alerts."""

from collections.abc import Iterator, Mapping
from random import Random

from judges.values.evaluation import evaluation_id
from stream.config.model import Config
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord, Source
from stream.monitor.alerts.watch.partition import PartitionWatch

BEGIN = 1_700_000_000.0
EVERY_SECONDS = 72.0
PARTITIONS = 3

HEALTHY = {"groundedness": 0.99, "clarity": 0.99}
WRONG = {"groundedness": 0.2, "clarity": 0.99}


def plan_of(**detection: object) -> WatchPlan:
    targets = {"composite": 0.85, "groundedness": 0.85, "clarity": 0.85}
    return WatchPlan(Config.model_validate({"detection": {"targets": targets, **detection}}))


class Traffic:
    """Successive records: passes and fails of each criterion, and their mean as the composite."""

    def __init__(self, seed: int = 1, *, app: str = "shop", fingerprint: str = "f1") -> None:
        self._draw = Random(seed)
        self.app, self.fingerprint = app, fingerprint
        self.number = 0

    def next(self, means: Mapping[str, float] = HEALTHY, **overrides: object) -> ScoreRecord:
        scores = {name: float(self._draw.random() < mean) for name, mean in means.items()}
        return self._record(scores={**scores, "composite": sum(scores.values()) / len(scores)}, **overrides)

    def canary(self, name: str, verdict: str) -> ScoreRecord:
        return self._record(app="canaries", canary=name, verdicts={"groundedness": verdict})

    def anchor(self, name: str, score: float, verdict: str = "same") -> ScoreRecord:
        """Return a canary with its score."""
        scores = {"groundedness": score, "composite": score}
        return self._record(app="canaries", canary=name, verdicts={"groundedness": verdict}, scores=scores)

    def many(self, count: int, means: Mapping[str, float] = HEALTHY, **overrides: object) -> Iterator[ScoreRecord]:
        return (self.next(means, **overrides) for _ in range(count))

    def _record(self, **overrides: object) -> ScoreRecord:
        number, self.number = self.number, self.number + 1
        interaction = f"{self.app}-{number}"
        fields: dict[str, object] = {
            "source": Source(partition=number % PARTITIONS, offset=number // PARTITIONS),
            "evaluation_id": evaluation_id(interaction, self.fingerprint),
            "interaction_id": interaction,
            "app": self.app,
            "at": BEGIN + EVERY_SECONDS * number,
            "probability": 0.1,
            "fingerprint": self.fingerprint,
        }
        return ScoreRecord.model_validate({**fields, **overrides})


def collect_alerts(watch: PartitionWatch, records: Iterator[ScoreRecord] | list[ScoreRecord]) -> list[Alert]:
    return [alert for record in records for alert in watch.observe(record)]


def restore_watch(plan: WatchPlan, watch: PartitionWatch, stored: dict[str, bytes] | None = None) -> PartitionWatch:
    """Return a watch restored from everything that the other one has stored."""
    stored = {} if stored is None else stored
    stored |= {key: value for key, value in watch.take_changes() if value is not None}
    successor = PartitionWatch(plan, 0)
    successor.restore(stored)
    return successor
