"""`streamjury worker --processes`: the number of processes to start."""

from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from stream.cli.commands import stages
from stream.cli.support.cluster import Cluster
from stream.config.model import Config
from stream.errors import StageError
from stream.service.processes.supervisor import Supervisor
from stream.service.service import Service


def cluster(**partitions: int) -> Cluster:
    counts = {f"rag.{name}": count for name, count in partitions.items()}
    return Cluster(admin=AdminClient({}), embedded=False, partitions=counts)


def config_with_concurrency(concurrency: int) -> Config:
    judge: dict[str, Any] = {"kind": "openai", "name": "m", "model": "m", "base_url": "http://localhost/v1"}
    return Config.model_validate({"judges": {"panel": [{**judge, "limits": {"concurrency": concurrency}}]}})


@pytest.fixture
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "cores", lambda: 8)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0", "0 is not in the range 1<=x<=256"),
        ("100000", "100000 is not in the range 1<=x<=256"),
        ("many", "'many' is not a valid integer range"),
    ],
)
def test_an_impossible_number_is_refused_before_anything_is_read(value: str, message: str) -> None:
    result = CliRunner().invoke(stages.worker, ["--processes", value])
    assert result.exit_code == 2
    assert message in result.stderr


def test_one_process_is_the_default_and_has_no_supervisor() -> None:
    [option] = [parameter for parameter in stages.worker.params if parameter.name == "processes"]
    assert option.default == 1
    assert isinstance(stages._runner(Config(), stages.Stage.WORKER, 1), Service)
    assert isinstance(stages._runner(Config(), stages.Stage.WORKER, 2), Supervisor)


@pytest.mark.usefixtures("_eight_cores")
@pytest.mark.parametrize(
    ("config", "partitions", "expected"),
    [
        (Config(), {"sampled": 24}, 8),
        (Config(), {"sampled": 6}, 6),
        (Config(), {}, 8),  # an embedded broker makes the topic on its first use
        (config_with_concurrency(3), {"sampled": 24}, 3),
        (config_with_concurrency(1), {"sampled": 24}, 1),
    ],
    ids=["cores", "partitions", "no topic yet", "limits", "one call at once"],
)
def test_auto_starts_no_process_that_would_have_no_work(
    config: Config, partitions: dict[str, int], expected: int
) -> None:
    assert stages._count_processes(config, cluster(**partitions), None) == expected


def test_a_given_number_is_kept_with_a_warning_if_some_processes_have_no_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert stages._count_processes(Config(), cluster(sampled=6), 6) == 6
    assert caplog.text == ""
    assert stages._count_processes(Config(), cluster(sampled=6), 8) == 8
    assert "rag.sampled has 6 partitions: 2 of 8 processes will have no work and never be ready" in caplog.text


def test_a_limit_that_cannot_be_divided_is_named() -> None:
    message = (
        r"^4 processes cannot share judges\.panel\[0\]\.limits\.concurrency, which is 2; start at most 2, or raise it$"
    )
    with pytest.raises(StageError, match=message):
        Supervisor(config_with_concurrency(2), 4)
