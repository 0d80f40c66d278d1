"""A real installation behind the browser: broker, sampler, worker, archivist and page, with answers of every kind."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import httpx
import yaml

from stream.cli.demo import Regime, load_corpus, make_record
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.topics import plan_topics
from stream.monitor.alerts.alert import Alert, Cause, Series, Subject
from stream.monitor.alerts.summary import add_summary
from stream.monitor.detection import EventKind
from tests.integration.page.browser import payloads
from tests.integration.pipeline import StageProcess, produce_all
from tests.parts import local_http
from tests.parts.patience import patience
from tests.parts.server import free_port

TOPICS = Config().topics
TOKENS = {role: f"the token of a {role} of the tests" for role in ("viewer", "reviewer", "operator")}
NAMES = {"viewer": "vera", "reviewer": "rita", "operator": "otto"}
_SECONDS = 60.0
# Half of the traffic is judged, so that means have an interval; what a test looks for is always judged.
_SAMPLING = {"rate": 0.5, "rules": [{"name": "wanted", "match": {"tags": {"wanted": {"exists": True}}}, "rate": 1}]}
_TRAFFIC = {
    ("support-bot", Regime.HALLUCINATING): 70,
    ("support-bot", Regime.HEALTHY): 40,
    ("support-bot", Regime.UNSAFE): 10,
    ("docs-search", Regime.HEALTHY): 120,
}

HOSTILE = {
    "id": f"hostile {payloads.NAME}",
    "app": payloads.NAME,
    "tenant": f"tenant {payloads.NAME}",
    "model": f"model {payloads.NAME}",
    "question": f"Question {payloads.ALL}?",
    "answer": f"Answer {payloads.ALL}. The moon is made of {payloads.ALL}.",
    "history": [{"role": f"role {payloads.NAME}", "text": f"History {payloads.ALL}"}],
    "contexts": [{"id": f"id {payloads.NAME}", "text": f"Context {payloads.ALL}", "score": 0.5}],
    "reference": f"Reference {payloads.ALL}",
    "tags": {"wanted": f"tag {payloads.NAME}"},
}
EMOJI = {
    "id": "emoji",
    "app": "docs-search",
    "tenant": "nordwind",
    "model": "boreal-8b",
    "question": "How long does a refund to Zanzibar take?",
    "answer": (
        "A refund to Zanzibar takes five working days 😀. 😀 Astronauts on the moon collect every parcel personally. "
        "The office is closed on public holidays."
    ),
    "contexts": [
        {"id": "kb-1", "text": "A refund to Zanzibar takes five working days after the parcel has arrived."},
        {"id": "kb-2", "text": "The office is closed on public holidays."},
    ],
    "tags": {"wanted": "emoji"},
}
BROKEN = (*(f'{{"id": "{number}", {payloads.ALL}'.encode() for number in range(4)), b"\xff\xfe\x00<img src=x>")


class Installation:
    """A running page with its address, tokens and contents."""

    def __init__(self, url: str, bootstrap: str) -> None:
        self.url = url
        self.tokens = TOKENS
        self.bootstrap = bootstrap
        self._client = local_http.client(
            base_url=url,
            headers={"Authorization": f"Bearer {TOKENS['operator']}"},
            timeout=30 * patience(),
        )
        self._cookies: dict[str, tuple[str, str]] = {}

    def close(self) -> None:
        self._client.close()

    def fetch(self, path: str, **params: str) -> Any:
        """Reads the API as a program that has the operator's token."""
        reply = self._client.get(path, params=params)
        reply.raise_for_status()
        return reply.json()

    def open_session(self, role: str) -> tuple[str, str]:
        """Enters the token of a role as the page does; returns the cookie, the same for all tests."""
        if role not in self._cookies:
            with local_http.client(base_url=self.url, timeout=30 * patience()) as client:
                headers = {"X-CSRF-Token": client.get("/api/session").json()["csrf"]}
                client.post("/api/session", json={"token": TOKENS[role]}, headers=headers).raise_for_status()
                [(name, value)] = client.cookies.items()
                self._cookies[role] = name, value
        return self._cookies[role]

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Waits until a condition holds; the archive follows Kafka within a second or two."""
        deadline = time.monotonic() + _SECONDS * patience()
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.1)

    def label(self, evaluation_id: str, comment: str) -> None:
        """Labels an answer as the operator, and waits until the label is in the archive."""
        criterion = self.fetch("/api/review/next")["item"]["criterion"]
        label = {"criterion": criterion["name"], "option": criterion["levels"][0]["option"], "comment": comment}
        self._client.post("/api/labels", json={"evaluation_id": evaluation_id, **label}).raise_for_status()

        def is_archived() -> bool:
            return comment in [label["comment"] for label in self.fetch(f"/api/answers/{evaluation_id}")["labels"]]

        self.wait_for(is_archived)

    def send_labels(self, criterion: str, number: int) -> None:
        """Labels answers of all kinds as `streamjury labels send` does, always the same ones; waits for the archive."""
        answers = self.fetch("/api/answers", limit="100", criterion=criterion, max="1")["answers"]
        # They come worst first.
        some = [answer["id"] for answer in answers[:: len(answers) // number][:number]]
        ids = [self.fetch(f"/api/answers/{name}")["evaluation"]["interaction_id"] for name in some]
        labels = [
            {
                "label_id": f"{criterion} of {name}",
                "interaction_id": name,
                "criterion": criterion,
                "score": float(place > number // 3 or place % 4 == 0),
                "who": "ann",
                "labelled_at": datetime.now(UTC).isoformat(),
            }
            for place, name in enumerate(ids)
        ]
        records = [{"key": label["interaction_id"], "value": json.dumps(label)} for label in labels]
        produce_all(self.bootstrap, TOPICS.labels, records)
        self.wait_for(lambda: self._count_labels(criterion) >= number)

    def _count_labels(self, criterion: str) -> int:
        judges = self.fetch("/api/judges/labels")["judges"]
        return max((judge["labels"] for judge in judges if judge["criterion"] == criterion), default=0)

    def ask_something(self, question: str) -> None:
        """Sends one more interaction through the pipeline, and waits until it is in the archive."""
        later = {"question": question, "answer": "It comes later.", "contexts": [], "tags": {"wanted": "later"}}
        self.send([{**EMOJI, "id": question, **later}])
        self.wait_for(lambda: self.fetch("/api/answers", tag="wanted:later")["answers"])

    def send(self, interactions: list[Mapping[str, Any]]) -> None:
        records = [{"key": str(entry["id"]), "value": json.dumps(entry)} for entry in interactions]
        produce_all(self.bootstrap, TOPICS.interactions, records)

    # Content

    @property
    def answers(self) -> int:
        """Number of answers in the archive."""
        number, cursor = 0, ""
        while True:
            page = self.fetch("/api/answers", limit="100", cursor=cursor)
            number, cursor = number + len(page["answers"]), page["next"]
            if cursor is None:
                return number

    @property
    def emoji_answer(self) -> str:
        return self._find_tagged("emoji")

    @property
    def hostile_answer(self) -> str:
        return self._find_tagged(HOSTILE["tags"]["wanted"])  # type: ignore[index]

    def _find_tagged(self, value: str) -> str:
        [answer] = self.fetch("/api/answers", tag=f"wanted:{value}")["answers"]
        return str(answer["id"])

    @property
    def hostile_fields(self) -> list[str]:
        return [*_texts_in(HOSTILE)]

    @property
    def alert(self) -> str:
        return self._alert_of("support-bot")

    @property
    def hostile_alert(self) -> str:
        return self._alert_of(payloads.NAME)

    def _alert_of(self, app: str) -> str:
        return next(str(alert["id"]) for alert in self._open_alerts() if alert["app"] == app)

    def _open_alerts(self) -> list[dict[str, Any]]:
        return list(self.fetch("/api/alerts")["open"])

    # Filling

    def fill(self, *, is_hostile: bool) -> None:
        broken = [{"key": str(number), "value": value} for number, value in enumerate(BROKEN)] if is_hostile else []
        single = [HOSTILE, EMOJI] if is_hostile else [EMOJI]
        produce_all(self.bootstrap, TOPICS.interactions, [*broken, *_traffic()])
        self.send(single)
        sent = len(broken) + sum(_TRAFFIC.values()) + len(single)
        self.wait_for(lambda: self.fetch("/api/pipeline")["funnel"][0]["records"] >= sent)
        self.wait_for(self._is_settled)
        self.wait_for(lambda: self._has_texts(self.emoji_answer))
        self.wait_for(lambda: not is_hostile or self._has_texts(self.hostile_answer))
        # The monitor itself raises one for support-bot; these two it would raise after hours only.
        onset = datetime.now(UTC) - timedelta(minutes=3)
        alerts = [make_alert("docs-search", EventKind.CLEARED, onset)]
        if is_hostile:
            alerts.append(make_alert(payloads.NAME, EventKind.RAISED, onset))
        produce_all(
            self.bootstrap, TOPICS.alerts, [{"key": alert.key, "value": alert.model_dump_json()} for alert in alerts]
        )
        wanted = {"support-bot", payloads.NAME} if is_hostile else {"support-bot"}
        self.wait_for(lambda: wanted <= {alert["app"] for alert in self._open_alerts()})

    def _is_settled(self) -> bool:
        """Whether everything that was sampled is judged and archived."""
        sampled = next(step["records"] for step in self.fetch("/api/pipeline")["funnel"] if step["name"] == "sampled")
        return sampled > 0 and self.answers == sampled

    def _has_texts(self, evaluation_id: str) -> bool:
        """Whether the texts of an answer are archived; they come from another topic than its evaluation."""
        return self.fetch(f"/api/answers/{evaluation_id}")["texts"] is not None


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(part)


def _traffic() -> Iterator[dict[str, Any]]:
    corpus, rng, now = load_corpus().in_language("en"), Random(20), datetime.now(UTC)
    for (app, regime), number in _TRAFFIC.items():
        groups = [group for group in corpus.groups if group.app == app and not group.smalltalk]
        for _ in range(number):
            record = make_record(corpus, rng.choice(groups), regime, rng, now)
            yield {"key": record.key, "value": record.value}


def make_alert(app: str, kind: EventKind, onset: datetime) -> Alert:
    now = datetime.now(UTC)
    return add_summary(
        Alert(
            alert_id=str(uuid5(NAMESPACE_URL, app)),
            kind=kind,
            subject=Subject.QUALITY,
            series=Series(app=app, dimension="composite"),
            at=now,
            raised_at=onset + timedelta(minutes=2),
            onset_at=onset,
            cause=Cause.RECOVERED if kind is EventKind.CLEARED else None,
            target=0.84,
            evidence=12.0,
            enough=10.0,
            estimate=0.61,
            low=0.57,
            high=0.65,
            effective_n=58.0,
            scores=60,
            fingerprint="f00d",
        )
    )


@contextmanager
def open_installation(folder: Path, *, is_hostile: bool = True) -> Iterator[Installation]:
    """Starts everything, fills it, with or without texts that mean harm, and ends it with the block."""
    with EmbeddedBroker() as broker:
        broker.make_topics(plan.name for plan in plan_topics(Config()))
        port = free_port()
        config = {
            "sampling": _SAMPLING,
            "archive": {"url": f"sqlite:///{folder}/archive.db"},
            "http": {
                "port": port,
                "tokens": [{"name": NAMES[role], "role": role, "token": token} for role, token in TOKENS.items()],
            },
            "page": {"trace_url": "https://traces.example.com/{trace_id}", "review_rate": 1.0},
        }
        path = folder / "streamjury.yaml"
        path.write_text(yaml.safe_dump(config))
        log = folder / "run.log"
        with StageProcess("run", bootstrap=broker.bootstrap, log=log, config=path, http__port=str(port)) as process:
            installation = Installation(f"http://127.0.0.1:{port}", broker.bootstrap)
            with closing(installation):
                installation.wait_for(lambda: _answers(installation.url) or process.has_ended())
                assert not process.has_ended(), log.read_text()
                installation.fill(is_hostile=is_hostile)
                yield installation


def _answers(url: str) -> bool:
    try:
        return local_http.get(f"{url}/api/session", timeout=30 * patience()).is_success
    except httpx.TransportError:
        return False
