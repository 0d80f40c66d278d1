"""The section `archive`: which databases it accepts, and that no password is in a URL."""

import pytest
from pydantic import ValidationError

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
        ("postgresql://me@host/archive?password=open-sesame", "archive.password"),
    ],
)
def test_another_url_is_refused_and_not_repeated(url: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        Config.model_validate({"archive": {"url": url}})
    assert "open-sesame" not in str(caught.value)


def test_its_password_is_a_secret() -> None:
    config = Config.model_validate({"archive": {"password": "open-sesame"}})
    assert find_secrets(config) == {"open-sesame"}
    assert "open-sesame" not in repr(config)


@pytest.mark.parametrize("stage", ["sampler", "worker", "monitor"])
def test_no_stage_shares_its_group(stage: str) -> None:
    with pytest.raises(ValidationError, match=rf"must differ from {stage}\.group"):
        Config.model_validate({"archive": {"group": f"streamjury-{stage}"}})
