"""A whole installation as separate processes, watched by a real Prometheus and Alertmanager while its quality drops.

One run of the scenario: every service is healthy, then the answers of `support-bot` get worse, then they recover. Early
on, one of the two workers is killed and restarted. All windows of the rules are sixty times shorter
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
from tests.parts import local_http
from tests.parts.alertmanager import Alertmanager
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    chat_response,
    error_response,
    verdict_response,
)
from tests.parts.patience import patience
from tests.parts.prometheus import Prometheus
from tests.parts.server import free_port

ROOT = Path(__file__).parents[2]
DEGRADED, CONTROL = "support-bot", "hr-assistant"
QUALITY_DROP = "StreamjuryQualityDrop"
STAGES = ("sampler", "worker-1", "worker-2", "monitor")

SECONDS = 120.0
# The scenario is healthy for two fifths of its time, then bad for three tenths, then healthy again.
DROP_AT, RECOVERY_AT = 0.4 * SECONDS, 0.7 * SECONDS
RECORDS_A_SECOND = 14.0
# A seed whose few faults in healthy times do not come all at once.
SEED = 2
KILL_AT, RESTART_AT = 20.0, 24.0
_INTERVAL = "2s"
"""Of scrapes and rules: rendering metrics and evaluating rules take more processor time than anything else here."""

RESULTS = ("rag.evaluations", "rag.critical", "rag.deadletter")
TOPICS = ("rag.interactions", "rag.sampled", "rag.retry.1", "rag.overflow", *RESULTS)


class Critic:
    """A model that recognises grounded answers, and is as unreliable as models are.

    Sometimes, and always for the same texts, it is overloaded, returns no verdict, or an intermediate one,
    which it may not return when the options come in another order.
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
        # Worst first, whatever the order in the task.
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
    """Weight some records more than others; on groundedness a paid, moody judge sits beside the local one."""
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
        # Pages at 6 × 4 % bad answers: well above the 2 % of healthy times, and well below the drop.
        "objectives": {"target": 0.96},
        "alerts": {"time_scale": 1 / 60, "cost_per_day_usd": 1.0},
        # High enough that no record is ever left out because of it.
        "budgets": {"per_day_usd": 1000.0, "apps": {DEGRADED: {"per_hour_usd": 100.0}}},
    }


class Command:
    """`streamjury COMMAND` in a separate process, with its output in `out` and its log in `log`."""

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

    def wait_for_log(self, pattern: str) -> str:
        """Wait for a match in the log and return it."""

        def matches() -> list[str]:
            return re.findall(pattern, self.log.read_text())

        wait_until(lambda: bool(matches()), seconds=30, what=lambda: f"{pattern} in {self.log.read_text()!r}")
        return matches()[0]


class Monitored:
    """Everything from the broker to the receiver of alerts, for a `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.instances = {name: f"127.0.0.1:{free_port()}" for name in STAGES}
        """Address of the metrics of each process."""
        self.config = folder / "streamjury.yaml"
        self.delivered = 0
        """Records of the traffic that the broker accepted."""
        self.started = self.drop = self.recovery = self.busy = self.ended = 0.0
        """Times at which the traffic began, got bad, recovered and was about to end, and of the last scrape."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            endpoint = stack.enter_context(JudgeEndpoint(Critic()))
            self.config.write_text(yaml.safe_dump(configuration(endpoint.base_url)))
            self.broker = stack.enter_context(EmbeddedBroker())
            self.broker.make_topics(TOPICS)
            self.follower = stack.enter_context(Follower(self.broker.bootstrap, "rag.evaluations"))
            self._webhook = stack.enter_context(Command(self.folder, "webhook", "--json", "--port", "0"))
            receiver = self._webhook.wait_for_log(r"http://\S+/alerts")
            self.alertmanager = stack.enter_context(Alertmanager(self.folder, notifying(receiver)))
            self.prometheus = stack.enter_context(Prometheus(self.folder, self._scraping()))
            self._stages = {name: stack.enter_context(self._stage(name)) for name in STAGES}
            wait_until(self._all_at_work, seconds=60, what="every process is ready and scraped")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def run(self) -> None:
        """Run the scenario, including the kill of a worker, until its alert is over and all counts are scraped."""
        with self._traffic() as traffic:
            traffic.wait_for_log("writing")
            self.started = time.time()
            self.drop, self.recovery = self.started + DROP_AT, self.started + RECOVERY_AT
            self.busy = self.started + SECONDS - 1
            self._sleep_until(KILL_AT)
            self._stages["worker-2"].kill()
            self._sleep_until(RESTART_AT)
            self._stages["worker-2"].__enter__()
            assert traffic.process.wait(2 * SECONDS * patience()) == 0, traffic.log.read_text()
            self.delivered = int(traffic.out.read_text().split()[1])
        wait_until(self._all_done, seconds=120, what=self._describe_progress)
        done_at = time.time()
        # A new series is first shown with 0.
        wait_until(lambda: self._is_scraped_twice(done_at), seconds=60, what="every process is scraped twice")
        self.ended = self._last_scrape()

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Return the published evaluations, each once, in its first version."""
        first: dict[str, dict[str, Any]] = {}
        for evaluation in self.follower.values():
            first.setdefault(evaluation["evaluation_id"], evaluation)
        return list(first.values())

    def undecodable_positions(self) -> set[tuple[str, str]]:
        """Return the positions on the work queue of the records that the workers could not read."""
        letters = map(headers_of, read_all(self.broker.bootstrap, "rag.deadletter"))
        of_workers = [letter for letter in letters if letter["sj-error-stage"] == "worker"]
        return {(letter["sj-source-partition"], letter["sj-source-offset"]) for letter in of_workers}

    @property
    def notices(self) -> list[dict[str, Any]]:
        """Return the notices that the receiver of alerts has printed so far."""
        # The last line may be incomplete.
        whole, _, _ = self._webhook.out.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def pages(self) -> list[dict[str, Any]]:
        """Return the notices of pages about the drop."""
        page = (QUALITY_DROP, DEGRADED, "page")
        return [notice for notice in self.notices if (notice["alertname"], notice["app"], notice["severity"]) == page]

    def _stage(self, name: str) -> StageProcess:
        """Return a stage as a process; after a restart it has the same address and log."""
        port = self.instances[name].partition(":")[2]
        command, log = name.partition("-")[0], self.folder / f"{name}.log"
        return StageProcess(command, bootstrap=self.broker.bootstrap, log=log, config=self.config, http__port=port)

    def _traffic(self) -> Command:
        numbers = {"--rate": RECORDS_A_SECOND, "--seconds": SECONDS, "--period": SECONDS, "--seed": SEED}
        options = [word for name, number in numbers.items() for word in (name, f"{number:g}")]
        env = {"STREAMJURY__KAFKA__BOOTSTRAP": self.broker.bootstrap}
        return Command(self.folder, "traffic", "--regime", "scenario", "--language", "mixed", *options, env=env)

    def _scraping(self) -> dict[str, Any]:
        """Return the repository's Prometheus configuration, adapted to this installation."""
        command = ["rules", "--config", str(self.config), "--output", str(self.folder / "rules.yml")]
        subprocess.run([sys.executable, "-m", "stream.cli.main", *command], check=True, capture_output=True)
        rules = yaml.safe_load((self.folder / "rules.yml").read_text())
        for group in rules["groups"]:
            group["interval"] = _INTERVAL
        (self.folder / "rules.yml").write_text(yaml.safe_dump(rules))
        config: dict[str, Any] = yaml.safe_load((ROOT / "dashboards/prometheus/prometheus.yml").read_text())
        [job] = [section for section in config["scrape_configs"] if section["job_name"] == "streamjury"]
        manager = {"static_configs": [{"targets": [self.alertmanager.url.removeprefix("http://")]}]}
        return config | {
            "global": {"scrape_interval": _INTERVAL},
            "rule_files": ["rules.yml"],
            "scrape_configs": [job | {"static_configs": [{"targets": [*self.instances.values()]}]}],
            "alerting": {"alertmanagers": [manager]},
        }

    def _all_at_work(self) -> bool:
        try:
            ready = all(
                local_http.get(f"http://{address}/readyz", timeout=30 * patience()).is_success
                for address in self.instances.values()
            )
        except httpx.TransportError:
            return False
        return ready and self.prometheus.value('sum(up{job="streamjury"})') == len(STAGES)

    def _sleep_until(self, seconds: float) -> None:
        time.sleep(max(0.0, self.started + seconds - time.time()))

    def read_count(self, stage: str, outcome: str) -> float:
        """Return the current count over the running processes of a stage."""
        total = self.prometheus.value(f'sum(streamjury_records_total{{stage="{stage}",outcome="{outcome}"}})')
        return 0.0 if math.isnan(total) else total

    def _all_done(self) -> bool:
        """Return whether each sampled record was evaluated or given up and is in the counts, and the alert is over."""
        settled, read = len(self.evaluations) + len(self.undecodable_positions()), len(self.follower.values())
        counts = (("sampler", "consumed"), ("sampler", "sampled"), ("monitor", "consumed"))
        if tuple(self.read_count(*count) for count in counts) != (self.delivered, settled, read):
            return False
        return self._is_balanced() and self._is_over()

    def _is_balanced(self) -> bool:
        """Return whether the running processes of each stage have counted an outcome of every consumed record."""
        consumed, outcomes = (
            f'sum by (stage) (streamjury_records_total{{outcome{operator}"consumed"}})' for operator in ("=", "!=")
        )
        balanced = {sample.labels["stage"] for sample in self.prometheus.query(f"{consumed} == {outcomes}")}
        return balanced == {name.partition("-")[0] for name in STAGES}

    def _is_over(self) -> bool:
        """Return whether no page about the drop is firing, and the receiver has the end of each."""
        page = f'alertname="{QUALITY_DROP}",app="{DEGRADED}",severity="page"'
        latest = {notice["window"]: notice["status"] for notice in self.pages}
        is_firing = bool(self.prometheus.query(f'ALERTS{{{page},alertstate="firing"}}'))
        return not is_firing and set(latest.values()) == {"resolved"}

    def _is_scraped_twice(self, since: float) -> bool:
        """Return whether the last scrape of the monitor, and two of each process until then, are later than a time."""
        scrapes = {
            series.labels["instance"]: [at for at, is_up in series.points if is_up and at > since]
            for series in self.prometheus.samples('up{job="streamjury"}[5m]')
        }
        last = max(scrapes[self.instances["monitor"]], default=since)
        return all(sum(at <= last for at in scrapes[address]) >= 2 for address in self.instances.values())

    def _describe_progress(self) -> str:
        counts = {stage: self.read_count(stage, "consumed") for stage in ("sampler", "worker", "monitor")}
        settled = f"{len(self.evaluations)} evaluated and {len(self.undecodable_positions())} given up"
        pages = [(notice["window"], notice["status"]) for notice in self.pages]
        sampled = f"{self.read_count('sampler', 'sampled')} sampled of {self.delivered}"
        return f"{settled} of {sampled}; consumed: {counts}; pages: {pages}"

    def _last_scrape(self) -> float:
        """Return the time of a scrape of the monitor after the last event."""
        return max(
            moment
            for series in self.prometheus.samples("streamjury_evaluations_total[1m]")
            for moment, _ in series.points
        )


def notifying(url: str) -> dict[str, Any]:
    """Return the repository's Alertmanager configuration, adapted to a receiver and without delays."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "dashboards/alertmanager/alertmanager.yml").read_text())
    _hurry(config["route"])
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [hook | {"url": url} for hook in receiver.get("webhook_configs", [{}])]
    return config


def _hurry(route: dict[str, Any]) -> None:
    route |= {"group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
    for inner in route.get("routes", []):
        _hurry(inner)
