"""Failing judges are logged immediately and then once a minute, with the number of lost verdicts."""

import logging
import time
from datetime import UTC, datetime

import pytest

from judges.llm.completion import quote
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
    """A failure log, a manual clock and the logged lines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 1000.0
        self.failures = FailureLog()
        self._caplog = caplog
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def judge(self, *verdicts: JudgeVerdict) -> list[str]:
        """Note an evaluation with these verdicts and return the logged lines."""
        self.failures.note(evaluation(*verdicts))
        return self.write()

    def write(self, *, rest: bool = False) -> list[str]:
        self._caplog.clear()
        with self._caplog.at_level(logging.WARNING):
            self.failures.write(rest=rest)
        return [record.getMessage() for record in self._caplog.records]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> World:
    return World(monkeypatch, caplog)


def failed_verdict(
    reason: Reason = Reason.UNAVAILABLE, detail: str | None = "no connection", judge: str = "a"
) -> JudgeVerdict:
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


def test_the_first_failure_is_logged_at_once_and_further_ones_together_after_a_minute(world: World) -> None:
    assert world.judge(failed_verdict(), failed_verdict()) == [
        "judge a: judge_unavailable, 2 verdicts lost: no connection"
    ]
    world.now += 30
    assert world.judge(failed_verdict()) == []
    world.now += 31
    assert world.judge(failed_verdict(detail="wrong key")) == [
        "judge a: judge_unavailable, 2 verdicts lost in 61 s: wrong key"
    ]
    assert world.write() == []


def test_pending_failures_are_logged_after_their_minute_or_at_the_end(world: World) -> None:
    world.judge(failed_verdict())
    world.judge(failed_verdict())
    world.now += 60
    assert world.write() == ["judge a: judge_unavailable, 1 verdict lost in 60 s: no connection"]
    world.judge(failed_verdict())
    assert world.write() == []
    assert len(world.write(rest=True)) == 1
    assert world.write(rest=True) == []


def test_every_judge_and_every_reason_has_its_own_warning(world: World) -> None:
    lines = world.judge(failed_verdict(), failed_verdict(judge="b"), failed_verdict(Reason.TIMEOUT, None))
    assert lines == [
        "judge a: judge_unavailable, 1 verdict lost: no connection",
        "judge b: judge_unavailable, 1 verdict lost: no connection",
        "judge a: timeout, 1 verdict lost: no detail given",
    ]


@pytest.mark.parametrize("reason", [Reason.NO_MAJORITY, Reason.MISSING_FIELD, Reason.NOTHING_TO_JUDGE])
def test_a_working_judge_without_a_verdict_is_no_failure(world: World, reason: Reason) -> None:
    assert world.judge(failed_verdict(reason)) == []


def test_an_endpoint_cannot_forge_log_lines(world: World) -> None:
    [line] = world.judge(failed_verdict(detail="no\n12:00:00 ERROR all is lost \x1b[2J" + "x" * 1000))
    assert line.isprintable()
    assert len(line) < 400


@pytest.mark.parametrize(
    ("output", "logged"),
    [
        ("The user ann@example.com has HIV", '"…"'),
        ("The user ann@example.com has HIV, and this goes on and on: " + "word " * 20, '"…'),
        (["The", "user", "has", "HIV"], '["…", "…", "…", "…"]'),
        ({"user": {"has": "HIV"}}, '{"…": {"…": "…"}}'),
        ("219-09-9999", '"[SSN_1]"'),
        ("perhaps", '"perhaps"'),
        ('a"b c', '"…"'),
    ],
)
def test_a_log_line_quotes_at_most_a_word_of_an_output_and_no_personal_data(
    world: World, output: object, logged: str
) -> None:
    reason = f"the verdict {quote(output)} is not one of the labels"
    [line] = world.judge(failed_verdict(Reason.INVALID_OUTPUT, reason))
    assert line.startswith(f"judge a: invalid_output, 1 verdict lost: the verdict {logged}")
    assert "HIV" not in line


def test_the_error_of_an_endpoint_keeps_its_quotations(world: World) -> None:
    detail = 'judge.test answered 404: "no such model" {"code": "model not found"}'
    [line] = world.judge(failed_verdict(detail=detail))
    assert line.endswith(detail)
