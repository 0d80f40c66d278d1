"""Compiled rules: find the rule for a record, reading no more of it than the rules need."""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from stream.config.sections.sampling import RuleMatch
from stream.records.adapters.base import BodyPath
from stream.records.body import BodyReader, Getter
from stream.records.conditions import Condition, ConditionSpec, compile_condition
from stream.records.facts import LazyRecord

_SHOWN_CHARS = 60


_NAMES = ("app", "tenant", "model")


class Matcher:
    """The conditions of one rule, headers first: they are cheap to check."""

    def __init__(self, match: RuleMatch, reader: BodyReader) -> None:
        self._reader = reader
        self._headers = [(name, compile_condition(asked, as_text=True)) for name, asked in match.headers.items()]
        self._body = [
            (subject, getter, compile_condition(asked)) for subject, getter, asked in _body_conditions(match, reader)
        ]
        self._tests = [(getter, check.holds) for _, getter, check in self._body]
        self.reads_body = bool(self._body)

    @property
    def words(self) -> str:
        """All conditions: `app is shop; tag tier is gold`."""
        return "; ".join(f"{subject} {check.words}" for subject, check, _ in self._checks())

    def matches(self, facts: LazyRecord) -> bool:
        for name, check in self._headers:
            if not check.holds(facts.header(name)):
                return False
        if not self._tests:
            return True
        body = facts.body(self._reader)
        for getter, holds in self._tests:  # noqa: SIM110 - a generator would cost more than the checks
            if not holds(getter(body)):
                return False
        return True

    def failure(self, facts: LazyRecord) -> str | None:
        """Return the first unmet condition with the actual value, or None if all are met."""
        for subject, check, value_in in self._checks():
            value = value_in(facts)
            if not check.holds(value):
                return _describe_unmet(subject, check, value)
        return None

    def _checks(self) -> Iterator[tuple[str, Condition, Callable[[LazyRecord], object]]]:
        for name, check in self._headers:
            yield f"header {name}", check, partial(LazyRecord.header, name=name)
        for subject, getter, check in self._body:
            yield subject, check, partial(self._in_body, getter)

    def _in_body(self, getter: Getter, facts: LazyRecord) -> object:
        return getter(facts.body(self._reader))


def _body_conditions(match: RuleMatch, reader: BodyReader) -> Iterator[tuple[str, Getter, ConditionSpec]]:
    for name in _NAMES:
        asked = getattr(match, name)
        if asked is not None:
            yield name, reader.field_getter(name), asked
    for name, tag_asked in match.tags.items():
        yield f"tag {name}", reader.tag_getter(name), tag_asked
    for dotted, value_asked in match.body.items():
        yield dotted, reader.getter(BodyPath.parse(dotted)), value_asked


def fields_of_rule(match: RuleMatch) -> list[str]:
    """Return the fields of an interaction that a rule has conditions on."""
    return [name for name in (*_NAMES, "tags") if getattr(match, name)]


def _describe_unmet(subject: str, asked: Condition, value: object) -> str:
    if value is None:
        return f"{subject} is missing"  # so it does not have any other value either
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
    return f"{subject} {asked.unmet} (it is {text})"
