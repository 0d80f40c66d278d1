"""The section `page`, and the tokens in `http`: accepted and refused values."""

from typing import Any

import pytest
from pydantic import ValidationError

from stream.config.model import Config
from stream.config.secrets import find_secrets

LONG = "0123456789abcdef"


def read(**sections: Any) -> Config:
    return Config.model_validate(sections)


def test_tokens_have_names_and_roles_and_are_secrets() -> None:
    config = read(
        http={"tokens": [{"name": "anna", "token": LONG}, {"name": "ben", "role": "operator", "token": LONG[::-1]}]}
    )
    assert [(token.name, token.role) for token in config.http.tokens] == [("anna", "viewer"), ("ben", "operator")]
    assert {LONG, LONG[::-1]} <= find_secrets(config)
    assert LONG not in config.model_dump_json() + repr(config)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([{"name": "anna", "token": LONG[:-1]}], "at least 16"),
        ([{"name": "anna", "token": ""}], "at least 16"),
        ([{"name": "Anna B", "token": LONG}], "pattern"),
        ([{"name": "anna", "role": "admin", "token": LONG}], "'viewer', 'reviewer' or 'operator'"),
        ([{"name": "anna"}], "Field required"),
        ([{"name": "a", "token": LONG}, {"name": "a", "token": LONG[::-1]}], "must have different names"),
        ([{"name": "a", "token": LONG}, {"name": "b", "token": LONG}], "tokens must differ"),
    ],
)
def test_wrong_tokens_are_refused_without_repeating_them(tokens: list[dict[str, str]], message: str) -> None:
    with pytest.raises(ValidationError, match=message) as error:
        read(http={"tokens": tokens})
    assert LONG[:-1] not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://traces.example.com/trace/{trace_id}",
        "http://localhost:16686/trace/{trace_id}?uiFind=x#y",
        "https://[::1]:3000/explore?q={trace_id}",
    ],
)
def test_addresses_of_traces(url: str) -> None:
    assert read(page={"trace_url": url}).page.trace_url == url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://traces.example.com/", "must contain {trace_id}"),
        ("https://{trace_id}.example.com/", "must be an http or https URL"),
        ("javascript:alert({trace_id})", "must be an http or https URL"),
        ("https://user:password@example.com/{trace_id}", "must be an http or https URL"),
        ("https://example.com/a b{trace_id}", "must be an http or https URL"),
        ("/trace/{trace_id}", "must be an http or https URL"),
    ],
)
def test_other_addresses_are_refused(url: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read(page={"trace_url": url})
