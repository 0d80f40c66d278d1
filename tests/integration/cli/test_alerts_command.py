"""`streamjury alerts` against a broker: what is published is listed and explained, and what is missing is said."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from judges.values.evaluation import CompositeStatus, Evaluation
from sinks.topics.results import EvaluationTopic
from stream.cli.main import main
from stream.cli.support import cluster
from stream.config.names import CANARY
from stream.kafka.embedded import EmbeddedBroker
from stream.monitor.alerts.alert import Alert, Cause, Series, Subject
from stream.monitor.detection import EventKind
from tests.integration.pipeline import produce_all
from tests.parts.documents.json_fields import json_fields
from tests.parts.documents.pages import ROOT, blocks
from tests.parts.kafka import KafkaBroker
from tests.stream.monitor.explain.invented import ONSET, RAISED, alert, dimension, evaluation, traffic

LATER = RAISED + timedelta(hours=2)
BOT = Series(app="support-bot", dimension="groundedness")
SHOP = Series(app="shop", dimension="composite")
CANARIES = Series(app="canaries", dimension="groundedness")


class Place:
    """A broker with topics of its own."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self.alerts, self.evaluations = f"{prefix}-alerts", f"{prefix}-evaluations"
        self._environment = {
            "STREAMJURY__KAFKA__BOOTSTRAP": bootstrap,
            "STREAMJURY__TOPICS__ALERTS": self.alerts,
            "STREAMJURY__TOPICS__EVALUATIONS": self.evaluations,
            "COLUMNS": "200",
        }

    def announce(self, *alerts: Alert) -> None:
        values = [
            {"key": each.key.encode(), "value": each.model_dump_json(exclude_none=True).encode()} for each in alerts
        ]
        produce_all(self._bootstrap, self.alerts, values)

    def publish(self, evaluations: Iterable[Evaluation], late: timedelta = timedelta()) -> None:
        """Each at the time when it was made, or so much later."""
        topic = EvaluationTopic(self.evaluations)
        records = [
            {
                "key": message.key,
                "value": message.value,
                "timestamp": int((each.evaluated_at + late).timestamp() * 1000),
            }
            for each in evaluations
            for message in topic.messages(each)
        ]
        produce_all(self._bootstrap, self.evaluations, records)

    def run(self, *arguments: str, config: Path | None = None) -> Result:
        extra = ["--config", str(config)] if config is not None else []
        return CliRunner(env=self._environment).invoke(main, ["alerts", *arguments, *extra])

    def told(self, *arguments: str, config: Path | None = None) -> str:
        result = self.run(*arguments, config=config)
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def place(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Place:
    return Place(broker.bootstrap, re.sub(r"\W", "-", request.node.name))


def short(found: Alert) -> str:
    return found.alert_id[:8]


def cleared(found: Alert, cause: Cause = Cause.RECOVERED) -> Alert:
    recovered = LATER - timedelta(minutes=30) if cause is Cause.RECOVERED else None
    changes = {"kind": EventKind.CLEARED, "at": LATER, "cause": cause, "recovered_at": recovered, "examples": ()}
    return found.model_copy(update={**changes, "summary": ""})


class TestList:
    def test_open_alarms_are_told_in_plain_words(self, place: Place) -> None:
        place.announce(alert(series=SHOP), alert(series=BOT))
        told = place.told("list")
        assert told.count("too low") == 2
        assert f"{short(alert(series=BOT))}  the groundedness of support-bot is too low\n" in told
        assert "since 2026-11-15 02:00 UTC (" in told
        assert "mean 0.55 (0.42 to 0.68), target 0.85; chance of a false alarm when raised: at most 1 in 148\n" in told

    def test_the_bare_command_lists(self, place: Place) -> None:
        place.announce(alert(series=BOT), cleared(alert(series=SHOP)))
        assert short(alert(series=BOT)) in place.told()
        assert short(alert(series=SHOP)) not in place.told()
        assert place.told().endswith("\n1 cleared alert not listed; --all shows when and why they were cleared\n")
        assert short(alert(series=SHOP)) in place.told("--all")
        assert "not listed" not in place.told("--all")

    def test_the_newest_announcement_of_a_series_counts(self, place: Place) -> None:
        place.announce(alert(series=BOT), alert(series=SHOP), cleared(alert(series=BOT)))
        assert short(alert(series=BOT)) not in place.told("list")
        told = place.told("list", "--all").splitlines()
        heads = [line for line in told if line and not line.startswith(" ")]
        assert [line.split()[0] for line in heads] == [short(alert(series=SHOP)), short(alert(series=BOT))]
        assert "cleared 2026-11-15 04:10 UTC: recovered since 2026-11-15 03:40 UTC" in "\n".join(told)

    def test_one_app_alone(self, place: Place) -> None:
        place.announce(alert(series=SHOP), alert(series=BOT))
        assert place.told("list", "--app", "shop").count("too low") == 1
        assert place.told("list", "--app", "none").startswith(
            "No alerts about none; there are alerts for: shop, support-bot\n"
        )

    def test_alarms_about_the_judges_come_first(self, place: Place) -> None:
        judges = alert(series=CANARIES, subject=Subject.JUDGES, estimate=0.4, target=0.985)
        updated = alert(series=CANARIES, subject=Subject.JUDGES, estimate=1.0, kind=EventKind.UPDATED, at=LATER)
        place.announce(judges, updated, alert(series=BOT, raised_at=LATER, alert_id="99999999-new"))
        told = place.told("list")
        assert told.startswith(f"{short(judges)}  the judges have changed: groundedness\n")
        assert "40 % of the canaries kept their verdict when it was raised; since then 100 % repeat the new one" in told
        assert "open, last update 2026-11-15 04:10 UTC" in told
        assert place.told("explain").startswith("Alert 99999999")

    def test_a_cleared_alarm_tells_how_low_it_was(self, place: Place) -> None:
        over = cleared(alert(series=BOT)).model_copy(update={"estimate": 0.97, "low": 0.95, "high": 0.99})
        place.announce(alert(series=BOT), over)
        words = "fell to 0.55 (0.42 to 0.68), target 0.85; 0.97 (0.95 to 0.99) when it was cleared"
        assert words in place.told("list", "--all")

    def test_json_is_what_is_on_the_topic(self, place: Place) -> None:
        place.announce(alert(series=BOT), cleared(alert(series=SHOP)))
        lines = place.told("list", "--all", "--json").splitlines()
        assert [json.loads(line)["series"]["app"] for line in lines] == ["support-bot", "shop"]
        assert lines[0] == alert(series=BOT).model_dump_json(exclude_none=True)

    def test_a_series_without_alerts_any_more_is_not_listed(self, place: Place, broker: EmbeddedBroker) -> None:
        place.announce(alert(series=BOT))
        produce_all(broker.bootstrap, place.alerts, [{"key": alert(series=BOT).key.encode(), "value": None}])
        assert place.told("list").startswith("No alerts yet.")

    def test_records_of_strangers_are_counted_and_left_out(self, place: Place, broker: EmbeddedBroker) -> None:
        place.announce(alert(series=BOT))
        produce_all(broker.bootstrap, place.alerts, [{"key": b"x", "value": b"\xff"}])
        result = place.run("list")
        assert result.exit_code == 0
        assert result.stderr == f"skipped in {place.alerts}: 1 record that cannot be read\n"

    def test_texts_of_strangers_do_not_steer_the_terminal(self, place: Place) -> None:
        place.announce(alert(series=Series(app="evil\x1b[2J", dimension="composite")))
        assert "\x1b" not in place.told("list")


class TestNothingToTell:
    def test_before_the_first_alarm(self, place: Place) -> None:
        assert place.told("list").startswith("No alerts yet. The monitor (`streamjury monitor`")
        assert place.told("explain").startswith("No alerts yet.")

    def test_when_all_are_cleared(self, place: Place) -> None:
        place.announce(cleared(alert(series=BOT)))
        assert place.told("explain") == "No open alerts; `streamjury alerts list --all` shows 1 that was cleared.\n"

    def test_when_nothing_is_watched(self, place: Place, tmp_path: Path) -> None:
        file = tmp_path / "off.yaml"
        file.write_text("detection: {enabled: false}\n", encoding="utf-8")
        assert "detection.enabled is false" in place.told("list", config=file)

    def test_an_unknown_id_leads_to_those_there_are(self, place: Place) -> None:
        known = alert(series=BOT)
        place.announce(known)
        result = place.run("explain", f"{short(known)[:7]}x")
        assert result.exit_code == 1
        assert f"closest matches:\n  {short(known)}  the groundedness of support-bot is too low" in result.stderr

    def test_a_beginning_that_several_have_is_not_guessed(self, place: Place) -> None:
        twins = [alert(series=series, alert_id=f"abcdef12-{number}") for number, series in enumerate((BOT, SHOP))]
        place.announce(*twins)
        result = place.run("explain", "abcdef12")
        assert result.exit_code == 1
        assert "2 alerts start with 'abcdef12'; give more of the id:" in result.stderr
        assert "abcdef12-0" in result.stderr
        assert "abcdef12-1" in result.stderr

    def test_a_broker_that_is_away(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5)
        result = Place("127.0.0.1:1", "x").run("list")
        assert result.exit_code == 3
        assert "no Kafka broker at 127.0.0.1:1" in result.stderr

    def test_a_topic_that_is_not_there(self, real_kafka: KafkaBroker) -> None:
        result = Place(real_kafka.bootstrap, "nothing-here").run("list")
        assert result.exit_code == 3
        assert "topic nothing-here-alerts does not exist; create it with `streamjury topics create`" in result.stderr


class TestExplain:
    def test_a_drop_of_one_model_is_explained(self, place: Place) -> None:
        found = alert(series=BOT, at=RAISED)
        place.publish(traffic())
        place.announce(found, alert(series=BOT, kind=EventKind.UPDATED, at=LATER, evidence=0.1))
        told = place.told("explain", short(found))
        assert told.startswith(f"Alert {short(found)}: the groundedness of support-bot is too low\n")
        assert "The groundedness of support-bot is still below its target of 0.85" in told
        assert "likely start: 2026-11-15 02:00 UTC, 10 min before the announcement" in told
        assert "chance of a false alarm when it was raised: at most 1 in 148; this does not measure" in told
        assert "within 30 days would be at most 1 %, however often you check" in told
        assert "300 scores before, 100 scores since" in told
        assert re.search(
            r"Likely driver: model model-2\. It accounts for all of the fall; its mean: 0\.9\d+ → 0\.", told
        )
        assert re.search(r"^model +model-2 ", told, re.MULTILINE)
        assert "Too many values, left out: tag request." in told
        assert "Q What of t-1-310?" in told
        assert "A This of t-1-310." in told
        assert "groundedness: groundedness is " in told
        assert "groundedness fell: check retrieval" in told
        assert "/public/runbooks/StreamjuryDropDetected.html" in told

    def test_the_explanation_as_json(self, place: Place) -> None:
        place.publish(traffic())
        place.announce(alert(series=BOT, at=RAISED))
        document = json.loads(place.told("explain", "--json"))
        assert list(document) == json_fields("alerts explain")
        assert document["alert"]["series"]["app"] == "support-bot"
        assert document["explanation"]["whole"]["counts"] == [300, 100]
        slices = {part["name"]: part["slices"] for part in document["explanation"]["attributes"]}
        assert slices["model"][0]["value"] == "model-2"
        assert any("Likely driver: model model-2." in finding for finding in document["findings"])
        assert (document["canaries"], document["sides"]) == (None, ["before", "since"])
        assert document["examples"][0]["interaction_id"]

    def test_as_json_no_open_alert_is_a_note(self, place: Place) -> None:
        document = json.loads(place.told("explain", "--json"))
        assert list(document) == json_fields("alerts explain")
        assert document["alert"] is None
        assert document["note"].startswith("No alerts yet")

    def test_the_newest_open_alarm_is_explained_where_none_is_named(self, place: Place) -> None:
        newer = alert(series=SHOP, raised_at=LATER, alert_id="99999999-new")
        place.announce(alert(series=BOT), newer)
        assert place.told("explain").startswith("Alert 99999999: the composite of shop is too low\n")

    def test_a_fall_of_the_composite_names_the_criterion(self, place: Place) -> None:
        place.publish(traffic(bad="all"))
        place.announce(alert(series=Series(app="support-bot", dimension="composite")))
        told = place.told("explain")
        assert "Criterion: groundedness, with 16.7 % of the weight, accounts for all of the fall" in told
        assert "Likely driver: none. The fall is spread over the traffic" in told

    def test_an_answer_that_failed_is_shown_with_the_required_criterion(self, place: Place, tmp_path: Path) -> None:
        """Another criterion of the same answer may have a lower score, and is not why it failed."""
        failed = evaluation({"groundedness": 0.5, "clarity": 0.0}, evaluated_at=RAISED, name="t-1-310")
        status = failed.composite.model_copy(update={"status": CompositeStatus.FAILED, "score": 0.0})
        place.publish([failed.model_copy(update={"composite": status})])
        place.announce(alert(series=Series(app="support-bot", dimension="composite")))
        config = tmp_path / "required.yaml"
        config.write_text("composite: {required: [groundedness]}\n", encoding="utf-8")
        told = place.told("explain", config=config)
        assert "    groundedness: groundedness is 0.5, says the judge\n" in told
        assert "clarity is 0" not in told

    def test_without_evaluations_it_says_so(self, place: Place) -> None:
        place.announce(alert(series=BOT))
        told = place.told("explain")
        assert "No scores to compare: 0 scores before, 0 scores since." in told
        assert (
            f"{place.evaluations} no longer has evaluations from that time. The embedded broker keeps only a few"
            in told
        )
        assert "its evaluation is no longer on the topic" in told

    def test_where_what_was_before_is_gone_it_says_how_far_back_the_topic_goes(self, place: Place) -> None:
        place.publish(each for each in traffic() if each.evaluated_at >= ONSET + timedelta(seconds=20))
        place.announce(alert(series=BOT))
        told = place.told("explain")
        assert f"{place.evaluations} starts at 2026-11-15 02:00:20 UTC, after the onset at 2026-11-15 02:00:00" in told

    def test_judges_that_changed_at_the_time_are_named(self, place: Place) -> None:
        judges = alert(series=CANARIES, subject=Subject.JUDGES, target=0.985)
        place.announce(judges, alert(series=BOT), alert(series=Series(app="support-bot", dimension="clarity")))
        words = f"The judges changed their verdicts on groundedness at 2026-11-15 02:00 UTC (alert {short(judges)})"
        assert words in place.told("explain", short(alert(series=BOT)))
        assert words not in place.told("explain", short(alert(series=Series(app="support-bot", dimension="clarity"))))

    def test_a_cleared_alarm_is_explained_up_to_its_recovery_with_examples_of_its_own(self, place: Place) -> None:
        """Its first announcement was compacted away, and the examples with it."""
        over = cleared(alert(series=BOT))
        place.publish([*traffic(), *(evaluation(evaluated_at=LATER + timedelta(seconds=at)) for at in range(50))])
        place.announce(over)
        told = place.told("explain", short(over))
        assert "300 scores before, 100 scores since" in told
        assert "chance of a false alarm when it was raised: at most 1 in 100" in told
        assert told.count("A This of t-1-") == 3

    def test_changed_judges_are_told_with_the_canaries_and_what_was_withdrawn(self, place: Place) -> None:
        judges = alert(series=CANARIES, subject=Subject.JUDGES, target=0.985, worst_dimensions=(), examples=())
        withdrawn = cleared(alert(series=BOT), Cause.JUDGES_CHANGED)
        place.publish(canaries())
        place.announce(judges, withdrawn)
        told = place.told("explain", short(judges))
        assert "the judges have changed: groundedness" in told
        assert (
            f"Quality alerts withdrawn because of this: {short(withdrawn)} (the groundedness of support-bot)." in told
        )
        assert "Canaries with a different verdict: 1 of 2" in told
        assert re.search(r"^kb-1 +supported +hallucinated +3 of 3 times", told, re.MULTILINE)
        assert "/StreamjuryJudgesChanged.html" in told
        assert "withdrawn because the judges had changed" in place.told("explain", short(withdrawn))

    def test_two_models_are_compared_with_each_other(self, place: Place, tmp_path: Path) -> None:
        file = tmp_path / "versions.yaml"
        versions = "[{name: new-model, app: support-bot, a: model-2, b: model-1}]"
        file.write_text(f"detection: {{versions: {versions}}}\n", encoding="utf-8")
        series = Series(app="support-bot", dimension="composite", attribute="versions", value="new-model")
        numbers: dict[str, Any] = {"estimate": -0.15, "low": -0.2, "high": -0.1, "target": 0.02}
        place.publish(traffic(before=0, since=200))
        found = alert(series=series, subject=Subject.VERSIONS, models=("model-2", "model-1"), **numbers)
        place.announce(found)
        told = place.told("explain", config=file)
        assert "model-2 is worse than model-1: new-model (support-bot)" in told
        assert re.search(
            r"model-2 is worse than model-1 by 0\.1\d+ \(.*\): its mean is 0\.8\d+, that of model-1 0\.9", told
        )
        assert "fall" not in told
        assert "fell" not in told
        assert "Criterion: groundedness" in told
        assert place.told("explain") == told
        place.announce(found.model_copy(update={"models": ()}))
        assert "the two models are unknown" in place.told("explain")

    def test_on_a_real_broker_only_what_lies_around_the_onset_is_read(self, real_kafka: KafkaBroker) -> None:
        """By the times of the records: what was published long before and after is not even looked at."""
        place = Place(real_kafka.bootstrap, "alerts-explained")
        over = cleared(alert(series=BOT))
        real_kafka.create_topics(place.alerts, place.evaluations, config={"retention.ms": "-1"})
        place.publish(traffic(seed=2), late=timedelta(days=-3))
        place.publish(traffic())
        place.publish(traffic(seed=3), late=timedelta(days=1))
        place.announce(over)
        told = place.told("explain", short(over))
        assert "300 scores before, 100 scores since" in told
        assert "Likely driver: model model-2" in told


class TestGuide:
    def test_what_the_guide_shows_is_what_the_commands_print(self, place: Place) -> None:
        found = alert(series=BOT, estimate=0.44, low=0.31, high=0.58, worst_dimensions=())
        place.publish(released(each) for each in traffic())
        place.announce(found)
        listed, explained = (
            block for block in blocks(ROOT / "docs/guides/alert.md", "text") if "groundedness of" in block.code
        )
        for block, told in ((listed, place.told("list")), (explained, place.told("explain"))):
            printed = {" ".join(line.split()) for line in re.sub(r"\(.* ago\)", "(… ago)", told).splitlines()}
            shown = [" ".join(line.split()) for line in re.sub(r"\(.* ago\)", "(… ago)", block.code).splitlines()]
            assert [line for line in shown if line != "…" and line not in printed] == []


def released(each: Evaluation) -> Evaluation:
    """One model came with a release."""
    release = "2026-11" if each.model == "model-2" else "2026-10"
    return each.model_copy(update={"tags": {"release": release, "region": each.tags["region"]}})


def canaries() -> Iterator[Evaluation]:
    for at in range(-3, 3):
        for canary, now in (("kb-1", "hallucinated"), ("kb-2", "supported")):
            verdict = dimension(1.0, "groundedness", "supported" if at < 0 else now)
            at_hour = ONSET + timedelta(hours=at)
            judged = evaluation(evaluated_at=at_hour, app="canaries", lane=CANARY, tags={"canary": canary})
            yield judged.model_copy(update={"dimensions": {"groundedness": verdict}})
