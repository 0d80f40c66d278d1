"""The review queue: answers to label, a sample with known probabilities, without the judges' verdicts."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from judges.criteria.criterion import Criterion
from judges.values.interaction import Language, language_of
from sinks.archive.database import Database
from sinks.archive.reading.review import ReviewFilter, count_remaining, find_next_candidate
from sinks.page.backend import BackendError, ReviewItem, ReviewLevel, ReviewQuestion, ReviewTurn
from sinks.statistics.label_design import LabelQueue
from stream.page.labels import RecentLabels


class SampledReview:
    """Implements `sinks.page.backend.ReviewQueue`: all reviewers get answers from the same sample."""

    def __init__(
        self, database: Database, criteria: Mapping[str, Criterion], recent: RecentLabels, *, queue: LabelQueue
    ) -> None:
        self._database, self._recent, self._queue = database, recent, queue
        # A criterion on a numeric range has no options to choose from.
        self._criteria = {name: criterion for name, criterion in criteria.items() if criterion.scale.choices}

    def next_item(self, *, who: str, criterion: str | None) -> ReviewTurn:
        chosen = self._criterion(criterion)
        queue = ReviewFilter(
            who=who,
            criterion=chosen.name,
            queue=self._queue,
            labelled=self._recent.find_labelled(who, chosen.name),
            retracted=self._recent.list_retracted(),
        )
        with self._database.read() as connection:
            candidate = find_next_candidate(connection, queue)
            remaining = count_remaining(connection, queue)
        if candidate is None:
            return ReviewTurn(item=None, remaining=0)
        item = ReviewItem(
            evaluation_id=candidate.evaluation_id,
            interaction_id=candidate.interaction_id,
            probability=candidate.probability * candidate.chance,
            texts=candidate.texts,
            criterion=_question(chosen, _language(candidate.texts)),
        )
        return ReviewTurn(item=item, remaining=remaining)

    def _criterion(self, name: str | None) -> Criterion:
        """Return a criterion by its name; the first one if no name is given."""
        criterion = next(iter(self._criteria.values()), None) if name is None else self._criteria.get(name)
        if criterion is None:
            names = ", ".join(self._criteria) or "none"
            raise BackendError(
                f"there is no criterion {name!r} for labels; choose one of: {names}", HTTPStatus.BAD_REQUEST
            )
        return criterion


def _question(criterion: Criterion, language: Language) -> ReviewQuestion:
    return ReviewQuestion(
        name=criterion.name,
        question=criterion.question.of(language),
        levels=[
            ReviewLevel(option=choice.label.en, label=choice.label.of(language), score=criterion.score(choice))
            for choice in criterion.worst_first or criterion.scale.choices
        ],
    )


def _language(texts: Mapping[str, Any]) -> Language:
    return language_of(f"{texts.get('question', '')} {texts.get('answer', '')}")
