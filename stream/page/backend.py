"""Opens the parts of the page that need Kafka or the stages of this process."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from sinks.archive.database import Database
from sinks.metrics import Outcome, Stage
from sinks.page.backend import Backend, FunnelStep
from stream.config.model import Config
from stream.page.dead_letters import DeadLetters
from stream.page.explanations import AlertExplanations
from stream.page.labels import KafkaLabels, RecentLabels, queue_of
from stream.page.letter_index import LetterIndex
from stream.page.positions import OwnStages, PipelinePositions
from stream.page.review import SampledReview
from stream.service.service import Service
from stream.service.setup.criteria_files import load_chosen_criteria


@contextmanager
def open_backend(config: Config, database: Database, service: Service | None = None) -> Iterator[Backend]:
    """Open all parts until the end of the block; they read no data before the first request.

    `service` runs stages in this process; the page shows more about them than their topics reveal.
    """
    criteria, recent, queue = load_chosen_criteria(config.criteria), RecentLabels(), queue_of(config)
    with ExitStack() as stack:
        index = stack.enter_context(closing(LetterIndex(config)))
        runs_all = service is not None and service.runs(Stage.SAMPLER, Stage.WORKER, Stage.MONITOR)
        own = _own_stages(service) if service is not None and runs_all else None
        yield Backend(
            labels=stack.enter_context(closing(KafkaLabels(config, database, criteria, recent, queue))),
            review=SampledReview(database, criteria, recent, queue=queue),
            letters=DeadLetters(config, index),
            pipeline=stack.enter_context(closing(PipelinePositions(config, index, database, own))),
            explainer=stack.enter_context(closing(AlertExplanations(config, database))),
            paused_judges=_OwnJudges(service) if service is not None and service.runs(Stage.WORKER) else None,
        )


@dataclass(frozen=True, slots=True)
class _OwnJudges:
    """The judges of the worker in this process; implements `sinks.page.backend.PausedJudges`."""

    service: Service

    def list_paused(self) -> Mapping[str, str]:
        return self.service.paused_judges()


def _own_stages(service: Service) -> OwnStages:
    read = service.metrics.read_count

    def count_judged() -> int:
        return read(Stage.WORKER, Outcome.SCORED) + read(Stage.WORKER, Outcome.UNSCORED)

    def count_funnel() -> Sequence[FunnelStep]:
        return (
            FunnelStep(name="interactions", records=read(Stage.SAMPLER, Outcome.CONSUMED)),
            FunnelStep(name="sampled", records=read(Stage.SAMPLER, Outcome.SAMPLED)),
            FunnelStep(name="evaluations", records=count_judged()),
        )

    def count_unseen() -> int:
        return max(0, count_judged() - read(Stage.MONITOR, Outcome.SEEN) - read(Stage.MONITOR, Outcome.REPEATED))

    return OwnStages(count_funnel=count_funnel, count_unseen=count_unseen)
