"""When a process is restarted, and when restarts end. The processes are scripted to end as a test says."""

import logging
from collections.abc import Sequence
from concurrent.futures import Future

import pytest
from prometheus_client import CollectorRegistry, Counter, Metric

from sinks.metrics.processes import RestartMetrics
from stream.errors import StageError
from stream.service.processes.slot import ProcessSlot, RestartPolicy
from stream.service.processes.worker_process import HealthAnswer, LastWords, Question

POLICY = RestartPolicy(first_seconds=1, longest_seconds=4, attempts=4, steady_seconds=60, silent_seconds=30)
LOOK_SECONDS = 0.5


class ScriptedChild:
    """A process that ends on request, and answers while it is `answering`."""

    pid = 1

    def __init__(self, health: HealthAnswer) -> None:
        self.health = health
        self.metrics: list[Metric] = []
        self.answering = True
        self.last_words: LastWords | None = None
        self.status: int | None = None
        self.was_stopped = False

    def end(self, status: int = 1, *, reason: str | None = None, is_final: bool = False) -> None:
        self.status = status
        self.last_words = None if reason is None else LastWords(reason=reason, is_final=is_final)

    def ask(self, question: Question) -> "Future[object]":
        answer: Future[object] = Future()
        if self.answering:
            answer.set_result(self.health if question is Question.HEALTH else self.metrics)
        return answer

    def stop(self) -> None:
        self.was_stopped = True

    def kill(self) -> None:
        self.status = -9

    def close(self) -> None:
        assert self.has_ended

    @property
    def has_ended(self) -> bool:
        return self.status is not None

    @property
    def ended_well(self) -> bool:
        return self.status == 0

    def reason(self) -> str:
        return self.last_words.reason if self.last_words is not None else f"status {self.status}"


class World:
    """A slot, its processes so far and a manual clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.health = HealthAnswer()
        """The health that new processes report."""
        self.started_at: list[float] = []
        self.children: list[ScriptedChild] = []
        self.registry = CollectorRegistry()
        self.slot = ProcessSlot("worker-1", self.launch, RestartMetrics(self.registry), POLICY, lambda: self.now)  # type: ignore[arg-type]
        self.slot.start()

    def launch(self) -> ScriptedChild:
        self.started_at.append(self.now)
        self.children.append(ScriptedChild(self.health))
        return self.children[-1]

    @property
    def child(self) -> ScriptedChild:
        return self.children[-1]

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / LOOK_SECONDS)):
            self.now += LOOK_SECONDS
            self.slot.look()

    def scrape(self) -> Sequence[Metric]:
        answer = self.slot.ask(Question.METRICS)
        assert answer is not None
        return self.slot.latest_metrics(answer)

    def restarts(self) -> float | None:
        return self.registry.get_sample_value("streamjury_process_restarts_total", {"process": "worker-1"})


@pytest.fixture
def world() -> World:
    return World()


def test_a_process_that_ended_is_restarted_after_a_growing_delay(world: World) -> None:
    waits = []
    for _ in range(POLICY.attempts - 1):
        world.pass_time(1)
        world.child.end(reason="out of luck")
        world.slot.look()
        ended_at = world.now
        world.pass_time(5)
        waits.append(world.started_at[-1] - ended_at)
    assert waits == [1, 2, 4]
    assert world.restarts() == POLICY.attempts - 1


def test_a_process_that_keeps_ending_at_startup_is_given_up_with_the_reason(world: World) -> None:
    for _ in range(POLICY.attempts - 1):
        world.child.end(reason="out of luck")
        world.pass_time(5)
    world.child.end(reason="out of luck")
    message = r"^worker-1 ended 4 times in a row soon after its start; last reason: out of luck$"
    with pytest.raises(StageError, match=message):
        world.slot.look()
    assert len(world.children) == POLICY.attempts


def test_failures_after_steady_work_are_not_added_up(world: World) -> None:
    for _ in range(3 * POLICY.attempts):
        world.pass_time(POLICY.steady_seconds + 1)
        world.child.end(-9)
        world.pass_time(2)
    assert world.restarts() == 3 * POLICY.attempts


def test_a_slow_start_that_fails_is_still_a_failed_start(world: World) -> None:
    """Imports and the wait for a topic can take more than a minute on a busy machine."""
    world.health = world.child.health = HealthAnswer(ready={"worker": "no partitions assigned"})
    for _ in range(POLICY.attempts - 1):
        world.pass_time(2 * POLICY.steady_seconds)
        world.child.end(reason="no such topic")
        world.pass_time(5)
    world.child.end(reason="no such topic")
    with pytest.raises(StageError, match="no such topic"):
        world.slot.look()


def test_a_final_reason_ends_the_worker_at_once_with_that_message(world: World) -> None:
    """The reason is a wrong setting, or another process that took over the name; a restart cannot help."""
    world.child.end(reason="judges.cache.path: no such folder", is_final=True)
    with pytest.raises(StageError, match=r"^judges\.cache\.path: no such folder$"):
        world.slot.look()
    assert len(world.children) == 1


def test_a_process_that_was_ended_by_sigterm_is_no_failure(world: World) -> None:
    for _ in range(3 * POLICY.attempts):
        world.child.end(0)
        world.pass_time(1)
    assert len(world.children) == 1 + 3 * POLICY.attempts


def test_a_process_that_stops_answering_is_killed_and_restarted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.pass_time(10)
    assert world.slot.ready() is None
    world.child.answering = False
    world.pass_time(12)
    assert world.slot.ready() is not None
    assert "no answer for 1" in world.slot.ready()
    assert world.slot.alive() is None
    with caplog.at_level(logging.WARNING):
        world.pass_time(30)
    assert world.children[0].status == -9
    assert len(world.children) == 2
    assert "worker-1 has not answered for 3" in caplog.text


def test_a_supervisor_that_was_suspended_does_not_blame_its_process(world: World) -> None:
    world.pass_time(10)
    world.now += 3600  # a paused container
    world.slot.look()
    world.pass_time(10)
    assert len(world.children) == 1
    assert world.slot.ready() is None


def test_a_process_that_is_still_importing_is_given_time(world: World) -> None:
    world.child.answering = False
    world.pass_time(10 * POLICY.silent_seconds)
    assert len(world.children) == 1
    assert world.slot.ready() == "starting"


def test_readiness_and_liveness_are_those_of_the_process(world: World) -> None:
    world.child.health = HealthAnswer(alive={"worker": "has not moved for 70 s"}, ready={"broker": "does not answer"})
    world.pass_time(1)
    assert world.slot.alive() == "worker: has not moved for 70 s"
    assert world.slot.ready() == "broker: does not answer"


def test_a_process_waiting_for_its_restart_is_alive_and_not_ready(world: World) -> None:
    world.pass_time(1)
    world.child.end(reason="out of luck")
    world.pass_time(0.5)
    assert world.slot.alive() is None
    assert world.slot.ready() == "starting again after: out of luck"


def test_a_process_that_answers_late_keeps_its_last_metrics(world: World) -> None:
    """If one scrape left them out, the next one would count the full value of its counters as an increase."""
    [counter] = Counter("streamjury_records", "Records.", registry=None).collect()
    world.child.metrics = [counter]
    assert world.scrape() == [counter]
    world.child.answering = False
    assert world.scrape() == [counter]
    world.child.end(reason="out of luck")
    world.pass_time(3)
    assert len(world.children) == 2
    world.child.answering = False
    assert world.scrape() == [], "the new process has no metrics yet"


def test_stopping_lets_a_working_process_finish_and_reports_one_that_could_not(world: World) -> None:
    world.pass_time(1)
    world.slot.stop()
    assert world.child.was_stopped
    assert world.slot.is_running
    world.child.end(reason="it did not stop in time")
    assert world.slot.close() == "worker-1: it did not stop in time"


def test_stopping_a_process_that_has_not_started_working_ends_it_without_a_failure(world: World) -> None:
    world.slot.stop()
    assert not world.slot.is_running
    assert world.slot.close() is None
