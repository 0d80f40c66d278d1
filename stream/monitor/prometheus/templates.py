"""Texts of alerts: Prometheus templates with numbers and labels in them."""

from typing import NamedTuple

from sinks.metrics.promql import quote


class Words(NamedTuple):
    """The summary of an alert, and a description with numbers."""

    summary: str
    description: str


def percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def if_one(singular: str, plural: str) -> str:
    """Choose the singular or plural by the alert's value."""
    return f'{{{{ if eq (printf "%.0f" $value) "1" }}}}{singular}{{{{ else }}}}{plural}{{{{ end }}}}'


def number(singular: str, plural: str | None = None) -> str:
    """Write the alert's value with a noun."""
    return f'{{{{ $value | printf "%.0f" }}}} {if_one(singular, plural or f"{singular}s")}'


def query_value(expression: str) -> str:
    """Insert the value of an expression at the time of the alert."""
    return f'{{{{ range query {quote(expression)} }}}}{{{{ .Value | printf "%.0f" }}}}{{{{ end }}}}'


def escape_template(text: str) -> str:
    """Escape text of the configuration, so that a template does not read it as a command."""
    return text.replace("{{", '{{ "{{" }}')


def query_call(expression: str, *labels: str) -> str:
    """Call `query` with an expression; each %q in it is replaced by a label of the alert."""
    return f"printf {quote(expression)} {' '.join(f'$labels.{label}' for label in labels)} | query"


def first_value(form: str = "%.3f") -> str:
    """Write the first result of the query of a `with`."""
    return f'{{{{ . | first | value | printf "{form}" }}}}'
