"""The section `archive`: evaluations and texts in an SQL database, for the page."""

import re
from typing import Literal
from urllib.parse import parse_qsl

from pydantic import Field, FiniteFloat, SecretStr, field_validator

from stream.config.section import Section
from stream.config.sections.stages import Identifier

_URL = re.compile(r"(sqlite:///|postgresql://)[!-~]*")
# As SQLAlchemy divides a URL: a password may have any character but `@`.
_PASSWORD = re.compile(r"postgresql://[^:/]*:[^@]*@")


class ArchiveConfig(Section):
    """The archive: evaluations, their texts, alerts and labels in an SQL database, for the page."""

    enabled: bool = Field(default=True, description="Whether `streamjury run` starts an archivist and the page.")
    url: str = Field(
        default="sqlite:///streamjury.db",
        max_length=4096,
        description="SQLite file (relative, or absolute after four slashes) or PostgreSQL database of the archive.",
        examples=["sqlite:////var/lib/streamjury/archive.db", "postgresql://streamjury@db.example.com/streamjury"],
    )
    password: SecretStr | None = Field(
        default=None, min_length=1, description="Password of the PostgreSQL user; write it as ${NAME}."
    )
    texts: Literal["full", "redacted", "none"] = Field(
        default="full",
        description="Texts to store: all, redacted as in prompts, or none (then also no excerpts or search).",
    )
    keep_days: FiniteFloat | None = Field(
        default=30.0, gt=0, le=36_500, description="Days after which rows are deleted; null: never."
    )
    group: Identifier = Field(
        default="streamjury-archivist",
        description="Consumer group that divides partitions among archivists; offsets are kept in the database.",
    )
    instance: Identifier | None = Field(
        default=None,
        description="Instance name kept across restarts, to get the partitions back at once; null: a generated name.",
    )
    stall_seconds: FiniteFloat = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="Exit when there are records but none was written for this long; 0: never.",
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if not _URL.fullmatch(value):
            raise ValueError("must begin with sqlite:/// or postgresql://, and have no spaces")
        if _has_password(value):
            raise ValueError("must not contain a password; use archive.password")
        if value in {"sqlite:///", "sqlite:///:memory:"}:
            raise ValueError("must name a file")
        return value


def _has_password(url: str) -> bool:
    parameters = parse_qsl(url.partition("?")[2], keep_blank_values=True)
    return _PASSWORD.match(url) is not None or any("password" in name.lower() for name, _value in parameters)
