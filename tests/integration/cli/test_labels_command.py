"""`streamjury labels` on a broker: files are sent whole or not at all, and labels correct the means of a topic."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.cli.commands.calibrate import calibrate
from stream.cli.commands.labels import labels
from stream.kafka.embedded import EmbeddedBroker
from tests.integration.cli.test_commands_on_broker import Place
from tests.integration.pipeline import read_all
from tests.parts.documents.json_fields import json_fields
from tests.stream.jobs.labels.test_joining import judged


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def place(broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)
    return Place(broker.bootstrap)


def write_labels(file: Path, count: int) -> None:
    lines = [f"i-{number},clarity,{number % 3 / 2},ada,0.05" for number in range(count)]
    file.write_text("\n".join(["interaction_id,criterion,score,who,probability", *lines]))


def test_labels_of_a_file_correct_the_means_of_the_topic(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "reviewed.csv"
    write_labels(file, 60)
    evaluations = [judged(f"i-{number}", number % 2 * 0.5, evaluation_id=f"e-{number}") for number in range(100)]
    place.publish("evaluations", *(evaluation.model_dump_json().encode() for evaluation in evaluations))
    for _time in range(2):
        result = place.invoke(labels, "send", str(file), "--json")
        document = json.loads(result.stdout)
        assert (result.exit_code, list(document)) == (0, json_fields("labels send"))
        assert (document["delivered"], document["failed"]) == (60, 0)
    message = read_all(place.bootstrap, place.topic["labels"])[0]
    assert dict(message.headers() or ())["content-type"] == b"application/json"
    place.publish("labels", b"not a label")

    result = place.invoke(labels, "report", "--since", "2026-11-01", "--json")
    report = json.loads(result.stdout)
    assert list(report) == json_fields("labels report")
    (clarity,) = (series for series in report["series"] if series["criterion"] == "clarity")
    assert (clarity["labels"], clarity["judged"], clarity["status"]) == (60, 100, "corrected")
    assert clarity["corrected"]["low"] < 0.5 < clarity["corrected"]["high"]
    text = place.invoke(labels, "report", "--since", "2026-11-01").stdout
    assert "uncorrected" in text

    judges = json.loads(place.invoke(labels, "judges", "--since", "2026-11-01", "--json").stdout)
    assert list(judges) == json_fields("labels judges")
    assert "There are no labels of judged answers" in place.invoke(labels, "judges", "--since", "2026-11-01").stdout

    plan = json.loads(place.invoke(labels, "plan", "--since", "2026-11-01", "--width", "0.2", "--json").stdout)
    assert list(plan) == json_fields("labels plan")
    assert (
        "Labels for a 95 % interval of width 0.2"
        in place.invoke(labels, "plan", "--since", "2026-11-01", "--width", "0.2").stdout
    )


def test_a_file_with_mistakes_is_not_sent(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "reviewed.csv"
    write_labels(file, 3)
    file.write_text(file.read_text() + "\ni-4,clarity,7,,0.05\n")
    result = place.invoke(labels, "send", str(file))
    assert result.exit_code == 1
    assert "line 5, who: is missing" in result.output
    assert "line 5, score: must be a number" in result.output
    write_labels(file, 1)
    assert place.invoke(labels, "send", str(file)).exit_code == 0
    assert len(place.values("labels")) == 1


def test_a_report_of_files(place: Place, tmp_path: Path) -> None:
    results, file = tmp_path / "evaluations.jsonl", tmp_path / "reviewed.csv"
    results.write_text("\n".join(judged(f"i-{number}", 0.5).model_dump_json() for number in range(40)))
    write_labels(file, 40)
    result = place.invoke(labels, "report", str(results), "--labels", str(file), "--json")
    (clarity,) = (entry for entry in json.loads(result.stdout)["series"] if entry["criterion"] == "clarity")
    assert clarity["labels"] == 40
    proposed = json.loads(place.invoke(calibrate, str(results), "--labels", str(file), "--json").stdout)
    assert list(proposed) == json_fields("calibrate")
    assert "no labels of judged answers" in place.invoke(calibrate, str(results), "--labels", str(file)).stdout


@pytest.mark.parametrize("arguments", [(), ("a.jsonl", "--since", "1h"), ("--since", "1h", "--labels", "b.csv")])
def test_sources_that_do_not_fit_together_are_refused(place: Place, arguments: tuple[str, ...]) -> None:
    for command in ("report", "plan"):
        assert place.invoke(labels, command, *arguments).exit_code == 2
