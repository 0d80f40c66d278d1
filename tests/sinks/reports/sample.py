"""Results of real judging: generated interactions, the local judge, and a second one that is paid, slow and moody."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator, Submission
from judges.judge import Judge
from judges.local import LocalJudge
from judges.panel import Panel
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Evaluation, JudgeVerdict, Reason, Samples, Sampling, Status, Tokens
from judges.values.interaction import Case, Interaction
from sinks.reports.results_schema import CriterionInfo, End, Row, RowError, Run
from stream.cli.demo import Regime, load_corpus, make_record

STARTED = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
COLUMNS = ("id", "Current User Question", "Conversation History", "Fragment Texts", "Assistant Answer")
CRITERIA = load_catalogue("rag")

_REGIMES = {
    Regime.HEALTHY: 0.66,
    Regime.HALLUCINATING: 0.12,
    Regime.VERBOSE: 0.08,
    Regime.OFF_TOPIC: 0.08,
    Regime.UNSAFE: 0.06,
}
_UNREADABLE = {7: "the column 'Assistant Answer' is empty", 19: "the row has 3 fields, and the header has 5"}


def interactions(count: int, *, seed: int = 1) -> list[Interaction]:
    """Return generated interactions, most of them answered well."""
    rng, corpus = Random(seed), load_corpus()
    regimes = rng.choices(tuple(_REGIMES), weights=tuple(_REGIMES.values()), k=count)
    records = (make_record(corpus, rng.choice(corpus.groups), regime, rng, STARTED) for regime in regimes)
    return [Interaction.model_validate_json(record.value) for record in records]


def second_judge(*, seed: int = 2) -> Judge:
    """Return a judge that costs money, is slow, gives feedback, and sometimes fails."""
    rng, local = Random(seed), LocalJudge()

    async def answer(case: Case, criterion: Criterion) -> Answer:
        if rng.random() < 0.02:
            return Reason.TIMEOUT
        local_verdict = await local.verdict(case, criterion, reverse=False)
        if local_verdict.level is None:
            return None
        moved = (
            local_verdict.level + rng.choice((0, 0, 0, 0, 1, -1))
            if criterion.name != SAFETY_DIMENSION
            else local_verdict.level
        )
        return _paid_verdict(case, criterion, max(0, min(len(criterion.scale.choices) - 1, moved)), rng)

    return ScriptedJudge(answer, name="careful")


def _paid_verdict(case: Case, criterion: Criterion, level: int, rng: Random) -> JudgeVerdict:
    choice = criterion.scale.choices[level]
    prompt = 400 + sum(map(len, case.text("answer").split())) // 4
    return JudgeVerdict(
        judge="careful",
        status=Status.SCORED,
        score=criterion.score(choice),
        level=level,
        option=choice.label.of(case.language),
        value=level,
        explanation=f"Of the scale the answer deserves {choice.label.of(case.language)!r}.",
        feedback="Say only what the contexts say." if level == 0 else None,
        samples=Samples(requested=3, valid=3),
        latency_ms=rng.lognormvariate(6.5, 0.5),
        tokens=Tokens(prompt=prompt, completion=60),
        cost_usd=prompt * 2.5e-6 + 60 * 1e-5,
    )


def judge_all(
    interactions_to_judge: Sequence[Interaction], *judges: Judge, probability: float = 1.0
) -> tuple[Evaluator, list[Evaluation]]:
    """Evaluate interactions with a panel of these judges, or with the local judge alone."""
    multi = MultiCriteria.of(CRITERIA, safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=judges or (LocalJudge(),), quorum=1), version="0.1.0")

    async def evaluate() -> list[Evaluation]:
        sampling = Sampling(probability=probability)
        submissions = (Submission(interaction=interaction, sampling=sampling) for interaction in interactions_to_judge)
        return [await evaluator.evaluate(submission, deadline=60.0, on_unsafe=_ignore) for submission in submissions]

    return evaluator, asyncio.run(evaluate())


def _ignore(_notice: object) -> None:
    """Ignore the notice."""


def run_of(evaluator: Evaluator, **more: Any) -> Run:
    parameters = {
        "config": {
            "judges": {"panel": [{"kind": "local", "name": "local"}], "combine": "mean"},
            "criteria": {"use": ["rag"]},
        },
        "concurrency": 64,
        "sample": 1.0,
        "seed": None,
    }
    basis: dict[str, Any] = {
        "name": "support-questions.csv",
        "input_digest": "sha256:6b1f0f2a5b",
        "started_at": STARTED,
        "evaluator": evaluator.info,
        "criteria": tuple(map(criterion_info, CRITERIA.values())),
        "parameters": parameters,
        "columns": COLUMNS,
    }
    return Run(**{**basis, **more})


def criterion_info(criterion: Criterion) -> CriterionInfo:
    return CriterionInfo(
        name=criterion.name,
        title=criterion.title.en,
        question=criterion.question.en,
        weight=1.0,
        bounds=criterion.scale.bounds,
        choices=tuple((choice.label.en, choice.value) for choice in criterion.worst_first),
        safety=criterion.name == SAFETY_DIMENSION,
    )


def source_of(interaction: Interaction) -> dict[str, str]:
    """Return an interaction as a row of a CSV file."""
    history = "\\n".join(f"{turn.role}: {turn.text}" for turn in interaction.history)
    contexts = "\\n".join(f"{number}. {context.text}" for number, context in enumerate(interaction.contexts, start=1))
    texts = (interaction.id, interaction.question, history, contexts, interaction.answer)
    return dict(zip(COLUMNS, texts, strict=True))


def rows_of(asked: Sequence[Interaction], evaluations: Sequence[Evaluation]) -> Iterator[Row]:
    """Yield rows in file order; some of the first ones could not be read."""
    for number, (interaction, evaluation) in enumerate(zip(asked, evaluations, strict=True), start=1):
        source = source_of(interaction)
        if number in _UNREADABLE:
            error = RowError(kind="invalid_row", message=_UNREADABLE[number])
            yield Row(row=number, source={**source, "Assistant Answer": ""}, error=error)
        else:
            yield Row(row=number, source=source, evaluation=evaluation, seconds=0.01)


def sample_results(path: Path, *judges: Judge, count: int = 60, finished: bool = True, seed: int = 1) -> Path:
    """Write the results of a run, with the rows in an order in which they might have finished."""
    asked = interactions(count, seed=seed)
    evaluator, evaluations = judge_all(asked, *judges)
    rows = list(rows_of(asked, evaluations))
    Random(seed).shuffle(rows)
    return write_results(path, run_of(evaluator), rows, finished=finished)


def write_results(path: Path, run: Run, rows: Iterable[Row], *, finished: bool = True) -> Path:
    """Write the results file of a run, row by row."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(run.model_dump_json() + "\n")
        for count, row in enumerate(rows, start=1):  # noqa: B007 counted for the end
            file.write(row.model_dump_json() + "\n")
        if finished:
            end = End(ended_at=STARTED + timedelta(seconds=42), rows=count, seconds=42.0)
            file.write(end.model_dump_json() + "\n")
    return path
