"""The section `page`."""

import re

from pydantic import Field, field_validator

from stream.config.section import Section
from stream.config.sections.observability import PositiveRate

_TRACE_URL = re.compile(r"https?://[A-Za-z0-9.:_\[\]-]+(/[!-~]*)?")


class PageConfig(Section):
    """The page in the browser, which the web server of `http` serves when the archive is on."""

    trace_url: str | None = Field(
        default=None,
        max_length=2048,
        description="Address of a trace, with {trace_id}; null: answers have no link to their trace.",
        examples=["https://traces.example.com/trace/{trace_id}"],
    )

    review_rate: PositiveRate = Field(
        default=0.05,
        description="Share of the evaluations that wait for review by people, chosen at random.",
    )

    @field_validator("trace_url")
    @classmethod
    def _check_trace_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        # The host must not contain the placeholder: a logged trace would choose where the link leads.
        if not _TRACE_URL.fullmatch(value):
            raise ValueError("must be an http or https URL without spaces, user or password")
        if "{trace_id}" not in value:
            raise ValueError("must contain {trace_id}")
        return value
