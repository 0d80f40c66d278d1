"""Divides a worker's configuration among its processes, so that together they keep to the limits of one worker."""

from judges.criteria.problems import path_text
from stream.config.judge_kinds.limits import divide
from stream.config.model import Config


def process_config(config: Config, number: int, *, processes: int) -> Config:
    """Return the configuration of one process; numbers begin at 1.

    Concurrent records and the limits of endpoints are divided. A fixed name gets the number as a suffix, because each
    process is a member of the group and has its own transactional id. Budgets are divided by partition already.
    """
    place = number - 1
    worker = config.worker.model_copy(
        update={
            "instance": None if config.worker.instance is None else f"{config.worker.instance}-{number}",
            "concurrency": divide(config.worker.concurrency, processes, place),
            "run_ahead": divide(config.worker.run_ahead, processes, place),
        }
    )
    judges = config.judges.model_copy(
        update={
            "panel": tuple(judge.divide_limits(processes, place) for judge in config.judges.panel),
            "reserves": tuple(judge.divide_limits(processes, place) for judge in config.judges.reserves),
        }
    )
    return config.model_copy(update={"worker": worker, "judges": judges})


def most_processes(config: Config) -> tuple[int, str]:
    """Return the most processes that can share the limits, and the key of the limit that allows no more."""
    limits = [(config.worker.concurrency, "worker.concurrency")]
    for place, model in config.judges.list_models():
        limits.append((model.limits.concurrency, path_text(("judges", *place, "limits", "concurrency"))))
    return min(limits)
