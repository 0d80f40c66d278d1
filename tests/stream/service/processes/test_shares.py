"""How the configured limits are divided among the processes of a worker."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.config.judge_kinds.openai import OpenAIJudgeConfig
from stream.config.model import Config
from stream.service.processes.shares import most_processes, process_config
from stream.service.setup.evaluator import build_evaluator


def judge(name: str = "m", **limits: Any) -> dict[str, Any]:
    return {"kind": "openai", "name": name, "model": name, "base_url": f"http://{name}.example/v1", "limits": limits}


def all_configs(config: Config, processes: int) -> list[Config]:
    return [process_config(config, number, processes=processes) for number in range(1, processes + 1)]


def limits_of(config: Config) -> Any:
    [section] = config.judges.panel
    assert isinstance(section, OpenAIJudgeConfig)
    return section.limits


@given(
    processes=st.integers(1, 64),
    calls=st.integers(64, 4096),
    records=st.integers(64, 4096),
    ahead=st.integers(0, 10_000),
    rate=st.floats(1, 1e6),
)
def test_shares_add_up_to_the_limits_and_are_valid_settings_themselves(
    processes: int, calls: int, records: int, ahead: int, rate: float
) -> None:
    worker = {"concurrency": records, "run_ahead": records + ahead}
    limits = {"concurrency": calls, "requests_per_minute": rate, "tokens_per_minute": 2 * rate}
    config = Config.model_validate({"worker": worker, "judges": {"panel": [judge(**limits)]}})
    parts = all_configs(config, processes)
    assert sum(part.worker.concurrency for part in parts) == records
    assert sum(part.worker.run_ahead for part in parts) == records + ahead
    assert sum(limits_of(part).concurrency for part in parts) == calls
    assert sum(limits_of(part).requests_per_minute for part in parts) == pytest.approx(rate)
    assert sum(limits_of(part).tokens_per_minute for part in parts) == pytest.approx(2 * rate)
    for part in parts:
        assert Config.model_validate(part.model_dump()) == part


def test_unlimited_rates_stay_unlimited_and_other_limits_are_unchanged() -> None:
    config = Config.model_validate({"judges": {"panel": [judge(retries=5, hedge_seconds=2)]}})
    limits = limits_of(process_config(config, 1, processes=4))
    assert limits.requests_per_minute is None
    assert limits.tokens_per_minute is None
    assert (limits.retries, limits.hedge_seconds) == (5, 2)


def test_reserves_share_their_limits_too() -> None:
    judges = {"panel": [{"kind": "local", "name": "local"}], "reserves": [judge(concurrency=10)]}
    parts = all_configs(Config.model_validate({"judges": judges}), 3)
    assert [part.judges.reserves[0].asked_model.limits.concurrency for part in parts] == [4, 3, 3]  # type: ignore[union-attr]


def test_a_fixed_name_gets_a_suffix_for_each_process() -> None:
    """With a common name, each process would fence the previous one."""
    config = Config.model_validate({"worker": {"instance": "node-7"}})
    assert [part.worker.instance for part in all_configs(config, 2)] == ["node-7-1", "node-7-2"]
    assert process_config(Config(), 1, processes=2).worker.instance is None


def test_results_of_all_processes_are_comparable_with_those_of_one() -> None:
    config = Config.model_validate({"judges": {"panel": [judge()]}})
    fingerprints = {build_evaluator(part).info.fingerprint for part in [config, *all_configs(config, 3)]}
    assert len(fingerprints) == 1


def test_the_smallest_limit_is_the_maximum_number_of_processes() -> None:
    panel = [judge("a", concurrency=9), judge("b", concurrency=2)]
    assert most_processes(Config()) == (64, "worker.concurrency")
    config = Config.model_validate({"judges": {"panel": panel}})
    assert most_processes(config) == (2, "judges.panel[1].limits.concurrency")
