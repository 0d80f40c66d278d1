"""The section `input.otlp`: mistakes are listed by their paths."""

from typing import Any

import pytest
from pydantic import ValidationError

from stream.config.model import Config


@pytest.mark.parametrize(
    ("input_section", "path", "words"),
    [
        ({"otlp": {"quiet_seconds": 20, "max_seconds": 5}}, "input.otlp.max_seconds", "at least input.otlp.quiet"),
        ({"otlp": {"topics": []}}, "input.otlp.topics", "at least 1 item"),
        ({"otlp": {"topics": ["a", "a"]}}, "input.otlp.topics", "must not list a value twice"),
        ({"otlp": {"conventions": ["langfuse"]}}, "input.otlp.conventions.0", "gen_ai"),
        ({"otlp": {"attributes": {"tennant": "x"}}}, "input.otlp.attributes.tennant", "not permitted"),
        ({"otlp": {}, "adapter": "csv"}, "input.otlp", "requires 'adapter: streamjury'"),
    ],
)
def test_mistakes_are_listed_by_path(input_section: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Config.model_validate({"input": input_section})
    error = caught.value.errors()[0]
    assert ".".join(map(str, error["loc"])) == path
    assert words in error["msg"]


def test_an_empty_section_has_defaults() -> None:
    otlp = Config.model_validate({"input": {"otlp": {}}}).input.otlp
    assert otlp is not None
    assert (otlp.topics, otlp.quiet_seconds, otlp.max_seconds) == (("otlp_spans",), 10.0, 300.0)
    assert Config().input.otlp is None
