"""`streamjury diagnose`: the four cells, worst slices and examples of a file and of a topic."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from judges.values.diagnosis import DiagnosisCell
from judges.values.evaluation import Evaluation
from sinks.base import SCHEMA
from sinks.topics.headers import SCHEMA_VERSION
from sinks.topics.results import EvaluationTopic
from stream.cli.main import main
from stream.jobs.diagnosis import diagnose_all, sheets_of
from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import produce_all
from tests.parts.documents.json_fields import json_fields
from tests.stream.monitor.explain.invented import dimension, evaluation

SCORES = {
    DiagnosisCell.GOOD: (1.0, 1.0),
    DiagnosisCell.GENERATION: (1.0, 0.0),
    DiagnosisCell.LUCKY: (0.0, 1.0),
    DiagnosisCell.RETRIEVAL: (0.0, 0.0),
}


def judged(cell: DiagnosisCell | None, **fields: Any) -> Evaluation:
    """Return an evaluation with this diagnosis."""
    if cell is None:
        return evaluation(**fields)
    sufficiency, groundedness = SCORES[cell]
    return evaluation({"context_sufficiency": sufficiency, "groundedness": groundedness}, **fields)


def many_judged() -> Iterator[Evaluation]:
    yield from (judged(DiagnosisCell.GOOD, tenant="acme", tags={"id": f"t{number}"}) for number in range(30))
    yield from (judged(DiagnosisCell.RETRIEVAL, tenant="globex", composite=0.2 + number / 100) for number in range(15))
    yield from (judged(DiagnosisCell.GENERATION, tenant="acme", composite=0.4) for _ in range(4))
    yield judged(DiagnosisCell.LUCKY, tenant="acme")
    yield judged(None, tenant="acme")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "evaluations.jsonl"
    path.write_text("".join(f"{record.model_dump_json()}\n" for record in many_judged()), encoding="utf-8")
    return path


def run(*arguments: str | Path, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(main, ["diagnose", *map(str, arguments)])


def test_cells_are_counted_and_weighted_each_evaluation_once() -> None:
    twice = judged(DiagnosisCell.RETRIEVAL, probability=0.25)
    result = diagnose_all([twice, twice, judged(DiagnosisCell.GOOD), judged(None)])
    assert result.whole.counts == {
        DiagnosisCell.GOOD: 1,
        DiagnosisCell.GENERATION: 0,
        DiagnosisCell.LUCKY: 0,
        DiagnosisCell.RETRIEVAL: 1,
    }
    assert result.whole.share(DiagnosisCell.RETRIEVAL) == pytest.approx(0.8)
    assert result.undiagnosed == 1


def test_the_worst_slices_and_examples_of_both_faults_are_listed() -> None:
    result = diagnose_all(many_judged())
    assert [(part.attribute, part.value) for part in result.slices] == [("tenant", "globex")]
    assert len(result.examples) == 10
    assert {example.cell for example in result.examples} == {DiagnosisCell.RETRIEVAL, DiagnosisCell.GENERATION}
    assert result.examples[0].composite == pytest.approx(0.2)
    assert result.examples[0].why == "context_sufficiency is 0, says the judge"


def test_a_file_is_diagnosed_as_text_json_and_html(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run(file, "--output", page)
    assert result.exit_code == 0, result.output
    assert re.search(r"^retrieval +15 +30 % +contexts do not suffice", result.stdout, re.MULTILINE)
    assert "not diagnosed: 1." in result.stdout
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "<td>globex</td>" in html
    document = json.loads(run(file, "--json").stdout)
    assert list(document) == json_fields("diagnose")
    assert document["cells"]["retrieval"] == {"answers": 15, "share": 0.3}
    assert document["refusals"] is None
    assert (document["diagnosed"], document["undiagnosed"], len(document["examples"])) == (50, 1, 10)


def test_refusals_are_counted_where_they_are_judged(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    plain = judged(DiagnosisCell.GOOD)
    refusal = judged(DiagnosisCell.GOOD, probability=0.25)
    dimensions = {**refusal.dimensions, "refusal": dimension(0.0, "refusal", "refusal")}
    refusal = refusal.model_copy(update={"dimensions": dimensions})
    path.write_text(f"{plain.model_dump_json()}\n{refusal.model_dump_json()}\n", encoding="utf-8")
    document = json.loads(run(path, "--json").stdout)
    assert document["refusals"]["unjustified"] == {"answers": 1, "share": 1.0}
    assert document["refusals"]["answered"] == {"answers": 0, "share": 0.0}
    assert re.search(r"^unjustified +1 +100 % +declines, although the contexts suffice", run(path).stdout, re.MULTILINE)


def test_texts_are_escaped_in_html(tmp_path: Path) -> None:
    file, page = tmp_path / "e.jsonl", tmp_path / "p.html"
    hostile = judged(DiagnosisCell.RETRIEVAL, name="<script>alert(1)</script>")
    file.write_text(hostile.model_dump_json() + "\n", encoding="utf-8")
    assert run(file, "--output", page).exit_code == 0
    assert "<script>" not in page.read_text(encoding="utf-8")


def test_results_of_evaluate_are_diagnosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = {"question": "How long is the warranty?", "answer": "It lasts two years.", "contexts": ["We open at nine."]}
    Path("a.jsonl").write_text(json.dumps({**row, "id": "a", "contexts": [{"text": row["contexts"][0]}]}) + "\n")
    judging = CliRunner().invoke(main, ["evaluate", "a.jsonl", "--output", "out"])
    assert judging.exit_code == 0, judging.output
    assert json.loads(run("out", "--json").stdout)["cells"]["retrieval"]["answers"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{}\n", "line 1: is not an evaluation"), (b"not json\n", "line 1: is not an evaluation")],
)
def test_another_file_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    result = run(path)
    assert result.exit_code == 1
    assert message in result.output
    assert run(tmp_path / "absent.jsonl").exit_code == 1


def test_either_a_file_or_a_time_is_needed(file: Path) -> None:
    for arguments in ((), (file, "--since", "1h")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "give either a FILE or --since" in result.output


def test_without_a_diagnosis_it_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(judged(None).model_dump_json() + "\n", encoding="utf-8")
    assert run(path).stdout.startswith("No evaluation has a score for both context_sufficiency and groundedness")


@pytest.mark.parametrize(("probability", "is_noted"), [(1.0, False), (0.25, True)])
def test_weights_are_mentioned_if_answers_were_sampled(probability: float, is_noted: bool) -> None:
    cells = next(sheets_of(diagnose_all([judged(DiagnosisCell.GOOD, probability=probability)])))
    assert any("weighted by 1/probability" in note for note in cells.notes) is is_noted


def test_a_file_without_evaluations_and_a_folder_without_results_are_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert run(path).stdout == "There are no evaluations in this file\n"
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "results.jsonl: cannot be read: no such file or directory; pass the folder that" in result.output


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def test_live_traffic_is_read_from_the_topic(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    now = datetime.now(UTC)
    records = [
        judged(DiagnosisCell.RETRIEVAL, evaluated_at=now),
        judged(DiagnosisCell.GENERATION, evaluated_at=now - timedelta(hours=3)),
        judged(DiagnosisCell.GENERATION, evaluated_at=now, lane="canary"),
        judged(DiagnosisCell.GENERATION, evaluated_at=now, lane="backfill"),
    ]
    topic = EvaluationTopic("rag.evaluations")
    produce_all(
        bootstrap,
        "rag.evaluations",
        ({"key": "k", "value": message.value} for record in records for message in topic.messages(record)),
    )
    environment = {"STREAMJURY__KAFKA__BOOTSTRAP": bootstrap}
    result = run("--since", "1h", "--json", env=environment)
    assert result.exit_code == 0, result.output
    assert {name: cell["answers"] for name, cell in json.loads(result.stdout)["cells"].items()} == {
        "good": 0,
        "generation": 0,
        "lucky": 0,
        "retrieval": 1,
    }


@pytest.mark.parametrize(
    ("headers", "answers"),
    [([SCHEMA], 1), ([], 1), ([(SCHEMA_VERSION, b"2")], 0)],
    ids=["this version", "no version", "a later version"],
)
def test_records_of_a_later_version_are_skipped(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: list[tuple[str, bytes]], answers: int
) -> None:
    monkeypatch.chdir(tmp_path)
    record = judged(DiagnosisCell.RETRIEVAL, evaluated_at=datetime.now(UTC))
    [message] = EvaluationTopic("rag.evaluations").messages(record)
    produce_all(bootstrap, "rag.evaluations", [{"key": "k", "value": message.value, "headers": headers}])
    result = run("--since", "1h", "--json", env={"STREAMJURY__KAFKA__BOOTSTRAP": bootstrap})
    assert json.loads(result.stdout)["diagnosed"] == answers
