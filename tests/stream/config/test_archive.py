"""The section `archive`: which databases it accepts, and that no password is in a URL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from stream.config.model import Config
from stream.config.secrets import find_secrets


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///archive.db",
        "sqlite:////var/lib/archive.db",
        "postgresql://me@db.example.com:5432/archive?sslmode=verify-full",
        "postgresql://me@/archive?host=/run/postgresql",
    ],
)
def test_a_database_is_accepted(url: str) -> None:
    assert Config.model_validate({"archive": {"url": url}}).archive.url == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://host/archive", "must begin with"),
        ("archive.db", "must begin with"),
        ("sqlite:///my archive.db", "no spaces"),
        ("sqlite:///", "must name a file"),
        ("sqlite:///:memory:", "must name a file"),
        ("postgresql://me:open-sesame@host/archive", "archive.password"),
        ("postgresql://me:open/sesame@host/archive", "archive.password"),
        ("postgresql://me:open?sesame@host/archive", "archive.password"),
        ("postgresql://me@host/archive?password=open-sesame", "archive.password"),
        ("postgresql://me@host/archive?sslmode=require&PASSWORD=open-sesame", "archive.password"),
        ("postgresql://me@host/archive?sslpassword=open-sesame", "archive.password"),
        ("postgresql://me@host/archive?pass%77ord=open-sesame", "archive.password"),
    ],
)
def test_another_url_is_refused_and_not_repeated(url: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        Config.model_validate({"archive": {"url": url}})
    assert "open" not in str(caught.value)


@given(st.text("me:/?@&=%77password.", max_size=40))
def test_no_url_is_accepted_in_which_the_database_library_finds_a_password(rest: str) -> None:
    url = f"postgresql://{rest}"
    try:
        Config.model_validate({"archive": {"url": url}})
        parsed = make_url(url)
    except (ValidationError, ArgumentError, ValueError):
        return
    assert parsed.password is None
    assert not any("password" in name.lower() for name in parsed.query)


def test_its_password_is_a_secret() -> None:
    config = Config.model_validate({"archive": {"password": "open-sesame"}})
    assert find_secrets(config) == {"open-sesame"}
    assert "open-sesame" not in repr(config)


@pytest.mark.parametrize("stage", ["sampler", "worker", "monitor"])
def test_no_stage_shares_its_group(stage: str) -> None:
    with pytest.raises(ValidationError, match=rf"must differ from {stage}\.group"):
        Config.model_validate({"archive": {"group": f"streamjury-{stage}"}})
