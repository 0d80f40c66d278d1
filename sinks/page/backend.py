"""Protocols for the parts that the pipeline provides: labels, review queue, dead letters, positions and explanations.

The page does not use Kafka itself. A process that serves it implements these protocols (`stream.page`). None in place
of a part means that this process does not have it, and the page says so. All methods run in threads of the web server,
several at once, and may block for a few seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Protocol

from sinks.reports.sheet import Sheet


class BackendError(Exception):
    """A request failed; the text is a sentence for the user, `status` the status of the reply."""

    def __init__(self, sentence: str, status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE) -> None:
        super().__init__(sentence)
        self.status = status


# Labels and the review queue


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLabel:
    """A label from a reviewer; the LabelWriter adds the interaction, the score and the probability."""

    evaluation_id: str
    criterion: str
    option: str
    who: str
    comment: str | None = None


class LabelWriter(Protocol):
    """Writes labels to their topic."""

    def write(self, label: NewLabel) -> str:
        """Publish a label, and return its id after the broker has acknowledged it.

        Raises BackendError: NOT_FOUND for an unknown evaluation, BAD_REQUEST for an unknown criterion or option.
        """
        ...

    def retract(self, label_id: str, *, who: str, may_retract_others: bool) -> None:
        """Publish the retraction of a label.

        Raises BackendError: NOT_FOUND for an unknown label, FORBIDDEN for another reviewer's label.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewLevel:
    option: str
    """The option as it is stored in a label."""
    label: str
    """The option as it is shown, in the language of the texts."""
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewQuestion:
    """A criterion as it is shown to a reviewer."""

    name: str
    question: str
    levels: Sequence[ReviewLevel]
    """Worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewItem:
    """An answer to label, without the judges' verdicts."""

    evaluation_id: str
    interaction_id: str
    probability: float
    texts: Mapping[str, object]
    """`question`, `history`, `contexts`, `answer` and `reference`, as archived."""
    criterion: ReviewQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTurn:
    item: ReviewItem | None
    """None if the queue is empty."""
    remaining: int
    """Number of items in the queue, including this one."""


class ReviewQueue(Protocol):
    """Chooses answers for reviewers."""

    def next_item(self, *, who: str, criterion: str | None) -> ReviewTurn:
        """Return the next answer for a reviewer; BackendError with BAD_REQUEST for an unknown criterion."""
        ...


# Dead letters


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterPlace:
    """The place of a dead letter on its topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLetter:
    """A dead letter as the page shows it."""

    place: LetterPlace
    failed_at: datetime
    stage: str
    reason: str
    message: str
    source: str
    """Topic, partition and offset of the original record."""
    value: bytes
    """The first bytes of the record, at most 4 KiB."""
    size: int
    """Size of the record in bytes."""
    is_replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersPage:
    letters: Sequence[ShownLetter]
    next_cursor: str | None
    """Opaque; None on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedLetter:
    place: LetterPlace
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    replayed: int
    skipped: Sequence[SkippedLetter] = ()


class DeadLetterShelf(Protocol):
    """Lists dead letters and replays them."""

    def list_letters(self, *, cursor: str | None, limit: int) -> LettersPage:
        """Return a page of dead letters, newest first; BackendError with BAD_REQUEST for a wrong cursor."""
        ...

    def replay(self, places: Sequence[LetterPlace], *, who: str) -> ReplayOutcome:
        """Move these letters back to the topics they came from; skip those that cannot be moved."""
        ...


# The pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelStep:
    name: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    group: str
    topic: str
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    stage: str
    reason: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineState:
    funnel: Sequence[FunnelStep]
    """From the interactions to the evaluations."""
    lag: Sequence[GroupLag]
    dead_letters: int
    dead_letters_by_reason: Sequence[ReasonCount]


class Pipeline(Protocol):
    """Reports the progress of the stages."""

    def state(self) -> PipelineState:
        """Return the state of the pipeline; it may be a few seconds old, so that every call is cheap."""
        ...

    def count_waiting(self) -> int | None:
        """Return the number of sampled records that wait to be judged; None if unknown. Never blocks."""
        ...


# Alerts and judges


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertExplanation:
    """An explanation as `streamjury alerts explain` prints it."""

    sentences: Sequence[str]
    sheets: Sequence[Sheet]


class AlertExplainer(Protocol):
    """Explains alerts."""

    def explain(self, alert_id: str) -> AlertExplanation | str:
        """Return the explanation, or a sentence that says why there is none (yet).

        Never blocks for long: reading the evaluations around an alert can take minutes and happens in the background.
        """
        ...


class PausedJudges(Protocol):
    """Reports the judges that are currently paused."""

    def list_paused(self) -> Mapping[str, str]:
        """Return the reason for each paused judge, by its name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """All parts; None: this process does not have the part."""

    labels: LabelWriter | None = None
    review: ReviewQueue | None = None
    letters: DeadLetterShelf | None = None
    pipeline: Pipeline | None = None
    explainer: AlertExplainer | None = None
    paused_judges: PausedJudges | None = None
