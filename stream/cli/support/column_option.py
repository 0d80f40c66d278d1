"""The option `--map FIELD=COLUMN`: columns of a file under other names than the fields of an interaction."""

from collections.abc import Callable
from typing import Any

import click

from judges.criteria.problems import unknown
from stream.jobs.evaluate.column_mapping import MAPPABLE


class _Mapped(click.ParamType):
    name = "field=column"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        field, equals, column = (part.strip() for part in str(value).partition("="))
        if not equals or not column or not all(column.split(".")):
            self.fail(f"{value!r} must be FIELD=COLUMN, such as question=prompt", param, ctx)
        if field not in MAPPABLE:
            self.fail(unknown("field", field, MAPPABLE), param, ctx)
        return field, column


def _no_field_twice(_ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, str]:
    fields = [field for field, _ in value]
    twice = next((field for field in fields if fields.count(field) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice} is mapped twice")
    return dict(value)


def map_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--map",
        "mapping",
        type=_Mapped(),
        metavar="FIELD=COLUMN",
        multiple=True,
        callback=_no_field_twice,
        help=help_text,
    )
