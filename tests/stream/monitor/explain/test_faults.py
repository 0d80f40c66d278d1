"""Faults: a drop is in retrieval if contexts became worse, and in generation if answers became worse on good ones."""

import random
from collections.abc import Iterator
from datetime import timedelta

import pytest

from judges.values.diagnosis import DiagnosisCell
from judges.values.evaluation import Evaluation
from stream.monitor.explain import explain, text
from stream.monitor.explain.faults import FaultFinding
from tests.stream.monitor.explain.invented import ONSET, alert, evaluation, tally_changes

BEFORE, SINCE = 300, 150


def traffic(*, sufficient: float, grounded: float, tenant: str | None = None, seed: int = 1) -> Iterator[Evaluation]:
    """Yield evaluations that are nearly all good before the onset.

    Since it, for one tenant or all, contexts suffice and answers on sufficient contexts are grounded with these
    probabilities. Answers on other contexts are not grounded.
    """
    rng = random.Random(seed)
    for number in range(BEFORE + SINCE):
        own = rng.choice(("acme", "globex"))
        is_bad = number >= BEFORE and tenant in {None, own}
        suffices = rng.random() < (sufficient if is_bad else 0.95)
        is_grounded = suffices and rng.random() < (grounded if is_bad else 0.95)
        yield evaluation(
            {"context_sufficiency": float(suffices), "groundedness": float(is_grounded)},
            evaluated_at=ONSET + timedelta(seconds=number - BEFORE),
            tenant=own,
            name=f"f-{seed}-{number}",
        )


def fault_of(evaluations: Iterator[Evaluation]) -> tuple[FaultFinding, list[str], list[str]]:
    explanation = explain(tally_changes(evaluations))
    assert explanation.fault is not None
    findings = list(text.findings(alert(), explanation, ("before", "since")))
    return explanation.fault, findings, list(text.next_steps(alert(), explanation, "runbook"))


def test_worse_contexts_are_a_fault_of_retrieval() -> None:
    fault, findings, steps = fault_of(traffic(sufficient=0.4, grounded=0.95))
    assert (fault.is_retrieval, fault.is_generation) == (True, False)
    [line] = [line for line in findings if "retrieval" in line]
    assert line.startswith("The fall is in retrieval: sufficiency of the contexts fell from 0.9")
    assert "groundedness given sufficient contexts did not fall with 95 % confidence (0.9" in line
    assert steps[0].startswith("The contexts became worse: check retrieval: the index")


def test_worse_answers_on_good_contexts_are_a_fault_of_generation() -> None:
    fault, findings, steps = fault_of(traffic(sufficient=0.95, grounded=0.4))
    assert (fault.is_retrieval, fault.is_generation) == (False, True)
    assert any(line.startswith("The fall is in generation: groundedness given sufficient") for line in findings)
    assert steps[0] == "Answers became worse although their contexts suffice: check the prompt and the model."


def test_both_are_named() -> None:
    fault, findings, _steps = fault_of(traffic(sufficient=0.5, grounded=0.4))
    assert (fault.is_retrieval, fault.is_generation) == (True, True)
    assert any(line.startswith("The fall is in retrieval and in generation: ") for line in findings)


def test_the_slice_behind_the_fall_is_named() -> None:
    fault, findings, _steps = fault_of(traffic(sufficient=0.2, grounded=0.95, tenant="acme"))
    assert fault.part == ("tenant", "acme")
    assert any(line.startswith("The fall is in retrieval for tenant acme: ") for line in findings)


def test_the_shares_of_the_diagnoses_are_shown_on_both_sides() -> None:
    explanation = explain(tally_changes(traffic(sufficient=0.0, grounded=1.0)))
    assert explanation.fault is not None
    shares = explanation.fault.shares
    assert shares[DiagnosisCell.RETRIEVAL][1] == 1.0
    assert sum(share[0] or 0.0 for share in shares.values()) == pytest.approx(1.0)
    # No context suffices any more, so groundedness on sufficient ones cannot be compared.
    findings = list(text.findings(alert(), explanation, ("before", "since")))
    assert any("groundedness given sufficient contexts cannot be compared (" in line for line in findings)
    [sheet] = [
        sheet for sheet in text.sheets_of(alert(), explanation, ("before", "since")) if sheet.title == "Diagnoses"
    ]
    assert sheet.rows[-1][0] == "retrieval"
    assert sheet.rows[-1][2] == "100 %"


def test_evaluations_of_an_earlier_version_have_no_fault() -> None:
    records = [
        evaluation({"groundedness": float(number < BEFORE)}, evaluated_at=ONSET + timedelta(seconds=number - BEFORE))
        for number in range(BEFORE + SINCE)
    ]
    explanation = explain(tally_changes(records))
    assert explanation.fault is None
    findings = list(text.findings(alert(), explanation, ("before", "since")))
    assert not any("retrieval" in line for line in findings)
