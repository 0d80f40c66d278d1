"""Opens what the page needs from Kafka and from the stages of this process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from sinks.archive.database import Database
from sinks.metrics import Outcome, Stage
from sinks.page.backend import Backend, FunnelStep
from stream.config.model import Config
from stream.page.dead_letters import DeadLetters
from stream.page.explanations import AlertExplanations
from stream.page.labels import Labels, RecentLabels
from stream.page.letter_index import LetterIndex
from stream.page.positions import PipelinePositions
from stream.page.review import RandomReview
from stream.service.service import Service
from stream.service.setup.criteria_files import load_chosen_criteria


@contextmanager
def open_backend(config: Config, database: Database, service: Service | None = None) -> Iterator[Backend]:
    """Open all parts until the end of the block; nothing is read before the page asks.

    `service` runs stages in this process, of which the page shows more than their topics do.
    """
    criteria, recent = load_chosen_criteria(config.criteria), RecentLabels()
    with ExitStack() as stack:
        index = stack.enter_context(closing(LetterIndex(config)))
        counts = None if service is None or not service.runs(Stage.SAMPLER, Stage.WORKER) else _counter(service)
        yield Backend(
            labels=stack.enter_context(closing(Labels(config, database, criteria, recent))),
            review=RandomReview(database, criteria, recent, rate=config.page.review_rate),
            letters=DeadLetters(config, index),
            pipeline=stack.enter_context(closing(PipelinePositions(config, index, database, counts))),
            explainer=stack.enter_context(closing(AlertExplanations(config, database))),
            paused_judges=_OwnJudges(service) if service is not None and service.runs(Stage.WORKER) else None,
        )


@dataclass(frozen=True, slots=True)
class _OwnJudges:
    """The judges of the worker in this process; implements `sinks.page.backend.PausedJudges`."""

    service: Service

    def paused(self) -> Mapping[str, str]:
        return self.service.paused_judges()


def _counter(service: Service) -> Callable[[], Sequence[FunnelStep]]:
    def count() -> Sequence[FunnelStep]:
        read = service.metrics.read_count
        judged = read(Stage.WORKER, Outcome.SCORED) + read(Stage.WORKER, Outcome.UNSCORED)
        return (
            FunnelStep(name="interactions", records=read(Stage.SAMPLER, Outcome.CONSUMED)),
            FunnelStep(name="sampled", records=read(Stage.SAMPLER, Outcome.SAMPLED)),
            FunnelStep(name="evaluations", records=judged),
        )

    return count
