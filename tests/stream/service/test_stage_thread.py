"""The watchdog: when a stage counts as stuck, exceptions to that, and that its service really ends."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.metrics import Stage
from sinks.web.health import Health
from stream.config.model import Config
from stream.errors import StageError
from stream.kafka.embedded import EmbeddedBroker
from stream.service import service, stage_thread
from stream.service.service import Service
from stream.service.stage_thread import Pulse, Runnable, StageThread, Watchdog
from tests.parts.patience import patience

SECONDS = 100.0
LOOK = 1.0


class StageDouble:
    """A stage with a manual pulse, whose thread does what the test says."""

    problem: str | None = None
    assigned = True

    def __init__(self, stage: Stage = Stage.WORKER, hang: threading.Event | None = None) -> None:
        self.stage = stage
        self.moved_at = 0.0
        self.backlog = 0
        self.done = 0
        self._hang = hang

    @property
    def pulse(self) -> Pulse:
        return self

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.moved_at = time.monotonic()
            stop.wait(0.01)
            if self._hang is not None:
                self._hang.wait()


class Scene:
    """A watchdog with its stage and a manual clock."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.now = 1000.0
        self.answers = True
        self.stage = StageDouble()
        self.watchdog = Watchdog(self.stage, seconds, lambda: self.answers, lambda: self.now)

    def wait(self, seconds: float, *, moving: bool = True, finishing: bool = False) -> str | None:
        """Check every second, as a service does, and return the last problem."""
        problem = None
        for _ in range(int(seconds / LOOK)):
            self.now += LOOK
            if moving:
                self.stage.moved_at = self.now
            if finishing:
                self.stage.done += 1
            problem = self.watchdog.look()
        return problem


@pytest.fixture
def scene() -> Scene:
    new_scene = Scene()
    new_scene.stage.backlog = 7
    return new_scene


def test_a_stage_that_finishes_no_waiting_record_is_stuck_exactly_after_its_time(scene: Scene) -> None:
    assert scene.wait(SECONDS) is None
    assert scene.wait(1) == "7 records waiting and none finished for 101 s"


def test_a_finished_record_restarts_the_time(scene: Scene) -> None:
    scene.wait(SECONDS - 1)
    assert scene.wait(1, finishing=True) is None
    assert scene.wait(SECONDS) is None
    assert scene.wait(1) is not None


def test_a_stage_that_finishes_records_is_not_stuck_whatever_the_backlog(scene: Scene) -> None:
    scene.stage.backlog = 1_000_000
    assert scene.wait(10 * SECONDS, finishing=True) is None


def test_a_stage_without_work_may_be_idle(scene: Scene) -> None:
    scene.stage.backlog = 0
    assert scene.wait(10 * SECONDS) is None
    scene.stage.backlog = 1
    assert scene.wait(SECONDS) is None
    assert scene.wait(1) == "1 records waiting and none finished for 101 s"


def test_a_stage_without_partitions_may_be_idle(scene: Scene) -> None:
    scene.stage.assigned = False
    assert scene.wait(10 * SECONDS) is None


def test_time_does_not_count_while_the_broker_does_not_answer(scene: Scene) -> None:
    scene.wait(SECONDS - 10)
    scene.answers = False
    assert scene.wait(10 * SECONDS) is None
    assert scene.wait(10 * SECONDS, moving=False) is None
    scene.answers = True
    assert scene.wait(10) is None
    assert scene.wait(1) is not None


def test_time_does_not_count_while_the_stage_reports_a_problem(scene: Scene) -> None:
    scene.wait(SECONDS - 10)
    scene.stage.problem = "cannot publish"
    assert scene.wait(10 * SECONDS) is None
    scene.stage.problem = None
    assert scene.wait(10) is None
    assert scene.wait(1) is not None


def test_a_thread_without_progress_is_stuck_whatever_it_last_reported(scene: Scene) -> None:
    scene.stage.backlog, scene.stage.problem, scene.stage.assigned = 0, "cannot publish", False
    scene.wait(10)
    assert scene.wait(SECONDS, moving=False) is None
    assert scene.wait(1, moving=False) == "no progress for 101 s"


def test_a_thread_may_be_silent_for_the_duration_of_a_rebalance() -> None:
    scene = Scene(seconds=5)
    assert scene.wait(stage_thread._STALL_SECONDS, moving=False) is None
    assert scene.wait(1, moving=False) is not None


def test_zero_disables_the_watchdog() -> None:
    scene = Scene(seconds=0)
    scene.stage.backlog = 7
    assert scene.wait(1000, moving=False) is None


def test_a_process_that_was_suspended_does_not_blame_its_stage(scene: Scene) -> None:
    scene.wait(10)
    scene.now += 100 * SECONDS
    assert scene.watchdog.look() is None
    assert scene.wait(SECONDS - 20, moving=False) is None


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([True, True, False]),
            st.sampled_from([0, 0, 0, 1]),
            st.sampled_from([0, 3, 5]),
            st.sampled_from([True, True, False]),
            st.sampled_from([True, True, False]),
            st.floats(0, 60),
        ),
        max_size=60,
    )
)
def test_no_stage_is_stuck_before_its_time(steps: list[tuple[bool, int, int, bool, bool, float]]) -> None:
    scene = Scene(seconds=8)
    idle_since = silent_since = scene.now
    for moves, finished, backlog, assigned, answers, elapsed in steps:
        scene.now += elapsed
        scene.stage.backlog, scene.stage.assigned, scene.answers = backlog, assigned, answers
        scene.stage.done += finished
        if moves:
            scene.stage.moved_at = silent_since = scene.now
        if finished or not backlog or not assigned:
            idle_since = scene.now
        if scene.watchdog.look() is not None:
            assert scene.now - idle_since > 8 or scene.now - silent_since > stage_thread._STALL_SECONDS


# Services with real threads and a real broker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


def service_with(stage: Runnable, broker: EmbeddedBroker, **sections: object) -> Service:
    new_service = Service(
        Config.model_validate({"kafka": {"bootstrap": broker.bootstrap}, "http": {"port": 0}, **sections}), []
    )
    new_service._stages = [stage]
    return new_service


def run_for(running: Service, seconds: float) -> None:
    with running:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            running.check()
            time.sleep(0.02)


def test_a_service_ends_when_its_worker_finishes_no_record(broker: EmbeddedBroker) -> None:
    stage = StageDouble()
    stage.backlog = 12
    start = time.monotonic()
    with pytest.raises(StageError) as raised:
        run_for(service_with(stage, broker, worker={"stall_seconds": 1, "deadline_seconds": 0.5}), 15 * patience())
    # On a busy machine it takes longer until somebody looks.
    assert re.fullmatch(
        r"worker is stuck: 12 records waiting and none finished for \d+ s; exiting so that the supervisor restarts it",
        str(raised.value),
    )
    assert time.monotonic() - start < 8 * patience()  # the stage stopped when asked to


@pytest.mark.parametrize(
    ("stage", "section", "ends"),
    [
        (Stage.WORKER, "worker", True),
        (Stage.WORKER, "monitor", False),
        (Stage.MONITOR, "monitor", True),
        (Stage.MONITOR, "worker", False),
        (Stage.SAMPLER, "worker", False),
        (Stage.SAMPLER, "monitor", False),
    ],
)
def test_each_stage_has_its_own_limit_and_the_sampler_has_none(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, stage: Stage, section: str, ends: bool
) -> None:
    # The broker counts as answering at once, so that the watchdog starts immediately.
    monkeypatch.setattr(service.BrokerProbe, "answers", lambda _self: True)
    double = StageDouble(stage)
    double.backlog = 12
    extra = {"deadline_seconds": 0.01} if section == "worker" else {}
    expected: AbstractContextManager[object] = (
        pytest.raises(StageError, match=f"{stage} is stuck") if ends else nullcontext()
    )
    with expected:
        run_for(
            service_with(double, broker, **{section: {"stall_seconds": 0.05, **extra}}),
            30 * patience() if ends else 0.4,
        )


@pytest.mark.parametrize(
    ("away_after", "problem"),
    [
        (1e6, None),
        (
            0.0,
            "worker failed: did not stop within 0 seconds, because the broker is not responding; "
            "the next process will do the remaining work",
        ),
    ],
)
def test_the_end_of_a_stage_is_only_cut_short_if_the_broker_is_silent_for_a_while(
    monkeypatch: pytest.MonkeyPatch, away_after: float, problem: str | None
) -> None:
    """One late answer is usual on a busy machine: the worker then still finishes its records."""
    monkeypatch.setattr(stage_thread, "_AWAY_JOIN_SECONDS", 0.0)
    monkeypatch.setattr(stage_thread, "_AWAY_AFTER_SECONDS", away_after)
    finished = threading.Event()
    stage = StageDouble(hang=finished)
    thread = StageThread(stage, Health(), patience=60 * patience(), watchdog=Watchdog(stage, 0.0, lambda: False))
    with thread:
        thread.ask_to_stop()
        if problem is None:
            threading.Timer(0.5, finished.set).start()
    finished.set()
    if problem is None:
        thread.check()
    else:
        with pytest.raises(StageError, match=f"^{problem}$"):
            thread.check()


def test_a_service_ends_even_if_the_thread_of_its_stage_never_returns(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_thread, "_STALL_SECONDS", 0.5)
    monkeypatch.setattr(stage_thread, "_STALLED_JOIN_SECONDS", 0.5)
    hang = threading.Event()
    start = time.monotonic()
    try:
        with pytest.raises(StageError, match=r"monitor is stuck: no progress for \d+ s; exiting"):
            run_for(
                service_with(StageDouble(Stage.MONITOR, hang), broker, monitor={"stall_seconds": 0.5}), 15 * patience()
            )
    finally:
        hang.set()
    assert time.monotonic() - start < 8 * patience()


PROGRAM = """
import threading
from sinks.metrics import Stage
from stream.service import service, stage_thread
from tests.parts.patience import patience
from tests.stream.service.test_stage_thread import StageDouble, run_for, service_with

class Broker:
    bootstrap = "{bootstrap}"

class Stuck(StageDouble):
    def run(self, stop):
        threading.Thread(target=threading.Event().wait, daemon=False).start()  # as Faust has
        super().run(stop)

stage_thread._STALL_SECONDS = stage_thread._STALLED_JOIN_SECONDS = service._EXIT_SECONDS = 0.5
stuck = Stuck(Stage.MONITOR, threading.Event())
run_for(service_with(stuck, Broker(), monitor={{"stall_seconds": 0.5}}), 20 * patience())
"""


def test_the_process_exits_with_1_even_if_threads_of_the_stage_are_still_running(broker: EmbeddedBroker) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(bootstrap=broker.bootstrap)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=30 * patience(),
        check=False,
    )
    assert process.returncode == 1
    assert "monitor is stuck" in process.stderr
