"""Judges lists of instances: turns them into cases, and returns the results in the same order."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from judges.criteria.criterion import Criterion
from judges.criteria.problems import check_count
from judges.runtime.gather import gather_all
from judges.runtime.sitting import SeatOrder, Sitting, sitting_for
from judges.values.interaction import Case, FieldValue, Interaction, case_of, language_of

Instance = str | Mapping[str, str | Sequence[str]] | Interaction | Case
"""A text to evaluate, its fields by name, or a whole interaction."""

R = TypeVar("R")

_INSTEAD = "pass Interaction(**record), or plain texts"


async def evaluate_all(
    judge: Callable[[Case, Criterion], Awaitable[R]],
    unusable: Callable[[str], R],
    instances: Sequence[Instance],
    criteria: Sequence[Criterion],
    concurrency: int,
    *,
    safety: str | None = None,
    is_reversed: SeatOrder | None = None,
) -> list[dict[str, R]]:
    """Judge every instance by every criterion, `concurrency` instances at a time.

    `safety` is the name of the safety criterion; `is_reversed` is given if a panel judges.
    """
    check_batch(instances, concurrency)
    if len({criterion.name for criterion in criteria}) != len(criteria):
        raise ValueError(f"criteria need distinct names, not {[criterion.name for criterion in criteria]}")
    slots = asyncio.Semaphore(concurrency)

    async def judge_instance(number: int, instance: Instance) -> dict[str, R]:
        async with slots:
            try:
                cases = {criterion.name: as_case(instance, criterion.to_evaluate, number) for criterion in criteria}
            except (TypeError, ValueError) as error:
                return {criterion.name: unusable(f"instance {number}: {error}") for criterion in criteria}
            with sitting_for(Sitting(criteria, safety=safety, is_reversed=is_reversed)):
                results = await gather_all([judge(cases[criterion.name], criterion) for criterion in criteria])
            return dict(zip(cases, results, strict=True))

    return await gather_all([judge_instance(number, instance) for number, instance in enumerate(instances)])


def check_batch(instances: object, concurrency: int) -> None:
    """Raise if this is not a list; iterating a single instance would yield its letters, keys or fields."""
    if isinstance(instances, str | bytes | Mapping | Interaction | Case):
        raise TypeError("instances must be a list; for one instance write [instance]")
    if not isinstance(instances, Iterable):
        raise TypeError(f"instances must be a list, not {type(instances).__name__}")
    check_count("concurrency", concurrency)


def as_case(instance: Instance, to_evaluate: str, number: int) -> Case:
    """Return the case of an instance; a bare text is the field under evaluation."""
    if isinstance(instance, Case):
        return instance
    if isinstance(instance, Interaction):
        return case_of(instance)
    if isinstance(instance, str):
        instance = {to_evaluate: instance}
    if not isinstance(instance, Mapping):
        raise TypeError(
            f"an instance must be a text, a mapping of fields or an interaction, not {type(instance).__name__}"
        )
    fields = {name: _field(name, value) for name, value in instance.items()}
    # As for an interaction, the question and the answer decide the language, not the documents.
    written = [fields[name] for name in ("question", to_evaluate) if name in fields] or fields.values()
    texts = (value if isinstance(value, str) else " ".join(value) for value in written)
    return Case(id=f"#{number}", fields=fields, language=language_of(" ".join(texts)))


def _field(name: object, value: object) -> FieldValue:
    if not isinstance(name, str):
        raise TypeError(f"names of fields must be text, not {name!r}")
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        raise TypeError(f"{name} is a mapping: {_INSTEAD}")
    if not isinstance(value, list | tuple):
        raise TypeError(f"field {name!r} must be a text or a list of texts, not {type(value).__name__}")
    for index, item in enumerate(value):
        if isinstance(item, Mapping):
            raise TypeError(f"{name}[{index}] is a mapping: {_INSTEAD}")
        if not isinstance(item, str):
            raise TypeError(f"{name}[{index}] must be a text, not {type(item).__name__}")
    return tuple(value)
