"""Synthetic evaluations with their interactions for benchmarks and tests of the archive, the same for every run.

The texts are those of the demonstration's corpus, in two languages. Every answer has its own id, and a word in its
question that no other has: `ref` and its number. The apps differ in quality, and one of them becomes worse in the last
quarter of the time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import msgspec

from judges.values.evaluation import evaluation_id
from judges.values.interaction import Interaction
from sinks.archive.database import Database
from sinks.archive.retention import Retention
from sinks.archive.writing import ArchiveBatch, ArchiveWriter
from sinks.base import SCHEMA, Headers
from sinks.topics.headers import LANE, PROBABILITY, RULE
from stream.archivist.rows import RowReader
from stream.cli.demo import MODELS, TENANTS, generate, load_corpus, plan
from stream.config.model import Config
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.records.envelope import evaluation_headers
from stream.records.identity import content_digest

CRITERIA = ("answer_relevance", "clarity", "completeness", "conciseness", "groundedness", "harmfulness")
JUDGES = ("local", "gpt")
FINGERPRINT = "5f0c1e9b7a3d2846"
START = datetime(2026, 3, 1, tzinfo=UTC)

_TEMPLATES = 200
_FILLED_AT_ONCE = 4_000
_PROBABILITIES = (1.0, 0.5, 0.25, 0.05)
_LANES = (("main", 0.93), ("safety", 0.04), ("canary", 0.02), ("backfill", 0.01))
_LEVELS = (("very low", 0.0), ("low", 0.25), ("fair", 0.5), ("high", 0.75), ("very high", 1.0))
# How often a judge chooses the best level, by the position of an app.
_QUALITY = (0.9, 0.8, 0.6, 0.95, 0.7)
_DROP_SHARE = 0.75
_DROPPED_QUALITY = 0.3
_NO_SAMPLES = {
    "requested": 1,
    "valid": 0,
    "invalid": 0,
    "error": 1,
    "saved": 0,
    "repairs": 0,
    "retries": 0,
    "shared": 0,
}
_ONE_SAMPLE = {**_NO_SAMPLES, "valid": 1, "error": 0}


class SyntheticAnswer(NamedTuple):
    """One judged answer: the record of the evaluations topic, and that of the queue with the texts."""

    evaluation_id: str
    interaction_id: str
    judged_at: datetime
    evaluation: bytes
    evaluation_headers: Headers
    interaction: bytes
    interaction_headers: Headers


def make_answers(
    count: int,
    *,
    seed: int = 7,
    start: datetime = START,
    period: timedelta = timedelta(days=1),
    judges: Sequence[str] = JUDGES,
) -> Iterator[SyntheticAnswer]:
    """Make answers that were judged at regular times from `start` on, over the period."""
    rng = Random(seed)
    templates = _load_templates(seed)
    apps = sorted({template["app"] for template in templates})
    for number in range(count):
        share = number / count
        template = rng.choice(templates)
        place = apps.index(template["app"])
        quality = _DROPPED_QUALITY if place == 0 and share >= _DROP_SHARE else _QUALITY[place % len(_QUALITY)]
        yield _make_answer(rng, template, number, start + period * share, quality, judges)


def records_of(answers: Iterable[SyntheticAnswer], config: Config) -> Iterator[Record]:
    """Yield the records of the answers as an archivist reads them, from one partition of each topic."""
    sampled, evaluations = Partition(config.topics.sampled, 0), Partition(config.topics.evaluations, 0)
    for offset, answer in enumerate(answers):
        key, written_at = answer.interaction_id.encode(), answer.judged_at.timestamp()
        yield Record(sampled, offset, key, answer.interaction, answer.interaction_headers, written_at=written_at)
        key = answer.evaluation_id.encode()
        yield Record(evaluations, offset, key, answer.evaluation, answer.evaluation_headers, written_at=written_at)


def fill_archive(database: Database, answers: Iterable[SyntheticAnswer], config: Config | None = None) -> int:
    """Write answers with their texts to an archive, without Kafka; return the number of new evaluations."""
    config = config or Config()
    reader, writer = RowReader(config), ArchiveWriter(database, Retention(None))
    records, written = records_of(answers, config), 0
    while chunk := list(islice(records, _FILLED_AT_ONCE)):
        batch = ArchiveBatch()
        for record in chunk:
            reader.add(record, batch)
        written += writer.write(batch).evaluations
    return written


def _load_templates(seed: int) -> list[dict[str, Any]]:
    traffic = generate(load_corpus(), plan("scenario", seconds=60.0), seed=seed)
    templates: list[dict[str, Any]] = []
    while len(templates) < _TEMPLATES:
        value = traffic.record(60.0 * len(templates) / _TEMPLATES, START).value
        try:
            document = msgspec.json.decode(value)
            Interaction.model_validate(document)
        except ValueError:
            continue  # the traffic has malformed records, too
        templates.append(document)
    return templates


def _make_answer(
    rng: Random, template: Mapping[str, Any], number: int, judged_at: datetime, quality: float, judges: Sequence[str]
) -> SyntheticAnswer:
    interaction = {
        **template,
        "id": f"answer-{number:08d}",
        "question": f"{template['question']} (ref{number})",
        "timestamp": judged_at.isoformat(),
        "tenant": rng.choice(TENANTS),
        "model": rng.choice(MODELS),
    }
    interaction.pop("candidates", None)
    judged = Interaction.model_validate(interaction)
    evaluation = _make_evaluation(rng, judged, judged_at, quality, judges)
    sampling = evaluation["sampling"]
    return SyntheticAnswer(
        evaluation_id=evaluation["evaluation_id"],
        interaction_id=judged.id,
        judged_at=judged_at,
        evaluation=msgspec.json.encode(evaluation),
        evaluation_headers=(SCHEMA, *evaluation_headers(content_digest(judged), None)),
        interaction=msgspec.json.encode(interaction),
        interaction_headers=(
            (PROBABILITY, repr(sampling["probability"]).encode()),
            (RULE, sampling["rule"].encode()),
            (LANE, sampling["lane"].encode()),
        ),
    )


def _make_evaluation(
    rng: Random, interaction: Interaction, judged_at: datetime, quality: float, judges: Sequence[str]
) -> dict[str, Any]:
    dimensions = {criterion: _make_dimension(rng, quality, judges, judged_at) for criterion in CRITERIA}
    scores = [dimension["score"] for dimension in dimensions.values() if dimension["score"] is not None]
    lane = rng.choices([name for name, _share in _LANES], [share for _name, share in _LANES])[0]
    is_complete = len(scores) >= len(CRITERIA) - 1
    return {
        "evaluation_id": evaluation_id(interaction.id, FINGERPRINT),
        "interaction_id": interaction.id,
        "app": interaction.app,
        "tenant": interaction.tenant,
        "model": interaction.model,
        "evaluator": {"fingerprint": FINGERPRINT, "criteria": CRITERIA, "judges": judges, "version": "0.1.0"},
        "sampling": {"probability": rng.choice(_PROBABILITIES), "rule": "default", "lane": lane},
        "tags": interaction.tags,
        "excerpt": {"question": interaction.question[:160], "answer": interaction.answer[:160]},
        "traceparent": f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01",
        "evaluated_at": judged_at,
        "dimensions": dimensions,
        "composite": {
            "score": sum(scores) / len(scores) if is_complete else None,
            "status": "ok" if is_complete else "incomplete",
            "coverage": len(scores) / len(CRITERIA),
            "safety": {"level": 2, "status": "safe"},
        },
        "truncated": [],
        "savings": [],
        "cost_usd": 0.0004 * len(judges),
        "latency_ms": rng.uniform(200.0, 3000.0),
    }


def _make_dimension(rng: Random, quality: float, judges: Sequence[str], judged_at: datetime) -> dict[str, Any]:
    verdicts = [_make_verdict(rng, judge, quality, judged_at) for judge in judges]
    scored = [verdict for verdict in verdicts if verdict["status"] == "scored"]
    shared: dict[str, Any] = {"path": None, "excluded": [], "calls_saved": 0, "detail": None, "effective_votes": None}
    if not scored:
        missing = dict.fromkeys(("score", "level", "option", "label", "value", "spread", "agreement", "votes_cast"))
        return {"status": "insufficient", "reason": "quorum_not_met", **missing, **shared, "judges": verdicts}
    lowest = min(scored, key=lambda verdict: float(verdict["score"]))
    values = [verdict["score"] for verdict in scored]
    several = len(scored) > 1
    return {
        "status": "scored",
        "score": sum(values) / len(values),
        **{name: lowest[name] for name in ("level", "option", "label", "value")},
        "reason": None,
        "spread": max(values) - min(values) if several else None,
        "agreement": float(len(set(values)) == 1) if several else None,
        "votes_cast": len(scored) if several else None,
        **shared,
        "judges": verdicts,
    }


def _make_verdict(rng: Random, judge: str, quality: float, judged_at: datetime) -> dict[str, Any]:
    rest = {
        "tie": False,
        "agreement": None,
        "votes_cast": None,
        "certainty": None,
        "feedback": None,
        "position_bias": None,
        "reversed": None,
        "asked_at": judged_at,
        "tokens": None if judge == "local" else {"prompt": rng.randrange(300, 2000), "completion": rng.randrange(200)},
        "cost_usd": None if judge == "local" else 0.0004,
        "cached": False,
        "redacted": {},
        "heavily_redacted": False,
        "suspect": False,
        "latency_ms": rng.lognormvariate(0.5, 0.5) if judge == "local" else rng.lognormvariate(6.5, 0.6),
    }
    if rng.random() < 0.02:
        missing = dict.fromkeys(("score", "level", "option", "label", "value"))
        failure = {"status": "insufficient", "reason": rng.choice(("timeout", "judge_unavailable")), "explanation": ""}
        return {"judge": judge, **failure, "detail": "no answer", **missing, "samples": _NO_SAMPLES, **rest}
    level = len(_LEVELS) - 1 if rng.random() < quality else rng.randrange(len(_LEVELS))
    option, score = _LEVELS[level]
    verdict = {"status": "scored", "score": score, "level": level, "option": option, "label": option, "value": level}
    why = {"explanation": f"The answer was rated {option} for what it says about the question.", "reason": None}
    return {"judge": judge, **verdict, **why, "detail": None, "samples": _ONE_SAMPLE, **rest}
