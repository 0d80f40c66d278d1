"""The description of a model: all problems are listed by path, and nothing unusual is accepted."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judges.encoder import ModelDescription, ModelFileError, read_description
from judges.encoder.batches import bucket
from tests.parts.onnx_model import write_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path, {"word": (1.0,)})


def change(folder: Path, **changes: Any) -> list[str]:
    """Read the description with other values (None removes a key); return its problems."""
    file = folder / "model.yaml"
    data = {**yaml.safe_load(file.read_text(encoding="utf-8")), **changes}
    file.write_text(yaml.safe_dump({key: value for key, value in data.items() if value is not None}), encoding="utf-8")
    with pytest.raises(ModelFileError) as error:
        read_description(folder)
    assert error.value.file == file
    return [str(problem) for problem in error.value.problems]


def test_a_folder_and_its_file_mean_the_same(folder: Path) -> None:
    assert read_description(folder) == read_description(str(folder / "model.yaml"))
    assert isinstance(read_description(folder), ModelDescription)


def test_all_problems_are_listed_by_path(folder: Path) -> None:
    problems = change(
        folder,
        name=None,
        licence="",
        task="token",
        treshold=1,
        languages=["de"],
        model={"file": "../model.onnx", "sha256": "abc"},
        inputs={"window": 5, "windows": 5},
        thresholds=[1.5, "x"],
    )
    assert problems == [
        "name: is required",
        "licence: must not be empty",
        "task: must be 'tokens', 'pairs' or 'text', not 'token'",
        "languages: must be `any`, or a list of en and ru",
        "model.file: must be the name of a file beside this one",
        "model.sha256: must be 64 hexadecimal digits in lower case, as `sha256sum` prints them",
        "inputs.window: must be at least 32, not 5",
        "inputs.windows: unknown key; did you mean 'window'?",
        "treshold: unknown key; did you mean 'thresholds'?",
        "thresholds[0]: must be below 1",
        "thresholds[1]: must be a number, not 'x'",
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"thresholds": [0.2, 0.8]}, "thresholds: must fall from the worst level to the best, not [0.2, 0.8]"),
        ({"task": "pairs"}, "inputs.first: is required, unless the model has the layout of the shipped one"),
        ({"inputs": {"first": "{question}"}}, "inputs: must have {answer} in `first` or `second`"),
        ({"inputs": {"first": "{answr}"}}, "inputs.first: unknown field; did you mean 'answer'?"),
        ({"inputs": {"first": "{answer"}}, "inputs.first: has a single brace; write {{ or }} for a brace in the text"),
        (
            {"inputs": {"first": "{answer!r}"}},
            "inputs.first: must have plain fields, such as {answer}; write {{ for a brace",
        ),
        (
            {"inputs": {"window": 64, "answer": 60}},
            "inputs.answer: must leave at least 16 tokens of `window` for the rest",
        ),
        (
            {"output": {"labels": ["a", "b"], "failing": ["c"]}},
            "output.failing[0]: unknown label; expected one of: a, b",
        ),
        (
            {"output": {"labels": ["a"], "failing": ["a"]}},
            "output.activation: must be sigmoid for a single label: softmax would always be 1",
        ),
        ({"output": {"labels": ["a", "b"]}}, "output.failing: must be given, or else `passing`, but not both"),
        (
            {"output": {"labels": ["a", "b"], "failing": ["a"], "contradicting": ["b"]}},
            "output.contradicting[0]: must be one of `failing`",
        ),
        (
            {"tokenizer": {"file": "other.json", "sha256": "0" * 64}},
            "tokenizer.file: there is no other.json beside the description",
        ),
    ],
)
def test_values_that_contradict_each_other_are_found(folder: Path, changes: dict[str, Any], problem: str) -> None:
    assert problem in change(folder, **changes)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read: no such file or directory"):
        read_description(tmp_path / "nothing")


@given(st.lists(st.integers(1, 512)), st.integers(512, 4096), st.sampled_from([0.75, 1.0]))
def test_batches_stay_within_the_bound_and_hold_every_input_once(lengths: list[int], most: int, similar: float) -> None:
    batches = list(bucket(lengths, most, length=int, similar=similar))
    assert sorted(length for batch in batches for length in batch) == sorted(lengths)
    assert all(len(batch) * max(batch) <= most and min(batch) >= similar * max(batch) for batch in batches)
