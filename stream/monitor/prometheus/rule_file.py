"""A rule file for Prometheus: its parts, and its YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

HEADER = (
    "# Recording rules and alerts of Streamjury, written by `streamjury rules`. Do not edit: change `objectives`, "
    "`alerts`,\n# `budgets` or `detection` in the configuration, and regenerate the file.\n"
)
_BREAKS = frozenset("\r\x85\u2028\u2029")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A series that Prometheus computes and keeps."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_yaml(self) -> dict[str, Any]:
        return _drop_empty({"record": self.record, "expr": self.expr, "labels": dict(self.labels)})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """An alerting rule."""

    name: str
    expr: str
    hold: str | None = None
    """How long the condition must hold before the alert fires."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    def as_yaml(self) -> dict[str, Any]:
        return _drop_empty(
            {
                "alert": self.name,
                "expr": self.expr,
                "for": self.hold,
                "labels": dict(self.labels),
                "annotations": dict(self.annotations),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup:
    """Rules that are evaluated in order, so that each sees the series recorded before it."""

    name: str
    interval: str
    rules: Sequence[Recording | AlertRule]

    def as_yaml(self) -> dict[str, Any]:
        return {"name": self.name, "interval": self.interval, "rules": [rule.as_yaml() for rule in self.rules]}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """All rules, and notes about those that were left out."""

    groups: Sequence[RuleGroup]
    notes: Sequence[str] = ()

    @property
    def alerts(self) -> list[AlertRule]:
        return [rule for group in self.groups for rule in group.rules if isinstance(rule, AlertRule)]

    @property
    def recordings(self) -> list[Recording]:
        return [rule for group in self.groups for rule in group.rules if isinstance(rule, Recording)]

    def text(self) -> str:
        groups = {"groups": [group.as_yaml() for group in self.groups]}
        body = yaml.dump(groups, Dumper=_RuleDumper, sort_keys=False, allow_unicode=True, width=10_000)
        return f"{HEADER}{body}"


class _RuleDumper(yaml.SafeDumper):
    """Writes expressions of several lines as blocks, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Line breaks other than \n would become spaces or \n unless they are escaped.
    style = '"' if _BREAKS.intersection(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_RuleDumper.add_representer(str, _represent_text)


def _drop_empty(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if value}
