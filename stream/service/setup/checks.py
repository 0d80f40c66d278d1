"""Checks the files that a configuration names, before anything starts.

The model checks shapes and opens no files. This module reads the files and checks the values that depend on them:
criteria files and all values about criteria, a step log to replay, canaries, and whether budgets fit into the
note that is committed with an offset. librdkafka itself checks the options of its clients.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.criteria.criterion import Criterion
from judges.criteria.problems import InconsistentError, Loc
from stream.config.criteria import choose_criteria, compose_criteria
from stream.config.model import Config
from stream.config.section import Check
from stream.config.sections.budgets import AppBudgetConfig
from stream.config.sections.criteria import CompositeConfig
from stream.config.sections.detection import DetectionConfig
from stream.config.sections.judges import JudgesConfig
from stream.config.sections.kafka import OptionValue
from stream.config.sections.observability import ObjectivesConfig
from stream.kafka.options import find_option_problem
from stream.records.canaries import read_canaries
from stream.sampler.step_log import StepLogError, read_step_log
from stream.service.setup.criteria_files import read_criteria_files
from stream.worker.budget.limits import Budget, Budgets, shares
from stream.worker.budget.offset_note import MAX_BYTES, longest

Problems = Iterator[tuple[Loc, str]]


def check_config(data: Any) -> Config:
    """Validate the data and the files it names; raises ValidationError with all problems, each at its place."""
    return Config.model_validate(data, context=_Checks().by_place)


class _Checks:
    """The checks of one configuration; each criteria file is read once for all checks."""

    def __init__(self) -> None:
        self._read_criteria = functools.cache(read_criteria_files)
        self.by_place: Mapping[str, Check] = {
            "kafka.options": _check_options,
            "sampling.replay_steps": _check_step_log,
            "criteria.files": self._check_criteria_files,
            "criteria.use": self._check_criteria_names,
            "budgets.apps": _check_note_size,
            "judges": self._check_criteria_mentions,
            "composite": self._check_composite,
            "objectives": self._check_criteria_mentions,
            "detection": self._check_criteria_mentions,
            "detection.canaries.file": _check_canaries,
        }

    def _check_criteria_files(self, files: tuple[str, ...], _before: Mapping[str, Any]) -> Problems:
        return _catch_problems(lambda: self._read_criteria(files))

    def _check_criteria_names(self, use: tuple[str, ...], before: Mapping[str, Any]) -> Problems:
        """Check the names of criteria, unless the files are wrong: then the valid names are unknown."""
        if "files" in before:
            yield from _catch_problems(lambda: choose_criteria(use, self._read_criteria(before["files"])))

    def _check_criteria_mentions(
        self, section: JudgesConfig | ObjectivesConfig | DetectionConfig, before: Mapping[str, Any]
    ) -> Problems:
        """Find values about criteria that are not judged."""
        judged = self._find_judged_criteria(before)
        if judged is not None:
            yield from section.find_unknown_criteria(judged)

    def _check_composite(self, composite: CompositeConfig, before: Mapping[str, Any]) -> Problems:
        judged = self._find_judged_criteria(before)
        if judged is not None:
            yield from _catch_problems(lambda: compose_criteria(judged, composite))

    def _find_judged_criteria(self, before: Mapping[str, Any]) -> Mapping[str, Criterion] | None:
        """Return the criteria that are judged, or None if their section is wrong."""
        criteria = before.get("criteria")
        return None if criteria is None else choose_criteria(criteria.use, self._read_criteria(criteria.files))


def _check_options(options: Mapping[str, OptionValue], _before: Mapping[str, Any]) -> Problems:
    for name, value in options.items():
        if problem := find_option_problem(name, value):
            yield (name,), problem


def _check_step_log(file: str | None, _before: Mapping[str, Any]) -> Problems:
    if file is not None:
        try:
            read_step_log(Path(file))
        except StepLogError as error:
            yield (), str(error)


def _check_canaries(file: str, _before: Mapping[str, Any]) -> Problems:
    return _catch_problems(lambda: read_canaries(file))


def _check_note_size(apps: Mapping[str, AppBudgetConfig], before: Mapping[str, Any]) -> Problems:
    """Check that the note fits beside an offset in Kafka; a single partition has the largest amounts."""
    everyone = Budget(per_hour_usd=before.get("per_hour_usd"), per_day_usd=before.get("per_day_usd"))
    budgets = Budgets(everyone=everyone, apps={name: Budget.of(app) for name, app in apps.items()}, safety_share=0.0)
    size = longest(shares(budgets, 0, 1))
    if size > MAX_BYTES:
        yield (
            (),
            f"are too many: their spending is stored with the offsets and would take {size} of {MAX_BYTES} bytes; "
            "give fewer apps their own budget",
        )


def _catch_problems(attempt: Callable[[], object]) -> Problems:
    """Yield the problems that an attempt raises."""
    try:
        attempt()
    except InconsistentError as error:
        yield from error.found
