"""One logged interaction in the shape of the input topic, made from a group of the corpus."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random

from stream.cli.demo.corpus import CorpusPassage, QuestionGroup

MODELS = ("atlas-large-2", "atlas-mini-2", "boreal-8b")
TENANTS = ("alderbrook", "kestrel-retail", "nordwind", "zarya")

_SCORE_RANGE = (0.42, 0.96)


def build(
    group: QuestionGroup,
    answer: str,
    regime: str,
    rng: Random,
    now: datetime,
    *,
    passages: list[CorpusPassage] | None = None,
) -> dict[str, object]:
    """Return the fields of the record; values that are not arguments come from `rng`.

    `passages` are retrieved instead of those of the group.
    """
    return {
        "id": f"sj-{rng.getrandbits(64):016x}",
        "timestamp": _timestamp(now),
        "app": group.app,
        "tenant": rng.choice(TENANTS),
        "model": rng.choice(MODELS),
        "question": group.question,
        "history": [turn.model_dump() for turn in group.history],
        "contexts": _retrieve(passages or group.contexts, rng),
        "answer": answer,
        "tags": {"regime": regime, "language": group.language, "group": group.id},
        "traceparent": _traceparent(rng),
    }


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _timestamp(now: datetime) -> str:
    if now.tzinfo is None:
        raise ValueError("now: must have a time zone, because the wire format is UTC")
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _retrieve(passages: list[CorpusPassage], rng: Random) -> list[Mapping[str, object]]:
    """Return the passages as a retriever does: in random order, with falling scores."""
    order = rng.sample(passages, k=len(passages))
    scores = sorted((round(rng.uniform(*_SCORE_RANGE), 3) for _ in order), reverse=True)
    return [
        {"id": passage.id, "text": passage.text, "score": score} for passage, score in zip(order, scores, strict=True)
    ]


def _traceparent(rng: Random) -> str:
    # The specification forbids ids that are all zeros.
    trace_id = rng.randint(1, 2**128 - 1)
    parent_id = rng.randint(1, 2**64 - 1)
    return f"00-{trace_id:032x}-{parent_id:016x}-01"
