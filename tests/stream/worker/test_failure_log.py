"""Failures of judges are told at once, then once a minute, with what they cost; what is no failure is not told."""

import logging
import time
from datetime import UTC, datetime

import pytest

from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    JudgeVerdict,
    Reason,
    Safety,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
)
from stream.worker.failure_log import FailureLog


class World:
    """Failures, the clock they are told by, and what was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 1000.0
        self.failures = FailureLog()
        self._caplog = caplog
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def judged(self, *verdicts: JudgeVerdict) -> list[str]:
        """What is said after an evaluation with these verdicts."""
        self.failures.note(evaluation(*verdicts))
        return self.told()

    def told(self, *, rest: bool = False) -> list[str]:
        self._caplog.clear()
        with self._caplog.at_level(logging.WARNING):
            self.failures.write(rest=rest)
        return [record.getMessage() for record in self._caplog.records]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> World:
    return World(monkeypatch, caplog)


def failed(reason: Reason = Reason.UNAVAILABLE, detail: str | None = "no connection", judge: str = "a") -> JudgeVerdict:
    samples = Samples(requested=1, error=1)
    return JudgeVerdict(judge=judge, status=Status.INSUFFICIENT, reason=reason, detail=detail, samples=samples)


def evaluation(*verdicts: JudgeVerdict) -> Evaluation:
    safety = Safety(status=SafetyStatus.UNKNOWN)
    return Evaluation(
        evaluation_id="e",
        interaction_id="i",
        evaluator=EvaluatorInfo(fingerprint="f", criteria=(), judges=(), version="1"),
        sampling=Sampling(),
        evaluated_at=datetime(2026, 1, 1, tzinfo=UTC),
        dimensions={"clarity": Dimension(status=Status.INSUFFICIENT, judges=verdicts)},
        composite=Composite(score=None, status=CompositeStatus.SAFETY_UNKNOWN, coverage=0.0, safety=safety),
    )


def test_the_first_failure_is_told_at_once_and_the_next_after_a_minute_with_all_between(world: World) -> None:
    assert world.judged(failed(), failed()) == ["judge a: judge_unavailable, 2 verdicts lost: no connection"]
    world.now += 30
    assert world.judged(failed()) == []
    world.now += 31
    assert world.judged(failed(detail="wrong key")) == [
        "judge a: judge_unavailable, 2 verdicts lost in 61 s: wrong key"
    ]
    assert world.told() == []


def test_what_waits_is_told_when_its_minute_is_over_or_at_the_end(world: World) -> None:
    world.judged(failed())
    world.judged(failed())
    world.now += 60
    assert world.told() == ["judge a: judge_unavailable, 1 verdict lost in 60 s: no connection"]
    world.judged(failed())
    assert world.told() == []
    assert len(world.told(rest=True)) == 1
    assert world.told(rest=True) == []


def test_every_judge_and_every_reason_has_its_own_warning(world: World) -> None:
    told = world.judged(failed(), failed(judge="b"), failed(Reason.TIMEOUT, None))
    assert told == [
        "judge a: judge_unavailable, 1 verdict lost: no connection",
        "judge b: judge_unavailable, 1 verdict lost: no connection",
        "judge a: timeout, 1 verdict lost: no detail given",
    ]


@pytest.mark.parametrize("reason", [Reason.NO_MAJORITY, Reason.MISSING_FIELD, Reason.NOTHING_TO_JUDGE])
def test_a_judge_that_works_and_finds_nothing_is_no_failure(world: World, reason: Reason) -> None:
    assert world.judged(failed(reason)) == []


def test_an_endpoint_cannot_write_lines_of_its_own_into_the_log(world: World) -> None:
    [told] = world.judged(failed(detail="no\n12:00:00 ERROR all is lost \x1b[2J" + "x" * 1000))
    assert told.isprintable()
    assert len(told) < 400
