"""Checks what a configuration says about files, and the contents of those files, before anything starts.

The model checks shapes and opens no files. Here the files that it names are read, and what depends on them is checked:
criteria files and all that is said about criteria, a step log to replay, canaries, and whether budgets fit into the
note that is committed with an offset. librdkafka itself checks the options of its clients.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.criteria.criterion import Criterion
from judges.criteria.problems import InconsistentError, Loc
from stream.config.criteria import choose_criteria, composed
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
    """The data as a configuration whose files can be used; raises ValidationError with all problems, those with files
    and those with shapes alike, each at its place."""
    return Config.model_validate(data, context=_Checks().by_place)


class _Checks:
    """The checks of one reading; each file of criteria is read once for all of them."""

    def __init__(self) -> None:
        self._read_criteria = functools.cache(read_criteria_files)
        self.by_place: Mapping[str, Check] = {
            "kafka.options": _refused_options,
            "sampling.replay_steps": _unreadable_steps,
            "criteria.files": self._wrong_files,
            "criteria.use": self._unknown_names,
            "budgets.apps": _too_long_for_a_note,
            "judges": self._strangers,
            "composite": self._unfit_parts,
            "objectives": self._strangers,
            "detection": self._strangers,
            "detection.canaries.file": _wrong_canaries,
        }

    def _wrong_files(self, files: tuple[str, ...], _before: Mapping[str, Any]) -> Problems:
        return _raised(lambda: self._read_criteria(files))

    def _unknown_names(self, use: tuple[str, ...], before: Mapping[str, Any]) -> Problems:
        """Names that no criterion has; where the files are wrong nobody can say which names there are."""
        if "files" in before:
            yield from _raised(lambda: choose_criteria(use, self._read_criteria(before["files"])))

    def _strangers(
        self, section: JudgesConfig | ObjectivesConfig | DetectionConfig, before: Mapping[str, Any]
    ) -> Problems:
        """What is said about criteria that are not judged."""
        judged = self._judged(before)
        if judged is not None:
            yield from section.strangers(judged)

    def _unfit_parts(self, composite: CompositeConfig, before: Mapping[str, Any]) -> Problems:
        judged = self._judged(before)
        if judged is not None:
            yield from _raised(lambda: composed(judged, composite))

    def _judged(self, before: Mapping[str, Any]) -> Mapping[str, Criterion] | None:
        """The criteria that are judged; None where their section is wrong."""
        criteria = before.get("criteria")
        return None if criteria is None else choose_criteria(criteria.use, self._read_criteria(criteria.files))


def _refused_options(options: Mapping[str, OptionValue], _before: Mapping[str, Any]) -> Problems:
    for name, value in options.items():
        if problem := find_option_problem(name, value):
            yield (name,), problem


def _unreadable_steps(file: str | None, _before: Mapping[str, Any]) -> Problems:
    if file is not None:
        try:
            read_step_log(Path(file))
        except StepLogError as error:
            yield (), str(error)


def _wrong_canaries(file: str, _before: Mapping[str, Any]) -> Problems:
    return _raised(lambda: read_canaries(file))


def _too_long_for_a_note(apps: Mapping[str, AppBudgetConfig], before: Mapping[str, Any]) -> Problems:
    """Kafka keeps only so much with an offset; a single partition has the largest amounts."""
    everyone = Budget(per_hour_usd=before.get("per_hour_usd"), per_day_usd=before.get("per_day_usd"))
    budgets = Budgets(everyone=everyone, apps={name: Budget.of(app) for name, app in apps.items()}, safety_share=0.0)
    size = longest(shares(budgets, 0, 1))
    if size > MAX_BYTES:
        yield (
            (),
            f"are too many: their spending is stored with the offsets and would take {size} of {MAX_BYTES} bytes; "
            "give fewer apps their own budget",
        )


def _raised(attempt: Callable[[], object]) -> Problems:
    """The problems that an attempt ends with."""
    try:
        attempt()
    except InconsistentError as error:
        yield from error.found
