"""The configuration model opens no files; the loader reads them and lists the problems of each."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream.config.model import Config
from stream.service.setup.config_file import ConfigError, load

ROOT = Path(__file__).parents[4]

# Sections that are valid except for their missing files.
MISSING: dict[str, Any] = {
    "sampling": {"target_per_minute": 10, "replay_steps": "no-steps.jsonl"},
    "criteria": {"files": ["no-criteria.yaml", "no-others.yaml"], "use": ["rag", "own_criterion"]},
    "composite": {"weights": {"own_criterion": 2.0}},
    "detection": {"targets": {"own_criterion": 0.9}, "canaries": {"file": "no-canaries.jsonl"}},
}
FILES = {
    "sampling.replay_steps": "cannot be read: no such file or directory",
    "criteria.files[0]": "no-criteria.yaml: cannot be read: no such file or directory",
    "criteria.files[1]": "no-others.yaml: cannot be read: no such file or directory",
    "detection.canaries.file": "no-canaries.jsonl: cannot be read: no such file or directory",
}


def problems(content: Any) -> dict[str, str]:
    Path("streamjury.yaml").write_text(json.dumps(content))
    with pytest.raises(ConfigError) as caught:
        load(Path("streamjury.yaml"), {})
    return {problem.path: problem.message for problem in caught.value.problems}


_listeners: list[Callable[[str], None]] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    # A hook cannot be removed, so it must cost nothing while no test listens.
    if _listeners and event in {"open", "os.listdir", "os.scandir"}:
        for listener in _listeners:
            listener(str(arguments[0]))


sys.addaudithook(_listen)


def list_opened_files(work: Callable[[], object]) -> list[str]:
    """Return the files that Python opens during this work."""
    opened: list[str] = []
    _listeners.append(opened.append)
    try:
        work()
    finally:
        _listeners.clear()
    return opened


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_model_opens_no_file() -> None:
    assert list_opened_files(lambda: Config.model_validate(MISSING)) == []
    config = Config.model_validate(MISSING)
    assert config.criteria.files == ("no-criteria.yaml", "no-others.yaml")
    assert config.sampling.replay_steps == "no-steps.jsonl"


def test_opened_files_are_detected() -> None:
    """Otherwise the test above could not fail."""
    Path("streamjury.yaml").write_text("{}")
    assert "streamjury.yaml" in list_opened_files(lambda: load(Path("streamjury.yaml"), {}))


def test_the_loader_lists_every_file_that_is_missing() -> None:
    assert problems(MISSING) == FILES


def test_invalid_values_do_not_hide_missing_files_even_in_the_same_section() -> None:
    wrong: dict[str, Any] = {
        "http": {"port": -1},
        "sampling": {**MISSING["sampling"], "salt": ""},
        "criteria": {**MISSING["criteria"], "colour": "red"},
        "detection": {**MISSING["detection"], "alpha": 7},
        "worker": {"concurrency": 0},
    }
    reported = problems({**MISSING, **wrong})
    assert FILES.items() <= reported.items()
    invalid_keys = {"http.port", "sampling.salt", "criteria.colour", "detection.alpha", "worker.concurrency"}
    assert reported.keys() == FILES.keys() | invalid_keys


def write_own_criterion() -> None:
    scale = {"range": {"min": 0, "max": 1}}
    criterion = {"name": "own_criterion", "title": "Own", "question": "Is it?", "scale": scale}
    Path("own.yaml").write_text(json.dumps({"criteria": [criterion]}))


def test_settings_about_criteria_are_checked_once_their_files_can_be_read() -> None:
    write_own_criterion()
    content = {
        "criteria": {"files": ["own.yaml"], "use": ["rag", "own_criterion"]},
        "composite": {"weights": {"own_criterion": 2.0, "own_criterium": 1.0}},
        "detection": {"targets": {"own_criterium": 0.9}},
        "objectives": {"floors": {"own_criterium": 0.5}},
    }
    message = "unknown criterion; did you mean 'own_criterion'?"
    assert problems(content) == {
        "composite.weights.own_criterium": message,
        "detection.targets.own_criterium": message,
        "objectives.floors.own_criterium": message,
    }


def test_a_file_of_criteria_is_read_once_for_all_checks_and_once_for_the_evaluator() -> None:
    write_own_criterion()
    Path("streamjury.yaml").write_text(json.dumps({"criteria": {"files": ["own.yaml"]}}))
    assert list_opened_files(lambda: load(Path("streamjury.yaml"), {})).count("own.yaml") == 2


# The arrows
