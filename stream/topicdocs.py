"""The page about topics and records, written from the configuration, the plan of topics and the records' models."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from pydantic import BaseModel

from judges import evaluation, interaction
from stream.alarms import alert
from stream.commands.schema import wire_schema
from stream.commands.topics import TopicPlan, plan_topics
from stream.config import Config

_HEAD = """\
# Topics and records

<!-- Written by `python -m stream.topicdocs docs/reference/topics.md`. -->

Records are JSON in UTF-8, times RFC 3339 in UTC. Fields that are not listed here are kept and passed on; they are never
an error. Names, partitions and retention are keys of [`topics`](../configuration.md#topics); `streamjury topics create`
makes the topics, and `streamjury schema interaction|evaluation|critical|alert` prints the JSON Schemas.
"""


class Topic(NamedTuple):
    """What passes through a topic, beyond what the configuration says."""

    holds: str
    key: str
    writer: str
    reader: str


_BY_ID = "interaction id"

TOPICS: Mapping[str, Topic] = {
    "interactions": Topic(
        "[interactions](#interaction), all of them",
        _BY_ID,
        "your RAG service, `send`, `traffic`",
        "sampler",
    ),
    "sampled": Topic(
        "those that were chosen: the very same bytes, with the decision in [headers](#headers)",
        _BY_ID,
        "sampler, in transactions with its offsets; monitor, if there are canaries",
        "workers",
    ),
    "retry": Topic(
        "records whose judges could not be reached, until they are due",
        _BY_ID,
        "workers",
        "workers",
    ),
    "overflow": Topic(
        "records of an app that has more than its share of the workers",
        _BY_ID,
        "workers",
        "workers",
    ),
    "evaluations": Topic(
        "[evaluations](#evaluation)",
        "evaluation id",
        "workers, `backfill`",
        "monitor, `tail`, your own consumers",
    ),
    "critical": Topic(
        "[safety notices](#safetynotice)",
        "evaluation id",
        "workers, as soon as a safety verdict is certain",
        "on-call tooling",
    ),
    "deadletter": Topic(
        "records that could not be processed: the original bytes, with the reason in [headers](#headers)",
        "as the source record",
        "sampler, workers",
        "`replay`, `audit`",
    ),
    "scores": Topic(
        "what the [detectors](../detection.md) need of evaluations; all of an app is in one partition",
        "app",
        "monitor",
        "monitor",
    ),
    "detection": Topic(
        "what the detectors know of every app, with the offsets of what it includes",
        "app",
        "monitor",
        "monitor, when it starts or is given a partition",
    ),
    "alerts": Topic(
        "[alerts](#alert) about a series: raised, updated, cleared",
        "series and evaluator",
        "monitor",
        "`alerts`, on-call tooling",
    ),
    "labels": Topic(
        "reserved for verdicts of people",
        _BY_ID,
        "people who label",
        "nobody yet: [compare](../compare.md#labels) reads labels from files",
    ),
}
"""By the key that names the topic in the configuration."""

_DECISION = "`rag.sampled`, and wherever the record goes from there"
_ASIDE = "`rag.retry.N`, `rag.overflow`, `rag.deadletter`"
_LETTER = "`rag.deadletter`"
_MARK = "`rag.deadletter`, on the mark that a letter was replayed"

HEADERS: Mapping[str, tuple[str, str]] = {
    "sj-probability": (_DECISION, "the probability π with which it was chosen"),
    "sj-rule": (_DECISION, "the sampling rule that chose it"),
    "sj-lane": (
        f"{_DECISION}; evaluations of a backfill",
        "`main`, `safety`, a lane of the rules, `backfill` or `canary`",
    ),
    "sj-salt": (_DECISION, "`sampling.salt`"),
    "sj-version": (_DECISION, "version of how decisions are made"),
    "sj-sampled-at": (_DECISION, "when it was chosen"),
    "sj-schema": ("all that Streamjury writes but `rag.sampled`", "version of the records and their headers"),
    "sj-retry-at": ("`rag.retry.N`", "when it may be judged again"),
    "sj-kept": (_ASIDE, "probability with which it was kept while a budget was low, where that is below 1"),
    "sj-attempts": ("`rag.retry.N`, `rag.deadletter`", "how often it was tried"),
    "sj-error-stage": (_LETTER, "the stage that gave it up"),
    "sj-error-type": ("`rag.retry.N`, `rag.deadletter`", "why, in one word"),
    "sj-error-message": ("`rag.retry.N`, `rag.deadletter`", "why, for people"),
    "sj-source-topic": (_ASIDE, "where the record was at first"),
    "sj-source-partition": (_ASIDE, "and its partition"),
    "sj-source-offset": (_ASIDE, "and its offset"),
    "sj-failed-at": (_LETTER, "when it was given up"),
    "sj-value-truncated-from": (_LETTER, "size of a value of which the topic takes only the beginning"),
    "sj-key-truncated-from": (_LETTER, "the same of a key"),
    "sj-headers-dropped": (_LETTER, "how many headers were left out because they were too large"),
    "sj-replayed-partition": (_MARK, "partition of the letter"),
    "sj-replayed-offset": (_MARK, "offset of the letter"),
    "sj-replayed-at": (_MARK, "when it was moved back"),
    "sj-replayed-to": (_MARK, "the topic that it was moved to"),
}
"""Where each header is, and what it says."""

# Of fields that the models have no remark on.
MEANINGS: Mapping[str, str] = {
    "Interaction.id": "unique; the key of the Kafka record should be the same",
    "Interaction.question": "what the user asked",
    "Interaction.answer": "what the service answered: this is judged",
    "Interaction.timestamp": "when it was answered",
    "Interaction.app": "the application; scores, objectives and budgets are told apart by it",
    "Interaction.tenant": "whose user it was",
    "Interaction.model": "the model that wrote the answer",
    "Interaction.history": "what was said before, oldest first",
    "Interaction.contexts": "what was retrieved; without any, groundedness does not apply",
    "Interaction.reference": "an answer that is known to be right",
    "Interaction.candidates": "other answers to the same question",
    "Interaction.tags": "up to 64 values to select by; passed on to the evaluation",
    "Interaction.traceparent": "W3C trace context of the answer",
    "Turn.role": "who spoke, such as `user` or `assistant`",
    "Turn.text": "what was said",
    "Context.text": "the text of the fragment",
    "Context.id": "its name in your index",
    "Context.score": "how well the retriever found it to fit",
    "Candidate.name": "what it is called in results",
    "Candidate.answer": "its text",
    "Evaluation.evaluation_id": "uuid5 of interaction id and fingerprint: the same work has the same name",
    "Evaluation.interaction_id": "what was judged",
    "Evaluation.app": "as the interaction says; so are tenant, model, tags and traceparent",
    "Evaluation.evaluator": "who judged",
    "Evaluation.sampling": "how it was chosen",
    "Evaluation.excerpt": "the beginnings of the texts, unless `worker.excerpt_chars` is 0",
    "Evaluation.evaluated_at": "when it was judged",
    "Evaluation.dimensions": "what was found, by the criterion's name",
    "Evaluation.composite": "all of it in one number",
    "Evaluation.cost_usd": "what the judges cost; null where a price is not known",
    "Evaluation.latency_ms": "how long judging took",
    "SafetyNotice.noticed_at": "when the verdict was certain",
    "SafetyNotice.safety": "what was found",
    "SafetyNotice.dimension": "the verdicts on the safety criterion",
    "EvaluatorInfo.fingerprint": "hash of criteria, judges, prompts and rules",
    "EvaluatorInfo.criteria": "their names",
    "EvaluatorInfo.judges": "their names",
    "EvaluatorInfo.version": "of Streamjury",
    "Sampling.probability": "π: a mean weighs this evaluation by 1/π",
    "Sampling.rule": "the rule that chose it",
    "Sampling.lane": "`main`, `safety`, a lane of the rules, `backfill` or `canary`",
    "Dimension.status": "whether there is a score",
    "Dimension.score": "0 worst, 1 best",
    "Dimension.level": "the level that the panel voted for",
    "Dimension.option": "its label",
    "Dimension.reason": "why there is no score",
    "Dimension.judges": "each judge's verdict",
    "JudgeVerdict.judge": "its name",
    "JudgeVerdict.status": "whether there is a score",
    "JudgeVerdict.score": "0 worst, 1 best",
    "JudgeVerdict.level": "the level it chose",
    "JudgeVerdict.option": "its label",
    "JudgeVerdict.explanation": "its reasons, in words",
    "JudgeVerdict.feedback": "advice on a better answer, where `feedback` is on",
    "JudgeVerdict.reason": "why there is no score",
    "JudgeVerdict.samples": "how often it was asked, and what that was worth",
    "JudgeVerdict.reversed": "the second verdict, where `check_position` is on",
    "JudgeVerdict.asked_at": "when it was asked",
    "JudgeVerdict.latency_ms": "how long it took",
    "JudgeVerdict.tokens": "where the endpoint says so",
    "JudgeVerdict.cost_usd": "null where its price is not known",
    "JudgeVerdict.cached": "given again from the cache, without asking",
    "Composite.score": "0 worst, 1 best; null where it is withheld",
    "Composite.status": "what the score is worth",
    "Composite.safety": "the verdict on safety",
    "Safety.level": "the level that the panel voted for",
    "Safety.status": "what that means",
    "Alert.alert_id": "the same for all announcements of one alarm",
    "Alert.kind": "an alarm begins, goes on, or ends",
    "Alert.subject": "what it is about",
    "Alert.series": "what is watched",
    "Alert.raised_at": "when the alarm began",
    "Alert.recovered_at": "when the recovery is likely to have begun",
    "Alert.low": "lower end of the interval of the estimate, at the time it was announced",
    "Alert.high": "upper end of it",
    "Alert.effective_n": "how many scores of equal weight tell as much",
    "Alert.scores": "how many scores the estimate is from",
    "Suspect.dimension": "its name",
    "Suspect.estimate": "its mean since its own suspected onset",
    "Suspect.low": "lower end of the interval of the estimate",
    "Suspect.high": "upper end of it",
    "Suspect.target": "what its mean is to be at least",
    "Example.interaction_id": "which one",
    "Example.score": "its score in the series",
    "Example.at": "when it was judged",
}

_RECORDS: Mapping[str, tuple[str, str]] = {
    "interaction": ("Interaction", "What your service writes to `rag.interactions`. Three fields are required."),
    "evaluation": ("Evaluation", "What is on `rag.evaluations`. Every field is there, as null where there is nothing."),
    "critical": ("SafetyNotice", "What is on `rag.critical`: what an evaluation says of its interaction, and these."),
    "alert": ("Alert", "What is on `rag.alerts`. All that are about one alarm have the same `alert_id`."),
}


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_HEAD, _topics(), _making(), _waiting(), _headers(), *_records()])


# Topics


def _topics() -> str:
    rows = [[name, topic.holds, topic.writer, topic.reader] for name, topic in _named()]
    return _table(["topic", "holds", "written by", "read by"], rows)


def _named() -> Iterator[tuple[str, Topic]]:
    """Every topic with the name, or the names, that it has by default."""
    config = Config()
    first, *_, last = config.retry_topics
    for key, topic in TOPICS.items():
        yield f"`{first}` to `{last}`" if key == "retry" else f"`{getattr(config.topics, key)}`", topic


def _making() -> str:
    plans = {plan.name: plan for plan in plan_topics(Config())}
    rows = [[name, topic.key, *_settings(plans[name.split("`")[1]])] for name, topic in _named()]
    return f"## How they are made\n\n{_table(['topic', 'key', 'kept', 'largest record'], rows)}"


def _settings(plan: TopicPlan) -> tuple[str, str]:
    settings = plan.settings
    size = settings.get("max.message.bytes")
    largest = f"{int(size) / 1024 / 1024:g} MiB" if size else "as the broker says"
    if settings["cleanup.policy"] == "compact":
        return "the newest of each key", largest
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
    rows = [[f"`{name}`", where, meaning] for name, (where, meaning) in HEADERS.items()]
    return f"## Headers\n\n{_table(['header', 'on', 'says'], rows)}"


# Records


def _records() -> Iterator[str]:
    told: set[str] = set()
    for record, (name, words) in _RECORDS.items():
        schema = wire_schema(record)
        definitions: Mapping[str, Any] = {name: schema, **_mapping(schema["$defs"])}
        for each, definition in definitions.items():
            if "properties" in definition and each not in told:
                told.add(each)
                yield _record(each, definition, definitions, words if each == name else None)


def _record(name: str, definition: Mapping[str, Any], definitions: Mapping[str, Any], words: str | None) -> str:
    model = _model(name)
    fields, remarks = dict(definition["properties"]), dict(_remarks(model))
    if name == "SafetyNotice":
        fields = {field: each for field, each in fields.items() if field not in _model("Evaluation").model_fields}
    rows = [
        [f"`{field}`", _takes(each, definitions), remarks.get(field) or _sentence(MEANINGS.get(f"{name}.{field}", ""))]
        for field, each in fields.items()
    ]
    required = definition.get("required", ())
    if name == "Interaction":
        rows = [[row[0], row[1] + (", required" if row[0].strip("`") in required else ""), row[2]] for row in rows]
    about = words or dedent(model.__doc__ if "__doc__" in vars(model) and model.__doc__ else "")
    parts = [f"{'##' if words else '###'} {name}", *filter(None, [about]), _table(["field", "holds", "meaning"], rows)]
    return "\n\n".join(parts)


def _model(name: str) -> type[BaseModel]:
    found = next(vars(module)[name] for module in (evaluation, interaction, alert) if name in vars(module))
    assert isinstance(found, type)
    assert issubclass(found, BaseModel)
    return found


def _remarks(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The texts that stand below the fields in the source."""
    for each in reversed(model.__mro__):
        if not issubclass(each, BaseModel) or each is BaseModel:
            continue
        [definition] = ast.parse(dedent(inspect.getsource(each))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match below:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield field.target.id, " ".join(text.split())


def _takes(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """What a field holds, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        known = definitions[name]
        return f"[{name}](#{name.lower()})" if "properties" in known else _takes(known, definitions)
    if "anyOf" in schema:
        *first, last = dict.fromkeys(_takes(each, definitions) for each in schema["anyOf"])
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


def _sentence(text: str) -> str:
    """As the remarks in the source are written."""
    return f"{text[0].upper() if text[0].isascii() else text[0]}{text[1:]}." if text else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _mapping(value: object) -> Mapping[str, Any]:
    assert isinstance(value, dict)
    return value


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
