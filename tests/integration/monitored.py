"""A whole installation as separate processes, watched by a real Prometheus and Alertmanager while its quality drops.

One run of the scenario: every service is well, then the answers of `support-bot` get worse, then they recover. Early
on, one of the two workers dies without a word and is started again. All windows of the rules are sixty times shorter
than in production, so that an hour is a minute.
"""

import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from stream.cli.demo import load_corpus
from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import Follower, StageProcess, headers_of, read_all, wait_until
from tests.parts.alertmanager import Alertmanager
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    chat_response,
    error_response,
    verdict_response,
)
from tests.parts.prometheus import Prometheus
from tests.parts.server import free_port

ROOT = Path(__file__).parents[2]
DEGRADED, CONTROL = "support-bot", "hr-assistant"
STAGES = ("sampler", "worker-1", "worker-2", "monitor")

SECONDS = 120.0
# The scenario is well for two fifths of its time, then not for three tenths, then well again.
DROP_AT, RECOVERY_AT = 0.4 * SECONDS, 0.7 * SECONDS
RECORDS_A_SECOND = 14.0
# One whose few faults in healthy times do not happen to come all at once.
SEED = 2
KILL_AT, RESTART_AT = 20.0, 24.0
_TWO_SCRAPES = 2.5

RESULTS = ("rag.evaluations", "rag.critical", "rag.deadletter")
TOPICS = ("rag.interactions", "rag.sampled", "rag.retry.1", "rag.overflow", *RESULTS)


class Critic:
    """A model that tells grounded answers from others, and is as unreliable as models are.

    Now and then, and for the same texts always, it is overloaded, says what is no verdict, or something in between,
    which it may not say when the options come in another order.
    """

    def __init__(self) -> None:
        groups = load_corpus().groups
        self._claims = [group.answer for group in groups if not group.smalltalk]
        self._smalltalk = [group.answer for group in groups if group.smalltalk]
        self._lock = threading.Lock()
        self._refused: set[int] = set()

    def __call__(self, body: Body) -> Response:
        text = "\n".join(message["content"] for message in body["messages"])
        lot = zlib.crc32(text.encode())
        if lot % 40 == 0 and self._is_first(lot):
            return error_response(503, "overloaded", retry_after="0")
        if lot % 25 == 1:
            return chat_response("I would rather not say.")
        # Worst first, whatever order the task lists them in.
        labels = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"]
        if any(answer in text for answer in self._smalltalk):
            return verdict_response("not_applicable")
        if lot % 15 == 2:
            return verdict_response(labels[1])
        return verdict_response(labels[2 if any(answer in text for answer in self._claims) else 0])

    def _is_first(self, lot: int) -> bool:
        with self._lock:
            first = lot not in self._refused
            self._refused.add(lot)
        return first


def configuration(judge_url: str) -> dict[str, Any]:
    """Some records weigh more than others; on groundedness the local judge sits with one that has a price and moods."""
    russian = {"name": "russian", "match": {"app": {"exists": True}, "tags": {"language": "ru"}}, "rate": 0.5}
    critic = {
        "kind": "openai",
        "name": "critic",
        "model": "critic-1",
        "base_url": judge_url,
        "criteria": ["groundedness"],
        "check_position": True,
        "price": {"prompt": 0.15, "completion": 0.6},
    }
    return {
        "sampling": {"rate": 0.8, "rules": [russian]},
        "judges": {"panel": [{"kind": "local"}, critic], "quorum": 1},
        "worker": {"retry_seconds": [5]},
        "metrics": {"labels": ["model"]},
        # A page at 6 × 4 % bad answers: well above the 2 % of healthy times, and well below what the drop comes to.
        "objectives": {"target": 0.96},
        "alerts": {"time_scale": 1 / 60, "cost_per_day_usd": 1.0},
        # So much that nothing is ever left out for it.
        "budgets": {"per_day_usd": 1000.0, "apps": {DEGRADED: {"per_hour_usd": 100.0}}},
    }


class Command:
    """`streamjury COMMAND` in a process of its own: what it prints is in `out`, what it says besides in `log`."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._arguments = [sys.executable, "-m", "stream.cli.main", *arguments]
        self._env = os.environ | (env or {})
        self.out, self.log = folder / f"{arguments[0]}.out", folder / f"{arguments[0]}.log"

    def __enter__(self) -> Self:
        with self.out.open("wb") as out, self.log.open("wb") as log:
            self.process = subprocess.Popen(self._arguments, env=self._env, stdout=out, stderr=log)
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.wait()

    def said(self, pattern: str) -> str:
        """The first thing it says that matches."""

        def found() -> list[str]:
            return re.findall(pattern, self.log.read_text())

        wait_until(lambda: bool(found()), seconds=30, what=lambda: f"{pattern} in {self.log.read_text()!r}")
        return found()[0]


class Monitored:
    """Everything from the broker to the receiver of alerts, from `with` to the end of the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.instances = {name: f"127.0.0.1:{free_port()}" for name in STAGES}
        """Where the metrics of each process are."""
        self.config = folder / "streamjury.yaml"
        self.delivered = 0
        """Records of the traffic that the broker took."""
        self.started = self.drop = self.recovery = self.busy = self.ended = 0.0
        """When the traffic began, got bad, recovered, was soon to end; and when the last figure of all was scraped."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            endpoint = stack.enter_context(JudgeEndpoint(Critic()))
            self.config.write_text(yaml.safe_dump(configuration(endpoint.base_url)))
            self.broker = stack.enter_context(EmbeddedBroker())
            self.broker.make_topics(TOPICS)
            self.follower = stack.enter_context(Follower(self.broker.bootstrap, "rag.evaluations"))
            self._webhook = stack.enter_context(Command(self.folder, "webhook", "--json", "--port", "0"))
            receiver = self._webhook.said(r"http://\S+/alerts")
            self.alertmanager = stack.enter_context(Alertmanager(self.folder, notifying(receiver)))
            self.prometheus = stack.enter_context(Prometheus(self.folder, self._scraping()))
            self._stages = {name: stack.enter_context(self._stage(name)) for name in STAGES}
            wait_until(self._all_at_work, seconds=60, what="every process is ready and scraped")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def run(self) -> None:
        """Lets the scenario pass, with the death of a worker in it, until all of it is judged, counted and scraped."""
        with self._traffic() as traffic:
            traffic.said("writing")
            self.started = time.time()
            self.drop, self.recovery = self.started + DROP_AT, self.started + RECOVERY_AT
            self.busy = self.started + SECONDS - 1
            self._sleep_until(KILL_AT)
            self._stages["worker-2"].kill()
            self._sleep_until(RESTART_AT)
            self._stages["worker-2"].__enter__()
            assert traffic.process.wait(2 * SECONDS) == 0, traffic.log.read_text()
            self.delivered = int(traffic.out.read_text().split()[1])
        wait_until(self._all_done, seconds=60, what=self._left)
        # A series that is new is shown with 0 at first.
        time.sleep(_TWO_SCRAPES)
        self.ended = self._last_scrape()

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """What was published, each evaluation once, as it came first."""
        first: dict[str, dict[str, Any]] = {}
        for evaluation in self.follower.values():
            first.setdefault(evaluation["evaluation_id"], evaluation)
        return list(first.values())

    def given_up(self) -> set[tuple[str, str]]:
        """Where on the work queue the records were that the workers could not read."""
        letters = map(headers_of, read_all(self.broker.bootstrap, "rag.deadletter"))
        of_workers = [letter for letter in letters if letter["sj-error-stage"] == "worker"]
        return {(letter["sj-source-partition"], letter["sj-source-offset"]) for letter in of_workers}

    @property
    def notices(self) -> list[dict[str, Any]]:
        """What the receiver of alerts printed so far."""
        return [json.loads(line) for line in self._webhook.out.read_text().splitlines()]

    def _stage(self, name: str) -> StageProcess:
        """A stage as a process; started again, it has the same address and the same log."""
        port = self.instances[name].partition(":")[2]
        command, log = name.partition("-")[0], self.folder / f"{name}.log"
        return StageProcess(command, bootstrap=self.broker.bootstrap, log=log, config=self.config, http__port=port)

    def _traffic(self) -> Command:
        numbers = {"--rate": RECORDS_A_SECOND, "--seconds": SECONDS, "--period": SECONDS, "--seed": SEED}
        options = [word for name, number in numbers.items() for word in (name, f"{number:g}")]
        env = {"STREAMJURY__KAFKA__BOOTSTRAP": self.broker.bootstrap}
        return Command(self.folder, "traffic", "--regime", "scenario", "--language", "mixed", *options, env=env)

    def _scraping(self) -> dict[str, Any]:
        """The configuration of Prometheus that is in the repository, turned to this installation."""
        command = ["rules", "--config", str(self.config), "--output", str(self.folder / "rules.yml")]
        subprocess.run([sys.executable, "-m", "stream.cli.main", *command], check=True, capture_output=True)
        config: dict[str, Any] = yaml.safe_load((ROOT / "dashboards/prometheus/prometheus.yml").read_text())
        [job] = [each for each in config["scrape_configs"] if each["job_name"] == "streamjury"]
        manager = {"static_configs": [{"targets": [self.alertmanager.url.removeprefix("http://")]}]}
        return config | {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [job | {"static_configs": [{"targets": [*self.instances.values()]}]}],
            "alerting": {"alertmanagers": [manager]},
        }

    def _all_at_work(self) -> bool:
        try:
            ready = all(httpx.get(f"http://{each}/readyz").is_success for each in self.instances.values())
        except httpx.TransportError:
            return False
        return ready and self.prometheus.value('sum(up{job="streamjury"})') == len(STAGES)

    def _sleep_until(self, seconds: float) -> None:
        time.sleep(max(0.0, self.started + seconds - time.time()))

    def counted(self, stage: str, outcome: str) -> float:
        """What the processes of a stage say now, those that are no more left out."""
        found = self.prometheus.value(f'sum(streamjury_records_total{{stage="{stage}",outcome="{outcome}"}})')
        return 0.0 if math.isnan(found) else found

    def _all_done(self) -> bool:
        """Whether every sampled record was evaluated or given up, and Prometheus has seen the monitor see it."""
        evaluated, read = len(self.evaluations), len(self.follower.values())
        settled = evaluated + len(self.given_up()) >= self.counted("sampler", "sampled") > 0
        return settled and self.counted("monitor", "consumed") >= read

    def _left(self) -> str:
        counts = {stage: self.counted(stage, "consumed") for stage in ("sampler", "worker", "monitor")}
        settled = f"{len(self.evaluations)} evaluated and {len(self.given_up())} given up"
        return f"{settled} of {self.counted('sampler', 'sampled')} sampled; consumed: {counts}"

    def _last_scrape(self) -> float:
        """The moment of a scrape of the monitor, after which nothing happens any more."""
        return max(
            at for series in self.prometheus.samples("streamjury_evaluations_total[1m]") for at, _ in series.points
        )


def notifying(url: str) -> dict[str, Any]:
    """The configuration of Alertmanager that is in the repository, turned to a receiver and without patience."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "dashboards/alertmanager/alertmanager.yml").read_text())
    _hurry(config["route"])
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [hook | {"url": url} for hook in receiver.get("webhook_configs", [{}])]
    return config


def _hurry(route: dict[str, Any]) -> None:
    route |= {"group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
    for inner in route.get("routes", []):
        _hurry(inner)
