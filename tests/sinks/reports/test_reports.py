"""The three reports together, on results of real judging and on many rows."""

import csv
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from judges.local import LocalJudge
from sinks import reports
from sinks.reports import make_reports, write_reports
from sinks.reports.results_reader import ResultsError, read_results
from tests.parts.patience import patience
from tests.sinks.reports.invented import dimension, row, run, verdict
from tests.sinks.reports.sample import COLUMNS, interactions, sample_results, second_judge, source_of, write_results


@pytest.fixture(scope="module")
def results_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two judges over 40 rows, two of which could not be read."""
    folder = tmp_path_factory.mktemp("judged")
    write_reports(sample_results(folder / "results.jsonl", LocalJudge(), second_judge(), count=40), folder)
    return folder


def test_the_reports_stand_in_the_folder_and_nothing_else(results_folder: Path, tmp_path: Path) -> None:
    paths = write_reports(results_folder / "results.jsonl", tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["results.csv", "report.md", "report.html"]
    assert sorted((tmp_path / "new" / "folder").iterdir()) == sorted(paths)


def test_the_table_has_the_rows_as_they_were_and_their_composites(results_folder: Path) -> None:
    with (results_folder / "results.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    asked = interactions(40)
    assert len(table) == len(asked)
    for cells, interaction, result in zip(table, asked, read_results(results_folder).rows(), strict=True):
        if result.evaluation is None:
            assert (cells["composite"], cells["status"]) == ("", "not_judged")
            continue
        assert {name: cells[name] for name in COLUMNS} == source_of(interaction)
        assert float(cells["composite"]) == pytest.approx(result.evaluation.composite.score, abs=1e-9)
        assert cells["status"] == result.evaluation.composite.status


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_every_row_is_reported_with_its_verdicts(results_folder: Path, name: str) -> None:
    text = (results_folder / name).read_text(encoding="utf-8")
    for result in read_results(results_folder).rows():
        assert (f"### Row {result.row}:" if name.endswith("md") else f'id="row-{result.row}"') in text
    assert text.count("Of the scale the answer deserves") > 100
    assert "Groundedness" in text
    assert "sha256:6b1f0f2a5b" in text


def test_text_that_looks_like_a_secret_is_not_shown(tmp_path: Path) -> None:
    parameters = {
        "judges": [{"api_key": "sk-1", "max_tokens": 512, "base_url": "https://user:pw@host/v1"}],
        "http": {"token": "t0k3n", "PASSWORD": "hunter2"},
    }
    write_reports(write_results(tmp_path / "r.jsonl", run(parameters=parameters), [row(1)]), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not [secret for secret in ("sk-1", "t0k3n", "hunter2", "user:pw") if secret in text]
        assert "512" in text
        assert "host/v1" in text


def test_reports_are_the_same_in_whatever_order_the_rows_finished(tmp_path: Path) -> None:
    rows = [row(number, number / 30, source={"a": str(number), f"b{number % 3}": "x"}) for number in range(1, 31)]
    texts = []
    for seed in (1, 2):
        Random(seed).shuffle(rows)
        paths = write_reports(write_results(tmp_path / "r.jsonl", run(), rows), tmp_path / str(seed))
        texts.append([path.read_text(encoding="utf-8") for path in paths])
    assert texts[0] == texts[1]


def test_of_many_rows_the_worst_are_reported_in_file_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_ENTRIES", 3)
    scores = {1: 0.9, 2: 0.1, 3: None, 4: 0.5, 5: 0.0, 6: 0.5}
    source = write_results(tmp_path / "r.jsonl", run(), (row(number, score) for number, score in scores.items()))
    write_reports(source, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert [number for number in scores if f"### Row {number}:" in text] == [2, 4, 5]
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 7


def test_progress_is_reported_row_by_row(tmp_path: Path) -> None:
    progress_calls: list[tuple[int, int]] = []
    source = write_results(tmp_path / "r.jsonl", run(), [row(1), row(2)])
    write_reports(source, tmp_path, progress=lambda finished_rows, total: progress_calls.append((finished_rows, total)))
    assert progress_calls == [(1, 2), (2, 2)]


def test_a_failed_report_leaves_the_old_ones_and_no_partial_files(tmp_path: Path) -> None:
    source = write_results(tmp_path / "r.jsonl", run(), [row(1), row(2)], finished=False)
    write_reports(source, tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    source.write_text(source.read_text().replace('"probability":1.0', '"probability":7.0'))
    with pytest.raises(ResultsError, match="probability"):
        write_reports(source, tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_formulas_in_the_table_are_mentioned_in_the_documents(tmp_path: Path) -> None:
    rows = [row(1, source={"answer": "fine"}), row(2, source={"answer": "=1+1"})]
    write_reports(write_results(tmp_path / "r.jsonl", run(), rows), tmp_path)
    for name in ("report.md", "report.html"):
        assert "1 cell that starts like a formula, first in row 2" in (tmp_path / name).read_text(encoding="utf-8")


def test_truncated_texts_are_mentioned_in_the_documents(tmp_path: Path) -> None:
    judged = row(1, source={"answer": "fine"})
    assert judged.evaluation is not None
    evaluation = judged.evaluation.model_copy(update={"truncated": ("contexts[3].text",)})
    rows = [judged.model_copy(update={"evaluation": evaluation}), row(2, source={"answer": "fine"})]
    write_reports(write_results(tmp_path / "r.jsonl", run(), rows), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8").replace("\\", "")
        assert "1 row has texts longer than a limit" in text
        assert "Truncated before judging: contexts[3].text" in text


def test_the_figures_come_with_the_files(results_folder: Path, tmp_path: Path) -> None:
    reports = make_reports(results_folder, tmp_path)
    assert (reports.summary.rows, reports.summary.scored) == (40, 38)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """5,000 rows take hardly more memory than 1,000: only the position of a row is kept."""
    dimensions = {"groundedness": dimension(verdict("one", 1, explanation="x" * 500))}
    some = [
        row(1, number / 100, dimensions=dimensions, source={"answer": "y" * 500}).model_dump_json()
        for number in range(100)
    ]
    peaks = {}
    for count in (1_000, 5_000):
        source = tmp_path / f"{count}.jsonl"
        with source.open("w", encoding="utf-8") as file:
            file.write(run().model_dump_json() + "\n")
            file.writelines(
                some[number % 100].replace('"row":1', f'"row":{number}') + "\n" for number in range(1, count + 1)
            )
        peaks[count] = _peak_bytes(source, tmp_path / str(count))
    assert source.stat().st_size > 10_000_000
    assert peaks[5_000] - peaks[1_000] < 2_000_000
    with (tmp_path / "5000" / "results.csv").open(newline="") as table:
        assert sum(1 for _ in csv.reader(table)) == 5_001


def _peak_bytes(source: Path, folder: Path) -> int:
    """Return the peak memory of a separate process that writes reports."""
    script = (
        "import resource, sys; from pathlib import Path; from sinks.reports import write_reports;"
        "write_reports(Path(sys.argv[1]), Path(sys.argv[2]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", script, str(source), str(folder)]
    return 1024 * int(subprocess.run(command, check=True, capture_output=True, timeout=120 * patience()).stdout)


def test_the_template_engine_is_loaded_only_to_write_a_page() -> None:
    """`streamjury --help` does not load it and answers quickly."""
    code = "import sys, sinks.reports, stream.cli.main; assert not {'jinja2', 'markupsafe'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60 * patience())
