"""The page about topics and records, written from the list of topics, the headers and the schemas of the records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sinks.topics.headers import HEADERS
from stream.cli.commands.schema import wire_schema
from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.config.sections.otlp import OtlpConfig
from stream.kafka.topics import TOPICS, TopicPlan, plan_topics

_HEAD = """\
# Topics and records

<!-- Written by `make reference`. -->

Records are JSON in UTF-8, times RFC 3339 in UTC. Fields that are not listed here are kept and passed on; they are never
an error. Names, partitions and retention are keys of [`topics`](../configuration.md#topics); `streamjury topics create`
creates the topics, and `streamjury schema interaction|evaluation|critical|alert|label` prints the JSON Schemas.
"""

_LINKS: Mapping[str, tuple[str, str]] = {
    "interactions": ("interactions", "#interaction"),
    "sampled": ("headers", "#headers"),
    "evaluations": ("evaluations", "#evaluation"),
    "critical": ("safety notices", "#safetynotice"),
    "deadletter": ("headers", "#headers"),
    "scores": ("detectors", "../detection.md"),
    "alerts": ("alerts", "#alert"),
    "labels": ("labels", "../labels.md"),
}
"""By topic: words in its row, and the place that they link to."""

_RECORDS: Mapping[str, str] = {
    "interaction": "The record that your service writes to `rag.interactions`. Three fields are required.",
    "evaluation": "A record on `rag.evaluations`. Every field is there, as null where there is no value.",
    "critical": "A record on `rag.critical`: the fields of an evaluation that are about its interaction, and these.",
    "alert": "A record on `rag.alerts`. All announcements of one alert have the same `alert_id`.",
    "label": "A record on `rag.labels`. A retraction is a record of its own; the label that it names no longer counts.",
}
"""By their names in `streamjury schema`: how the records are introduced."""


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_HEAD, _topics(), _making(), _waiting(), _headers(), *_records()])


# Topics

_ALL_TOPICS = Config(input=InputConfig(otlp=OtlpConfig()))


def _topics() -> str:
    rows = [
        [_name(role), *_linked(role, (topic.holds, topic.written_by, topic.read_by))] for role, topic in TOPICS.items()
    ]
    return _table(["topic", "holds", "written by", "read by"], rows)


def _name(role: str) -> str:
    """The name, or the names, that a topic has by default."""
    first, *others = (f"`{plan.name}`" for plan in plan_topics(_ALL_TOPICS) if plan.role == role)
    return f"{first} to {others[-1]}" if others else first


def _linked(role: str, cells: Iterable[str]) -> Iterator[str]:
    """The cells of a row, with a link where its words stand first."""
    words, target = _LINKS.get(role, (None, ""))
    for cell in cells:
        if words is not None and words in cell:
            yield cell.replace(words, f"[{words}]({target})", 1)
            words = None
        else:
            yield cell


def _making() -> str:
    plans = {plan.role: plan for plan in plan_topics(_ALL_TOPICS)}
    rows = [[_name(role), topic.key, *_settings(plans[role])] for role, topic in TOPICS.items()]
    return f"## How they are made\n\n{_table(['topic', 'key', 'kept', 'largest record'], rows)}"


def _settings(plan: TopicPlan) -> tuple[str, str]:
    settings = plan.settings
    size = settings.get("max.message.bytes")
    largest = f"{int(size) / 1024 / 1024:g} MiB" if size else "as the broker says"
    if settings["cleanup.policy"] == "compact":
        return "the newest of each key", largest
    if settings["retention.ms"] == "-1":
        return "for ever", largest
    return f"{int(settings['retention.ms']) // 86_400_000} days", largest


def _waiting() -> str:
    config = Config()
    minutes = ", ".join(f"{seconds / 60:g}" for seconds in config.worker.retry_seconds)
    return (
        f"By default every topic has {config.topics.partitions} partitions and {config.topics.replication} replica. "
        f"Records whose judges cannot be reached wait for {minutes} minutes on the retry topics "
        "([guarantees](../guarantees.md)).\n"
    )


def _headers() -> str:
    rows = [[f"`{name}`", *header] for name, header in HEADERS.items()]
    return f"## Headers\n\n{_table(['header', 'on', 'written by', 'read by', 'holds'], rows)}"


# Records


def _records() -> Iterator[str]:
    """Every record and every part of one, each where it first appears."""
    listed: set[str] = set()
    for record, introduction in _RECORDS.items():
        schema = wire_schema(record)
        definitions: dict[str, Any] = schema.get("$defs", {})
        yield _section(f"## {schema['title']}", introduction, _fields(record, schema))
        for name, definition in definitions.items():
            if "properties" in definition and name not in listed:
                listed.add(name)
                yield _section(f"### {name}", definition["description"], _rows(definition, definitions))


def _section(heading: str, introduction: str, rows: Sequence[list[str]]) -> str:
    return "\n\n".join([heading, introduction, _table(["field", "holds", "meaning"], rows)])


def _fields(record: str, schema: Mapping[str, Any]) -> list[list[str]]:
    """The fields of a record; of an interaction, which of them are required."""
    rows = _rows(schema, schema.get("$defs", {}))
    if record == "critical":
        shared = wire_schema("evaluation")["properties"]
        return [row for row in rows if row[0].strip("`") not in shared]
    if record == "interaction":
        required = {f"`{field}`" for field in schema["required"]}
        return [[field, f"{holds}, required" if field in required else holds, text] for field, holds, text in rows]
    return rows


def _rows(definition: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[list[str]]:
    return [
        [f"`{field}`", _takes(schema, definitions), schema["description"]]
        for field, schema in definition["properties"].items()
    ]


def _takes(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """The values of a field, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        definition = definitions[name]
        return f"[{name}](#{name.lower()})" if "properties" in definition else _takes(definition, definitions)
    if "anyOf" in schema:
        *first, last = dict.fromkeys(_takes(choice, definitions) for choice in schema["anyOf"])
        return f"{', '.join(first)} or {last}" if first else last
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return _plain(schema, definitions)


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    match schema["type"]:
        case "array":
            return f"list of {_takes(schema['items'], definitions)}"
        case "object":
            return f"names with {_takes(schema['additionalProperties'], definitions)}"
        case "string" if schema.get("format") == "date-time":
            return "time"
        case "number" if schema.get("maximum") == 1:
            return "number, 0 to 1"
    words = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false"}
    return words.get(schema["type"], str(schema["type"]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
