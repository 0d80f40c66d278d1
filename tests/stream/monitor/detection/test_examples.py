"""The examples of docs/detection.md run and print what the page says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "detection.md"


def test_the_examples_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for code in blocks:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
    raised, is_raised, worse, is_worse = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"raised after \d+ scores: 0\.60, target 0\.85", raised)
    assert re.fullmatch(r"A is worse after \d+ scores", worse)
    assert (is_raised, is_worse) == ("True", "True")
