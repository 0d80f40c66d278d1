"""The faults of the demo are diagnosed by the local judge: wrong documents as retrieval, inventions as generation."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from random import Random

import pytest

from judges.evaluator import Submission
from judges.values.diagnosis import DiagnosisCell, diagnose
from judges.values.evaluation import Sampling
from judges.values.interaction import Interaction
from stream.cli.demo import Regime, load_corpus, make_record
from stream.config.model import Config
from stream.service.setup.evaluator import build_evaluator

pytestmark = pytest.mark.slow

CORPUS = load_corpus()
NOW = datetime(2026, 11, 15, tzinfo=UTC)
ROUNDS = 3


def interactions(regime: Regime) -> list[Interaction]:
    records = (
        make_record(CORPUS, group, regime, Random(f"{group.id} {number}"), NOW)
        for number in range(ROUNDS)
        for group in CORPUS.groups
    )
    return [Interaction.model_validate_json(record.value) for record in records]


def count_cells(regime: Regime) -> Counter[DiagnosisCell | None]:
    evaluator = build_evaluator(Config())

    async def judge_all() -> Counter[DiagnosisCell | None]:
        cells: Counter[DiagnosisCell | None] = Counter()
        for interaction in interactions(regime):
            submission = Submission(interaction=interaction, sampling=Sampling())
            cells[diagnose(await evaluator.evaluate(submission, deadline=None, on_unsafe=lambda _: None))] += 1
        return cells

    return asyncio.run(judge_all())


@pytest.mark.parametrize(
    ("regime", "cell", "least"),
    [
        (Regime.BAD_RETRIEVAL, DiagnosisCell.RETRIEVAL, 0.9),
        (Regime.HALLUCINATING, DiagnosisCell.GENERATION, 0.9),
        (Regime.HEALTHY, DiagnosisCell.GOOD, 0.95),
    ],
)
def test_the_fault_of_a_regime_is_its_diagnosis(regime: Regime, cell: DiagnosisCell, least: float) -> None:
    cells = count_cells(regime)
    diagnosed = cells.total() - cells[None]
    assert cells[cell] >= least * diagnosed, cells
    # Only greetings and the like, whose answers claim nothing, have no diagnosis.
    smalltalk = sum(group.smalltalk for group in CORPUS.groups)
    assert cells[None] <= ROUNDS * smalltalk


def test_bad_retrieval_has_the_answer_of_its_question_and_documents_of_another_app() -> None:
    groups = {group.id: group for group in CORPUS.groups}
    for interaction in interactions(Regime.BAD_RETRIEVAL):
        group = groups[str(interaction.tags["group"])]
        assert group.answer in interaction.answer
        assert interaction.question == group.question
        own = {passage.id for passage in group.contexts}
        retrieved = {context.id for context in interaction.contexts}
        assert retrieved
        assert not own & retrieved


def test_the_answers_are_like_those_of_a_healthy_service() -> None:
    group = CORPUS.groups[0]
    records = [
        json.loads(make_record(CORPUS, group, regime, Random(5), NOW).value)
        for regime in (Regime.HEALTHY, Regime.BAD_RETRIEVAL)
    ]
    assert records[0]["answer"] == records[1]["answer"]
