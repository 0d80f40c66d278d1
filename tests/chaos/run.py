"""One run: a real broker, all stages, everything that can go wrong, and the account of it afterwards."""

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
from tests.chaos.ledger import Ledger, chosen_ids
from tests.chaos.plan import SAMPLERS, WORKERS, Event, Kind, Plan, schedule
from tests.chaos.processes import Fleet, command_line
from tests.chaos.report import Check, at_least, at_most, none_of, told
from tests.chaos.storm import Storm
from tests.chaos.tail import Tail
from tests.chaos.traffic import RECORD_BYTES, Feed, good, traffic
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

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
# Read twice with nothing open in between, so that a record on its way from one topic to the next is not overlooked.
_QUIET_READS = 2

# What the last measurement logs: enough for three restarts.
_SPARE_RECORDS, _SPARE_SECONDS = 2_000, 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    checks: Sequence[Check]
    notes: Sequence[str]
    """What may explain a failure: processes that ended by themselves, and the ends of their logs."""

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


def run(plan: Plan, *, seed: int, folder: Path, say: Say) -> Result:
    """Everything from an empty broker to the verdict; all processes are gone when it returns or raises."""
    with ExitStack() as stack:
        broker = stack.enter_context(KafkaBroker())
        endpoint = stack.enter_context(Endpoint(seed=seed, log=folder / "endpoint.log"))
        config, path = _configure(plan, broker, endpoint, folder)
        made = _command(path, "topics", "create")
        if made.status:
            raise RuntimeError(f"the topics could not be made: {made.errors}")
        fleet = stack.enter_context(Fleet((*SAMPLERS, *WORKERS, "monitor"), config=path, folder=folder))
        ledger = stack.enter_context(Ledger(config))
        chaos = Chaos(
            plan=plan, seed=seed, broker=broker, endpoint=endpoint, fleet=fleet, ledger=ledger, config=config, say=say
        )
        try:
            checks = chaos.run(lambda *command: _command(path, *command))
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
            # Shorter in all than the outage, so that some records are given up in it.
            "retry_seconds": [1.0, 2.0, 4.0],
        },
        "http": {"port": 0},
    }
    path = folder / "streamjury.yaml"
    path.write_text(yaml.safe_dump(settings))
    return Config.model_validate(settings), path


class CommandOutcome(NamedTuple):
    """How a command ended and what it said."""

    status: int
    output: str
    errors: str


Command = Callable[..., CommandOutcome]


def _command(path: Path, *command: str) -> CommandOutcome:
    done = subprocess.run(
        command_line(*command, "--config", path), capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
    )
    return CommandOutcome(done.returncode, done.stdout, done.stderr)


@dataclass(kw_only=True)
class Chaos:
    """The parts of a run, and what was found in it."""

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
        self._timed("under fire", self._under_fire)
        self.endpoint.command(error_rate=0.0)
        self._timed("until all is settled", self._settle)
        self._check_all_at_work()
        self._timed("restarts measured", self._measure_restarts)
        self._settle()
        self._tell_what_happened()
        self._check_ledger()
        self._audit(command, "audit")
        self._timed("of the replay", lambda: self._replay(command))
        self._audit(command, "audit after the replay")
        self._check_monitor()
        self.checks.append(none_of("duplicate evaluation ids after the replay", self.ledger.duplicates))
        self.checks += [told(f"time {what}", f"{seconds:.0f} s") for what, seconds in self.timings.items()]
        return self.checks

    def _timed(self, what: str, do: Callable[[], None]) -> None:
        started = time.monotonic()
        do()
        self.timings[what] = time.monotonic() - started

    # 1. Everything goes wrong while interactions are logged

    def _under_fire(self) -> None:
        feed = Feed(self.broker.bootstrap, self.config.topics.interactions, self.logged, self.plan.feed_seconds)
        self.endpoint.command(error_rate=self.plan.error_rate)
        storm = Storm(self._events, self._begin, self._end, self.say)
        told_at = time.monotonic()
        feed.start()
        try:
            while feed.running or storm.lasts:
                storm.go_on()
                self.fleet.supervise()
                if time.monotonic() - told_at > _PROGRESS_SECONDS:
                    told_at = time.monotonic()
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
                self.endpoint.command(down=False)
            case Kind.BROKER_CRASH | Kind.BROKER_STOP:
                self.broker.start()

    # 2. All that is still on its way arrives

    def _settle(self) -> None:
        """Waits until nobody has anything left to do.

        What a process left in an open transaction when it died cannot be seen until the broker gives it up: therefore
        no lag is not enough, and every chosen interaction must have an outcome.
        """
        chosen, deadline, told_at, quiet = chosen_ids(self.logged, self.config), self._deadline(), 0.0, 0
        while quiet < _QUIET_READS:
            self.fleet.supervise()
            self.ledger.read()
            lag, missing = self.ledger.lag, len(self.ledger.missing(chosen))
            quiet = quiet + 1 if not lag and not missing else 0
            if time.monotonic() > deadline:
                self.say(f"not settled: {lag:,} records unread, {missing:,} interactions without an outcome")
                return
            if time.monotonic() - told_at > _PROGRESS_SECONDS:
                told_at = time.monotonic()
                self.say(f"settling: {lag:,} records unread, {missing:,} interactions without an outcome")
            time.sleep(_LOOK_SECONDS)

    def _deadline(self) -> float:
        return time.monotonic() + self.plan.settle_seconds * patience()

    # 3. How soon a worker that died is back at work

    def _measure_restarts(self) -> None:
        """Only one worker is left, so that what is evaluated after it died was evaluated after it came back."""
        alone, *others = WORKERS
        for name in others:
            self.fleet[name].stop()
        spare = range(self.plan.interactions, self.plan.interactions + _SPARE_RECORDS)
        records = [good(number) for number in spare]
        feed = Feed(self.broker.bootstrap, self.config.topics.interactions, records, _SPARE_SECONDS)
        feed.start()
        with Tail(self.config) as tail:
            found = [tail.seconds_to_next(lambda: self._bounce(alone)) for _ in range(RESTARTS)]
        feed.stop()
        feed.check()
        self.logged += records[: feed.sent]
        for name in others:
            self.fleet.start(name)
        self.say(f"restart to first evaluation: {', '.join(f'{seconds:.1f} s' for seconds in found)}")
        self.checks.append(at_most("kill -9 to the next evaluation", max(found), self.plan.restart_seconds, "s"))

    def _bounce(self, name: str) -> None:
        self.fleet.kill(name)
        self.fleet.start(name)

    # 4. The account

    def _tell_what_happened(self) -> None:
        _answered, faults = self.endpoint.counts()
        poison = Counter(record.poison for record in self.logged if record.poison)
        ledger, kills = self.ledger, self.fleet.kills
        restarts = sum(event.kind in {Kind.BROKER_CRASH, Kind.BROKER_STOP} for event in self._events)
        self.checks += [
            told("interactions logged", f"{len(self.logged):,}, {sum(poison.values()):,} of them poison"),
            told("sampled", f"{sum(ledger.sampled.values()):,}"),
            told("kill -9", _listed(kills)),
            told("broker restarts", restarts),
            told("workers that joined and left", sum(event.kind is Kind.JOIN for event in self._events)),
            told("failures of the judges", _listed(faults)),
            told(
                "scored, unscored",
                f"{len(ledger.scored):,}, {len(ledger.unscored):,} {_listed(Counter(ledger.unscored.values()))}",
            ),
            told("parked, deferred", f"{sum(ledger.parked.values()):,}, {sum(ledger.deferred.values()):,}"),
            told("dead letters", _listed(Counter(ledger.dead.values()))),
            told("processes that ended by themselves", self.fleet.ends.total()),
        ]

    def _check_ledger(self) -> None:
        answered, _faults = self.endpoint.counts()
        chosen, ledger = chosen_ids(self.logged, self.config), self.ledger
        keyless = {record.id for record in self.logged if record.key is None}
        vain = ledger.repeats(answered)
        limit = self.fleet.kills["worker"] * RUN_AHEAD * len(CRITERIA)
        self.checks += [
            told("answers of the judges", f"{answered.total():,}"),
            told("records judged in vain", f"{len(vain):,}"),
            at_most("answers in vain (kills × run-ahead × criteria)", vain.total(), limit),
            none_of("sampled though not chosen", sorted(ledger.sampled.keys() - chosen - keyless)),
            none_of("without an outcome", ledger.missing(chosen)),
            none_of("duplicate evaluation ids", ledger.duplicates),
            at_most("records still unread", ledger.lag, 0),
        ]

    def _audit(self, command: Command, what: str) -> None:
        """The product's own account must come to the same end."""
        done = command("audit", "--json")
        try:
            balance = json.loads(done.output)
        except ValueError:
            last = (done.errors.strip() or "it said nothing").splitlines()[-1]
            self.checks.append(Check(what=what, figure=last, limit="balances", ok=False))
            return
        missing, twice = balance["missing_total"], balance["duplicates_total"]
        waiting = sum(balance["waiting"].values())
        figure = f"status {done.status}: {missing} missing, {twice} twice, {waiting} waiting"
        ok = done.status == 0 and balance["balanced"] and not waiting
        self.checks.append(Check(what=what, figure=figure, limit="status 0: 0, 0, 0", ok=ok))
        self.checks.append(told("its outcomes", _listed({k: n for k, n in balance["outcomes"].items() if n})))
        self._compare(balance["outcomes"], what)

    def _compare(self, outcomes: Mapping[str, int], what: str) -> None:
        """The audit's scored are those that the harness has counted itself."""
        differ = abs(outcomes.get("scored", 0) - len(self.ledger.scored))
        self.checks.append(at_most(f"{what}, scored: off our count", differ, 0))

    def _check_all_at_work(self) -> None:
        """A process that lost its place and does not end would only be missed when there is more to do."""
        deadline = time.monotonic() + _READY_SECONDS * patience()
        while idle := [name for name in (*SAMPLERS, *WORKERS, "monitor") if not self._is_ready(name)]:
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        self.checks.append(none_of("processes that are not ready afterwards", idle))

    def _is_ready(self, name: str) -> bool:
        try:
            with urlopen(f"{self.fleet[name].url}/readyz", timeout=_READY_SECONDS) as response:
                return bool(response.status == 200)
        except (OSError, ValueError):
            return False

    def _check_monitor(self) -> None:
        """It reads on for a moment after the last evaluation was published."""
        url, expected, seen = self.fleet["monitor"].url, len(self.ledger.evaluations), -1
        deadline = time.monotonic() + _MONITOR_SECONDS * patience()
        while url and seen < expected and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            with urlopen(f"{url}/metrics", timeout=_MONITOR_SECONDS) as response:
                found = _SEEN.search(response.read().decode())
            seen = int(float(found[1])) if found else 0
        self.checks.append(at_most("monitor's count of evaluations: off", abs(seen - expected), 0))

    def _replay(self, command: Command) -> None:
        """The outage is over: what died of it can be judged now."""
        died = self.ledger.dead_unscored
        done = command("replay", "--reason", "unscored_*")
        self.say(f"replay: {done.output.strip()} {done.errors.strip()}"[-1000:])
        self.checks.append(Check(what="replay", figure=f"status {done.status}", limit="status 0", ok=not done.status))
        self._settle()
        scored = len(died & self.ledger.scored)
        share = 100.0 * scored / len(died) if died else 0.0
        self.checks += [
            at_least("dead letters to replay", len(died), 1),
            at_least("scored after the replay", share, REPLAYED_AT_LEAST, "%"),
        ]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
