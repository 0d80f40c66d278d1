"""One run: a real broker, all stages, every kind of fault, and the account of it afterwards."""

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import yaml

from stream.config.model import Config
from tests.chaos.endpoint import Endpoint
from tests.chaos.ledger import UNSCORED, Ledger, chosen_ids
from tests.chaos.plan import SAMPLERS, WORKERS, Event, Kind, Plan, schedule
from tests.chaos.processes import Fleet
from tests.chaos.report import Check, at_least, at_most, info, none_of
from tests.chaos.storm import Storm
from tests.chaos.tail import Tail, wait_for_letter
from tests.chaos.traffic import RECORD_BYTES, Feed, good, traffic
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.parts.program import program_for_shells

CRITERIA = ("rag.answer_relevance", "rag.harmfulness")
RUN_AHEAD = 64
PARTITIONS = 6
RESTARTS = 3
REPLAYED_AT_LEAST = 99.9

_COMMAND_SECONDS = 180.0
_LOOK_SECONDS = 0.2
_PROGRESS_SECONDS = 10.0
_MONITOR_SECONDS = 30.0
_READY_SECONDS = 20.0
_SHOWN = 10
_SEEN = re.compile(r'^streamjury_records_total\{outcome="seen",reason="",stage="monitor"\} (\S+)$', re.MULTILINE)
# Two reads with nothing open, so that a record between two topics is not overlooked.
_QUIET_READS = 2

# Records for the last measurement: enough for three restarts.
_SPARE_RECORDS, _SPARE_SECONDS = 2_000, 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    checks: Sequence[Check]
    notes: Sequence[str]
    """Hints to explain a failure: processes that ended by themselves, and the ends of their logs."""

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


def run(plan: Plan, *, seed: int, folder: Path, say: Say) -> Result:
    """Run everything from an empty broker to the checks; all processes have ended when it returns or raises."""
    with ExitStack() as stack:
        broker = stack.enter_context(KafkaBroker())
        endpoint = stack.enter_context(Endpoint(seed=seed, log=folder / "endpoint.log"))
        config, path = _configure(plan, broker, endpoint, folder)
        programs = stack.enter_context(program_for_shells())

        def command(*arguments: str) -> CommandOutcome:
            return _run_command(programs / "streamjury", *arguments, "--config", str(path))

        creation = command("topics", "create")
        if creation.status:
            raise RuntimeError(f"the topics could not be made: {creation.errors}")
        fleet = stack.enter_context(Fleet((*SAMPLERS, *WORKERS, "monitor"), config=path, folder=folder))
        ledger = stack.enter_context(Ledger(config))
        chaos = Chaos(
            plan=plan, seed=seed, broker=broker, endpoint=endpoint, fleet=fleet, ledger=ledger, config=config, say=say
        )
        try:
            checks = chaos.run(command)
        except Exception:
            for line in fleet.tails():
                say(line)
            raise
        notes = [f"{end} ({count} times)" for end, count in fleet.ends.items()]
        notes += [f"evaluated twice: {ledger.history(name)}" for name in ledger.duplicates[:_SHOWN]]
        notes += [] if all(check.ok for check in checks) else fleet.tails()
        return Result(checks=checks, notes=notes)


def _configure(plan: Plan, broker: KafkaBroker, endpoint: Endpoint, folder: Path) -> tuple[Config, Path]:
    judge = {
        "kind": "openai",
        "name": "judge",
        "model": "fickle",
        "base_url": endpoint.base_url,
        "timeout_seconds": 6.0,
    }
    settings = {
        "kafka": {"bootstrap": broker.bootstrap},
        "topics": {"partitions": PARTITIONS},
        "input": {"limits": {"record_bytes": RECORD_BYTES}},
        "sampling": {"rate": plan.sampling_rate},
        "criteria": {"use": list(CRITERIA)},
        "judges": {"panel": [judge]},
        "worker": {
            "concurrency": 16,
            "run_ahead": RUN_AHEAD,
            "deadline_seconds": 10.0,
            # Shorter in total than the outage, so that some records are dead-lettered in it.
            "retry_seconds": [1.0, 2.0, 4.0],
        },
        "http": {"port": 0},
    }
    path = folder / "streamjury.yaml"
    path.write_text(yaml.safe_dump(settings))
    return Config.model_validate(settings), path


class CommandOutcome(NamedTuple):
    """Exit status and output of a command."""

    status: int
    output: str
    errors: str


Command = Callable[..., CommandOutcome]


def _run_command(program: Path, *arguments: str) -> CommandOutcome:
    process = subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS * patience(),
        check=False,
    )
    return CommandOutcome(process.returncode, process.stdout, process.stderr)


@dataclass(kw_only=True)
class Chaos:
    """The parts of a run, and its checks."""

    plan: Plan
    seed: int
    broker: KafkaBroker
    endpoint: Endpoint
    fleet: Fleet
    ledger: Ledger
    config: Config
    say: Say
    checks: list[Check] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.logged = list(traffic(self.plan, self.seed))
        self._events = schedule(self.plan, self.seed)

    def run(self, command: Command) -> Sequence[Check]:
        self._time("under fire", self._under_fire)
        self.endpoint.command(error_rate=0.0)
        self._time("until all is settled", self._settle)
        self._check_all_at_work()
        self._time("restarts measured", self._measure_restarts)
        self._settle()
        self._report_events()
        self._check_ledger()
        self._audit(command, "audit")
        self._time("of the replay", lambda: self._replay(command))
        self._audit(command, "audit after the replay")
        self._check_monitor()
        self.checks.append(none_of("duplicate evaluation ids after the replay", self.ledger.duplicates))
        self.checks += [info(f"time {what}", f"{seconds:.0f} s") for what, seconds in self.timings.items()]
        return self.checks

    def _time(self, what: str, do: Callable[[], None]) -> None:
        started = time.monotonic()
        do()
        self.timings[what] = time.monotonic() - started

    # 1. Everything goes wrong while interactions are logged

    def _under_fire(self) -> None:
        feed = Feed(self.broker.bootstrap, self.config.topics.interactions, self.logged, self.plan.feed_seconds)
        self.endpoint.command(error_rate=self.plan.error_rate)
        storm = Storm(self._events, self._begin, self._end, self.say)
        reported_at = time.monotonic()
        feed.start()
        try:
            while feed.running or storm.lasts:
                storm.go_on()
                self.fleet.supervise()
                if time.monotonic() - reported_at > _PROGRESS_SECONDS:
                    reported_at = time.monotonic()
                    self.say(f"{storm.now:6.1f} s  {feed.sent:,} of {len(self.logged):,} logged")
                time.sleep(_LOOK_SECONDS)
        finally:
            storm.close()
            feed.stop()
        feed.check()

    def _begin(self, event: Event) -> None:
        match event.kind:
            case Kind.KILL:
                self.fleet.kill(event.target)
            case Kind.JOIN:
                self.fleet.add(event.target)
            case Kind.OUTAGE:
                self.endpoint.command(down=True)
            case Kind.BROKER_CRASH:
                self.broker.kill()
            case Kind.BROKER_STOP:
                self.broker.stop()

    def _end(self, event: Event) -> None:
        match event.kind:
            case Kind.KILL:
                self.fleet.start(event.target)
            case Kind.JOIN:
                self.fleet[event.target].stop()
            case Kind.OUTAGE:
                # On a busy machine, no record may have used up its retries yet.
                wait_for_letter(self.config, UNSCORED, self.plan.settle_seconds * patience())
                self.endpoint.command(down=False)
            case Kind.BROKER_CRASH | Kind.BROKER_STOP:
                self.broker.start()

    # 2. Everything in flight arrives

    def _settle(self) -> None:
        """Wait until no process has anything left to do.

        Records in the open transaction of a dead process are invisible until the broker aborts it: therefore
        zero lag is not enough, and every chosen interaction must have an outcome.
        """
        chosen, deadline, reported_at, quiet = chosen_ids(self.logged, self.config), self._deadline(), 0.0, 0
        while quiet < _QUIET_READS:
            self.fleet.supervise()
            self.ledger.read()
            lag, missing = self.ledger.lag, len(self.ledger.missing(chosen))
            quiet = quiet + 1 if not lag and not missing else 0
            if time.monotonic() > deadline:
                self.say(f"not settled: {lag:,} records unread, {missing:,} interactions without an outcome")
                return
            if time.monotonic() - reported_at > _PROGRESS_SECONDS:
                reported_at = time.monotonic()
                self.say(f"settling: {lag:,} records unread, {missing:,} interactions without an outcome")
            time.sleep(_LOOK_SECONDS)

    def _deadline(self) -> float:
        return time.monotonic() + self.plan.settle_seconds * patience()

    # 3. How soon a restarted worker is back at work

    def _measure_restarts(self) -> None:
        """Keep only one worker, so that everything evaluated after its death was evaluated after its restart."""
        alone, *others = WORKERS
        for name in others:
            self.fleet[name].stop()
        # On a busy machine it lasts longer, at the same rate.
        slower = patience()
        spare = range(self.plan.interactions, self.plan.interactions + round(_SPARE_RECORDS * slower))
        records = [good(number) for number in spare]
        feed = Feed(self.broker.bootstrap, self.config.topics.interactions, records, _SPARE_SECONDS * slower)
        feed.start()
        with Tail(self.config) as tail:
            durations = [tail.seconds_to_next(lambda: self._bounce(alone)) for _ in range(RESTARTS)]
        feed.stop()
        feed.check()
        self.logged += records[: feed.sent]
        for name in others:
            self.fleet.start(name)
        self.say(f"restart to first evaluation: {', '.join(f'{seconds:.1f} s' for seconds in durations)}")
        self.checks.append(at_most("kill -9 to the next evaluation", max(durations), self.plan.restart_seconds, "s"))

    def _bounce(self, name: str) -> None:
        self.fleet.kill(name)
        self.fleet.start(name)

    # 4. The account

    def _report_events(self) -> None:
        _answered, faults = self.endpoint.counts()
        poison = Counter(record.poison for record in self.logged if record.poison)
        ledger, kills = self.ledger, self.fleet.kills
        restarts = sum(event.kind in {Kind.BROKER_CRASH, Kind.BROKER_STOP} for event in self._events)
        self.checks += [
            info("interactions logged", f"{len(self.logged):,}, {sum(poison.values()):,} of them poison"),
            info("sampled", f"{sum(ledger.sampled.values()):,}"),
            info("kill -9", _format_counts(kills)),
            info("broker restarts", restarts),
            info("workers that joined and left", sum(event.kind is Kind.JOIN for event in self._events)),
            info("failures of the judges", _format_counts(faults)),
            info(
                "scored, unscored",
                f"{len(ledger.scored):,}, {len(ledger.unscored):,} {_format_counts(Counter(ledger.unscored.values()))}",
            ),
            info("parked, deferred", f"{sum(ledger.parked.values()):,}, {sum(ledger.deferred.values()):,}"),
            info("dead letters", _format_counts(Counter(ledger.dead.values()))),
            info("processes that ended by themselves", self.fleet.ends.total()),
        ]

    def _check_ledger(self) -> None:
        answered, _faults = self.endpoint.counts()
        chosen, ledger = chosen_ids(self.logged, self.config), self.ledger
        keyless = {record.id for record in self.logged if record.key is None}
        vain = ledger.repeats(answered)
        limit = self.fleet.kills["worker"] * RUN_AHEAD * len(CRITERIA)
        self.checks += [
            info("answers of the judges", f"{answered.total():,}"),
            info("records judged in vain", f"{len(vain):,}"),
            at_most("answers in vain (kills × run-ahead × criteria)", vain.total(), limit),
            none_of("sampled though not chosen", sorted(ledger.sampled.keys() - chosen - keyless)),
            none_of("without an outcome", ledger.missing(chosen)),
            none_of("duplicate evaluation ids", ledger.duplicates),
            at_most("records still unread", ledger.lag, 0),
        ]

    def _audit(self, command: Command, what: str) -> None:
        """Check that the product's own audit agrees."""
        outcome = command("audit", "--json")
        try:
            balance = json.loads(outcome.output)
        except ValueError:
            last = (outcome.errors.strip() or "it said nothing").splitlines()[-1]
            self.checks.append(Check(what=what, figure=last, limit="balances", ok=False))
            return
        missing, twice = balance["missing_total"], balance["duplicates_total"]
        waiting = sum(balance["waiting"].values())
        figure = f"status {outcome.status}: {missing} missing, {twice} twice, {waiting} waiting"
        ok = outcome.status == 0 and balance["balanced"] and not waiting
        self.checks.append(Check(what=what, figure=figure, limit="status 0: 0, 0, 0", ok=ok))
        self.checks.append(info("its outcomes", _format_counts({k: n for k, n in balance["outcomes"].items() if n})))
        self._compare(balance["outcomes"], what)

    def _compare(self, outcomes: Mapping[str, int], what: str) -> None:
        """Compare the audit's scored interactions with those that the harness counted itself."""
        differ = abs(outcomes.get("scored", 0) - len(self.ledger.scored))
        self.checks.append(at_most(f"{what}, scored: off our count", differ, 0))

    def _check_all_at_work(self) -> None:
        """Check that all are ready: a process that lost its partitions and hangs would otherwise go unnoticed."""
        deadline = time.monotonic() + _READY_SECONDS * patience()
        while idle := [name for name in (*SAMPLERS, *WORKERS, "monitor") if not self._is_ready(name)]:
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        self.checks.append(none_of("processes that are not ready afterwards", idle))

    def _is_ready(self, name: str) -> bool:
        try:
            with urlopen(f"{self.fleet[name].url}/readyz", timeout=_READY_SECONDS * patience()) as response:
                return bool(response.status == 200)
        except (OSError, ValueError):
            return False

    def _check_monitor(self) -> None:
        """Wait for the monitor, which reads on for a moment after the last evaluation was published."""
        url, expected, count = self.fleet["monitor"].url, len(self.ledger.evaluations), -1
        deadline = time.monotonic() + _MONITOR_SECONDS * patience()
        while url and count < expected and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            with urlopen(f"{url}/metrics", timeout=_MONITOR_SECONDS * patience()) as response:
                match = _SEEN.search(response.read().decode())
            count = int(float(match[1])) if match else 0
        self.checks.append(at_most("monitor's count of evaluations: off", abs(count - expected), 0))

    def _replay(self, command: Command) -> None:
        """The outage is over: records dead-lettered because of it can be judged now."""
        died = self.ledger.dead_unscored
        outcome = command("replay", "--reason", "unscored_*")
        self.say(f"replay: {outcome.output.strip()} {outcome.errors.strip()}"[-1000:])
        self.checks.append(
            Check(what="replay", figure=f"status {outcome.status}", limit="status 0", ok=not outcome.status)
        )
        self._settle()
        scored = len(died & self.ledger.scored)
        share = 100.0 * scored / len(died) if died else 0.0
        self.checks += [
            at_least("dead letters to replay", len(died), 1),
            at_least("scored after the replay", share, REPLAYED_AT_LEAST, "%"),
        ]


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
