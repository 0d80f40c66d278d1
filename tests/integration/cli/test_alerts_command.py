"""`streamjury alerts` against a broker: published alerts are listed and explained, and missing data is reported."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from judges.values.evaluation import CompositeStatus, Evaluation
from sinks.base import SCHEMA
from sinks.topics.headers import SCHEMA_VERSION
from sinks.topics.results import EvaluationTopic
from stream.cli.main import main
from stream.cli.support import cluster
from stream.config.names import CANARY
from stream.kafka.embedded import EmbeddedBroker
from stream.monitor.alerts.alert import Alert, Attribution, Cause, Series, Subject
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
    """A broker with separate topics."""

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
            {"key": alert.key.encode(), "value": alert.model_dump_json(exclude_none=True).encode()} for alert in alerts
        ]
        produce_all(self._bootstrap, self.alerts, values)

    def publish(
        self, evaluations: Iterable[Evaluation], late: timedelta = timedelta(), *, version: bytes = SCHEMA[1]
    ) -> None:
        """Publish each evaluation with the time it was made, or later by `late`."""
        topic = EvaluationTopic(self.evaluations)
        records = [
            {
                "key": message.key,
                "value": message.value,
                "headers": [(SCHEMA_VERSION, version)],
                "timestamp": int((judged.evaluated_at + late).timestamp() * 1000),
            }
            for judged in evaluations
            for message in topic.messages(judged)
        ]
        produce_all(self._bootstrap, self.evaluations, records)

    def run(self, *arguments: str, config: Path | None = None) -> Result:
        extra = ["--config", str(config)] if config is not None else []
        return CliRunner(env=self._environment).invoke(main, ["alerts", *arguments, *extra])

    def run_ok(self, *arguments: str, config: Path | None = None) -> str:
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


def short(alert: Alert) -> str:
    return alert.alert_id[:8]


def clear(alert: Alert, cause: Cause = Cause.RECOVERED) -> Alert:
    recovered = LATER - timedelta(minutes=30) if cause is Cause.RECOVERED else None
    changes = {"kind": EventKind.CLEARED, "at": LATER, "cause": cause, "recovered_at": recovered, "examples": ()}
    return alert.model_copy(update={**changes, "summary": ""})


class TestList:
    def test_open_alarms_are_listed_in_plain_words(self, place: Place) -> None:
        place.announce(alert(series=SHOP), alert(series=BOT))
        output = place.run_ok("list")
        assert output.count("too low") == 2
        assert f"{short(alert(series=BOT))}  the groundedness of support-bot is too low\n" in output
        assert "since 2026-11-15 02:00 UTC (" in output
        assert (
            "mean 0.55 (0.42 to 0.68), target 0.85; chance of a false alarm when raised: at most 1 in 148\n" in output
        )

    def test_the_bare_command_lists(self, place: Place) -> None:
        place.announce(alert(series=BOT), clear(alert(series=SHOP)))
        assert short(alert(series=BOT)) in place.run_ok()
        assert short(alert(series=SHOP)) not in place.run_ok()
        assert place.run_ok().endswith("\n1 cleared alert not listed; --all shows when and why they were cleared\n")
        assert short(alert(series=SHOP)) in place.run_ok("--all")
        assert "not listed" not in place.run_ok("--all")

    def test_the_newest_announcement_of_a_series_counts(self, place: Place) -> None:
        place.announce(alert(series=BOT), alert(series=SHOP), clear(alert(series=BOT)))
        assert short(alert(series=BOT)) not in place.run_ok("list")
        lines = place.run_ok("list", "--all").splitlines()
        heads = [line for line in lines if line and not line.startswith(" ")]
        assert [line.split()[0] for line in heads] == [short(alert(series=SHOP)), short(alert(series=BOT))]
        assert "cleared 2026-11-15 04:10 UTC: recovered since 2026-11-15 03:40 UTC" in "\n".join(lines)

    def test_one_app_alone(self, place: Place) -> None:
        place.announce(alert(series=SHOP), alert(series=BOT))
        assert place.run_ok("list", "--app", "shop").count("too low") == 1
        assert place.run_ok("list", "--app", "none").startswith(
            "No alerts about none; there are alerts for: shop, support-bot\n"
        )

    def test_alarms_about_the_judges_come_first(self, place: Place) -> None:
        judges = alert(series=CANARIES, subject=Subject.JUDGES, estimate=0.4, target=0.985)
        updated = alert(series=CANARIES, subject=Subject.JUDGES, estimate=1.0, kind=EventKind.UPDATED, at=LATER)
        place.announce(judges, updated, alert(series=BOT, raised_at=LATER, alert_id="99999999-new"))
        output = place.run_ok("list")
        assert output.startswith(f"{short(judges)}  the judges have changed: groundedness\n")
        assert (
            "40 % of the canaries kept their verdict when it was raised; since then 100 % repeat the new one" in output
        )
        assert "open, last update 2026-11-15 04:10 UTC" in output
        assert place.run_ok("explain").startswith("Alert 99999999")

    def test_a_cleared_alarm_shows_how_low_it_was(self, place: Place) -> None:
        over = clear(alert(series=BOT)).model_copy(update={"estimate": 0.97, "low": 0.95, "high": 0.99})
        place.announce(alert(series=BOT), over)
        words = "fell to 0.55 (0.42 to 0.68), target 0.85; 0.97 (0.95 to 0.99) when it was cleared"
        assert words in place.run_ok("list", "--all")

    def test_json_is_the_record_on_the_topic(self, place: Place) -> None:
        place.announce(alert(series=BOT), clear(alert(series=SHOP)))
        lines = place.run_ok("list", "--all", "--json").splitlines()
        assert [json.loads(line)["series"]["app"] for line in lines] == ["support-bot", "shop"]
        assert lines[0] == alert(series=BOT).model_dump_json(exclude_none=True)

    def test_a_series_whose_alerts_were_deleted_is_not_listed(self, place: Place, broker: EmbeddedBroker) -> None:
        place.announce(alert(series=BOT))
        produce_all(broker.bootstrap, place.alerts, [{"key": alert(series=BOT).key.encode(), "value": None}])
        assert place.run_ok("list").startswith("No alerts yet.")

    def test_foreign_records_are_counted_and_left_out(self, place: Place, broker: EmbeddedBroker) -> None:
        place.announce(alert(series=BOT))
        produce_all(broker.bootstrap, place.alerts, [{"key": b"x", "value": b"\xff"}])
        result = place.run("list")
        assert result.exit_code == 0
        assert result.stderr == f"skipped in {place.alerts}: 1 record that cannot be read\n"

    def test_foreign_texts_do_not_control_the_terminal(self, place: Place) -> None:
        place.announce(alert(series=Series(app="evil\x1b[2J", dimension="composite")))
        assert "\x1b" not in place.run_ok("list")


class TestNoAlerts:
    def test_before_the_first_alarm(self, place: Place) -> None:
        assert place.run_ok("list").startswith("No alerts yet. The monitor (`streamjury monitor`")
        assert place.run_ok("explain").startswith("No alerts yet.")

    def test_when_all_are_cleared(self, place: Place) -> None:
        place.announce(clear(alert(series=BOT)))
        assert place.run_ok("explain") == "No open alerts; `streamjury alerts list --all` shows 1 that was cleared.\n"

    def test_when_nothing_is_watched(self, place: Place, tmp_path: Path) -> None:
        file = tmp_path / "off.yaml"
        file.write_text("detection: {enabled: false}\n", encoding="utf-8")
        assert "detection.enabled is false" in place.run_ok("list", config=file)

    def test_an_unknown_id_lists_the_closest_matches(self, place: Place) -> None:
        existing = alert(series=BOT)
        place.announce(existing)
        result = place.run("explain", f"{short(existing)[:7]}x")
        assert result.exit_code == 1
        assert f"closest matches:\n  {short(existing)}  the groundedness of support-bot is too low" in result.stderr

    def test_an_ambiguous_prefix_is_not_guessed(self, place: Place) -> None:
        twins = [alert(series=series, alert_id=f"abcdef12-{number}") for number, series in enumerate((BOT, SHOP))]
        place.announce(*twins)
        result = place.run("explain", "abcdef12")
        assert result.exit_code == 1
        assert "2 alerts start with 'abcdef12'; give more of the id:" in result.stderr
        assert "abcdef12-0" in result.stderr
        assert "abcdef12-1" in result.stderr

    def test_an_unreachable_broker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5)
        result = Place("127.0.0.1:1", "x").run("list")
        assert result.exit_code == 3
        assert "no Kafka broker at 127.0.0.1:1" in result.stderr

    def test_a_missing_topic(self, real_kafka: KafkaBroker) -> None:
        result = Place(real_kafka.bootstrap, "nothing-here").run("list")
        assert result.exit_code == 3
        assert "topic nothing-here-alerts does not exist; create it with `streamjury topics create`" in result.stderr


class TestExplain:
    def test_a_drop_of_one_model_is_explained(self, place: Place) -> None:
        raised = alert(series=BOT, at=RAISED)
        place.publish(traffic())
        place.announce(raised, alert(series=BOT, kind=EventKind.UPDATED, at=LATER, evidence=0.1))
        output = place.run_ok("explain", short(raised))
        assert output.startswith(f"Alert {short(raised)}: the groundedness of support-bot is too low\n")
        assert "The groundedness of support-bot is still below its target of 0.85" in output
        assert "likely start: 2026-11-15 02:00 UTC, 10 min before the announcement" in output
        assert "chance of a false alarm when it was raised: at most 1 in 148; this does not measure" in output
        assert "within 30 days would be at most 1 %, however often you check" in output
        assert "300 scores before, 100 scores since" in output
        assert re.search(
            r"Likely driver: model model-2\. It accounts for all of the fall; its mean: 0\.9\d+ → 0\.", output
        )
        assert re.search(r"^model +model-2 ", output, re.MULTILINE)
        assert "Too many values, left out: tag request." in output
        assert "Q What of t-1-310?" in output
        assert "A This of t-1-310." in output
        assert "groundedness: groundedness is " in output
        assert "groundedness fell: check retrieval" in output
        assert "/public/runbooks/StreamjuryDropDetected.html" in output

    def test_the_explanation_as_json(self, place: Place) -> None:
        place.publish(traffic())
        place.announce(alert(series=BOT, at=RAISED))
        document = json.loads(place.run_ok("explain", "--json"))
        assert list(document) == json_fields("alerts explain")
        assert document["alert"]["series"]["app"] == "support-bot"
        assert document["explanation"]["whole"]["counts"] == [300, 100]
        slices = {part["name"]: part["slices"] for part in document["explanation"]["attributes"]}
        assert slices["model"][0]["value"] == "model-2"
        assert any("Likely driver: model model-2." in finding for finding in document["findings"])
        assert (document["canaries"], document["sides"]) == (None, ["before", "since"])
        assert document["examples"][0]["interaction_id"]

    def test_evaluations_of_a_later_version_are_skipped(self, place: Place) -> None:
        place.publish(traffic())
        place.publish(traffic(seed=2), version=b"2")
        place.announce(alert(series=BOT, at=RAISED))
        assert json.loads(place.run_ok("explain", "--json"))["explanation"]["whole"]["counts"] == [300, 100]

    def test_as_json_no_open_alert_is_a_note(self, place: Place) -> None:
        document = json.loads(place.run_ok("explain", "--json"))
        assert list(document) == json_fields("alerts explain")
        assert document["alert"] is None
        assert document["note"].startswith("No alerts yet")

    def test_the_newest_open_alarm_is_explained_by_default(self, place: Place) -> None:
        newer = alert(series=SHOP, raised_at=LATER, alert_id="99999999-new")
        place.announce(alert(series=BOT), newer)
        assert place.run_ok("explain").startswith("Alert 99999999: the composite of shop is too low\n")

    def test_a_fall_of_the_composite_names_the_criterion(self, place: Place) -> None:
        place.publish(traffic(bad="all"))
        place.announce(alert(series=Series(app="support-bot", dimension="composite")))
        output = place.run_ok("explain")
        assert "Criterion: groundedness, with 16.7 % of the weight, accounts for all of the fall" in output
        assert "Likely driver: none. The fall is spread over the traffic" in output

    def test_an_answer_that_failed_is_shown_with_the_required_criterion(self, place: Place, tmp_path: Path) -> None:
        """Another criterion of the same answer may have a lower score, but is not the reason it failed."""
        failed = evaluation({"groundedness": 0.5, "clarity": 0.0}, evaluated_at=RAISED, name="t-1-310")
        status = failed.composite.model_copy(update={"status": CompositeStatus.FAILED, "score": 0.0})
        place.publish([failed.model_copy(update={"composite": status})])
        place.announce(alert(series=Series(app="support-bot", dimension="composite")))
        config = tmp_path / "required.yaml"
        config.write_text("composite: {required: [groundedness]}\n", encoding="utf-8")
        output = place.run_ok("explain", config=config)
        assert "    groundedness: groundedness is 0.5, says the judge\n" in output
        assert "clarity is 0" not in output

    def test_without_evaluations_it_says_so(self, place: Place) -> None:
        place.announce(alert(series=BOT))
        output = place.run_ok("explain")
        assert "No scores to compare: 0 scores before, 0 scores since." in output
        assert (
            f"{place.evaluations} no longer has evaluations from that time. The embedded broker keeps only a few"
            in output
        )
        assert "its evaluation is no longer on the topic" in output

    def test_if_earlier_evaluations_are_deleted_it_says_how_far_back_the_topic_goes(self, place: Place) -> None:
        place.publish(judged for judged in traffic() if judged.evaluated_at >= ONSET + timedelta(seconds=20))
        place.announce(alert(series=BOT))
        output = place.run_ok("explain")
        assert (
            f"{place.evaluations} starts at 2026-11-15 02:00:20 UTC, after the onset at 2026-11-15 02:00:00" in output
        )

    def test_judges_that_changed_at_the_time_are_named(self, place: Place) -> None:
        judges = alert(series=CANARIES, subject=Subject.JUDGES, target=0.985)
        place.announce(judges, alert(series=BOT), alert(series=Series(app="support-bot", dimension="clarity")))
        words = f"The judges changed their verdicts on groundedness at 2026-11-15 02:00 UTC (alert {short(judges)})"
        assert words in place.run_ok("explain", short(alert(series=BOT)))
        assert words not in place.run_ok("explain", short(alert(series=Series(app="support-bot", dimension="clarity"))))

    def test_a_cleared_alarm_is_explained_up_to_its_recovery_with_its_own_examples(self, place: Place) -> None:
        """Its first announcement, and its examples with it, were compacted away."""
        over = clear(alert(series=BOT))
        place.publish(
            [*traffic(), *(evaluation(evaluated_at=LATER + timedelta(seconds=second)) for second in range(50))]
        )
        place.announce(over)
        output = place.run_ok("explain", short(over))
        assert "300 scores before, 100 scores since" in output
        assert "chance of a false alarm when it was raised: at most 1 in 100" in output
        assert output.count("A This of t-1-") == 3

    def test_changed_judges_are_explained_with_the_canaries_and_the_withdrawn_alerts(self, place: Place) -> None:
        judges = alert(series=CANARIES, subject=Subject.JUDGES, target=0.985, worst_dimensions=(), examples=())
        withdrawn = clear(alert(series=BOT), Cause.JUDGES_CHANGED)
        place.publish(canaries())
        place.announce(judges, withdrawn)
        output = place.run_ok("explain", short(judges))
        assert "the judges have changed: groundedness" in output
        assert (
            f"Quality alerts withdrawn because of this: {short(withdrawn)} (the groundedness of support-bot)." in output
        )
        assert "Canaries with a different verdict: 1 of 2" in output
        assert re.search(r"^kb-1 +supported +hallucinated +3 of 3 times", output, re.MULTILINE)
        assert "/StreamjuryJudgesChanged.html" in output
        assert "withdrawn because the judges had changed" in place.run_ok("explain", short(withdrawn))

    def test_the_attribution_of_a_drop_is_explained(self, place: Place) -> None:
        system = alert(series=BOT, attribution=Attribution.SYSTEM)
        judge = alert(series=Series(app="support-bot", dimension="clarity"), attribution=Attribution.JUDGE)
        unknown = alert(series=Series(app="support-bot", dimension="composite"))
        place.announce(system, judge, unknown)
        assert "Attribution: the system. The judges score labelled canaries as before" in place.run_ok(
            "explain", short(system)
        )
        assert "Attribution: the judges." in place.run_ok("explain", short(judge))
        # Without canaries in the configuration, there is no attribution to wait for.
        assert "Attribution" not in place.run_ok("explain", short(unknown))

    def test_a_judge_that_agrees_less_with_people_is_explained(self, place: Place) -> None:
        series = Series(app="support-bot", dimension="groundedness", attribute="judge", value="local")
        less = alert(series=series, subject=Subject.AGREEMENT, fingerprint="", worst_dimensions=())
        place.publish(traffic())
        place.announce(less)
        output = place.run_ok("explain", short(less))
        assert "the judge local agrees less with people: groundedness (support-bot)" in output
        assert "The scores of the judge local differ more from the labels of people than before." in output
        assert "If the mean agreement were at least" in output
        assert "/StreamjuryJudgeAgreesLess.html" in output

    def test_two_models_are_compared_with_each_other(self, place: Place, tmp_path: Path) -> None:
        file = tmp_path / "versions.yaml"
        versions = "[{name: new-model, app: support-bot, a: model-2, b: model-1}]"
        file.write_text(f"detection: {{versions: {versions}}}\n", encoding="utf-8")
        series = Series(app="support-bot", dimension="composite", attribute="versions", value="new-model")
        numbers: dict[str, Any] = {"estimate": -0.15, "low": -0.2, "high": -0.1, "target": 0.02}
        place.publish(traffic(before=0, since=200))
        compared = alert(series=series, subject=Subject.VERSIONS, models=("model-2", "model-1"), **numbers)
        place.announce(compared)
        output = place.run_ok("explain", config=file)
        assert "model-2 is worse than model-1: new-model (support-bot)" in output
        assert re.search(
            r"model-2 is worse than model-1 by 0\.1\d+ \(.*\): its mean is 0\.8\d+, that of model-1 0\.9", output
        )
        assert "fall" not in output
        assert "fell" not in output
        assert "Criterion: groundedness" in output
        assert place.run_ok("explain") == output
        place.announce(compared.model_copy(update={"models": ()}))
        assert "the two models are unknown" in place.run_ok("explain")

    def test_on_a_real_broker_only_evaluations_around_the_onset_are_read(self, real_kafka: KafkaBroker) -> None:
        """By record time: evaluations published long before or after are not read."""
        place = Place(real_kafka.bootstrap, "alerts-explained")
        over = clear(alert(series=BOT))
        real_kafka.create_topics(place.alerts, place.evaluations, config={"retention.ms": "-1"})
        place.publish(traffic(seed=2), late=timedelta(days=-3))
        place.publish(traffic())
        place.publish(traffic(seed=3), late=timedelta(days=1))
        place.announce(over)
        output = place.run_ok("explain", short(over))
        assert "300 scores before, 100 scores since" in output
        assert "Likely driver: model model-2" in output


class TestGuide:
    def test_the_guide_shows_the_real_output_of_the_commands(self, place: Place) -> None:
        raised = alert(series=BOT, estimate=0.44, low=0.31, high=0.58, worst_dimensions=())
        place.publish(with_release(judged) for judged in traffic())
        place.announce(raised)
        listed, explained = (
            block for block in blocks(ROOT / "docs/guides/alert.md", "text") if "groundedness of" in block.code
        )
        for block, output in ((listed, place.run_ok("list")), (explained, place.run_ok("explain"))):
            printed = {" ".join(line.split()) for line in re.sub(r"\(.* ago\)", "(… ago)", output).splitlines()}
            expected_lines = [
                " ".join(line.split()) for line in re.sub(r"\(.* ago\)", "(… ago)", block.code).splitlines()
            ]
            assert [line for line in expected_lines if line != "…" and line not in printed] == []


def with_release(judged: Evaluation) -> Evaluation:
    """Tag the evaluations of one model with a new release."""
    release = "2026-11" if judged.model == "model-2" else "2026-10"
    return judged.model_copy(update={"tags": {"release": release, "region": judged.tags["region"]}})


def canaries() -> Iterator[Evaluation]:
    for hour in range(-3, 3):
        for canary, now in (("kb-1", "hallucinated"), ("kb-2", "supported")):
            verdict = dimension(1.0, "groundedness", "supported" if hour < 0 else now)
            at_hour = ONSET + timedelta(hours=hour)
            judged = evaluation(evaluated_at=at_hour, app="canaries", lane=CANARY, tags={"canary": canary})
            yield judged.model_copy(update={"dimensions": {"groundedness": verdict}})
