"""Texts of alerts: Prometheus templates with numbers and labels in them."""

from typing import NamedTuple

from sinks.metrics.promql import quote


class Words(NamedTuple):
    """A line, and what a person needs to know to begin."""

    summary: str
    description: str


def percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def if_one(singular: str, plural: str) -> str:
    """The word that goes with the alert's value."""
    return f'{{{{ if eq (printf "%.0f" $value) "1" }}}}{singular}{{{{ else }}}}{plural}{{{{ end }}}}'


def number(singular: str, plural: str | None = None) -> str:
    """The alert's value, as a number of something."""
    return f'{{{{ $value | printf "%.0f" }}}} {if_one(singular, plural or f"{singular}s")}'


def asked(expression: str) -> str:
    """What an expression is at the moment of the alert."""
    return f'{{{{ range query {quote(expression)} }}}}{{{{ .Value | printf "%.0f" }}}}{{{{ end }}}}'


def as_it_is(text: str) -> str:
    """Text of the configuration in a template, where it would be a command if it looked like one."""
    return text.replace("{{", '{{ "{{" }}')


def asked_of(expression: str, *labels: str) -> str:
    """A template's call for what an expression is at the moment of the alert; each %q in it is a label of the alert."""
    return f"printf {quote(expression)} {' '.join(f'$labels.{label}' for label in labels)} | query"


def first_value(form: str = "%.3f") -> str:
    """The number that a query in a `with` has found."""
    return f'{{{{ . | first | value | printf "{form}" }}}}'
