"""`streamjury compare`: its output, its files and the arguments it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from judges.values.evaluation import CompositeStatus
from stream.cli.commands.compare import folders_of
from stream.cli.main import main
from tests.stream.jobs.compare.files import CLARITY, ERRORS, GROUNDED, falling, level, row, verdict, write

HOSTILE = "Why? | [x](javascript:y) <script>alert(1)</script> `code` \x1b[31m*bold*"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def results(tmp_path: Path) -> None:
    """Two folders of results with four rows, three of them on both sides, and a file of labels."""
    for name, clarity, numbers in (("a", (4, 3, 0, 2), (1, 2, 3)), ("b", (4, 2, 3, 2), (2, 3, 4))):
        (tmp_path / name).mkdir()
        rows = [
            row(
                number,
                {
                    "clarity": level(CLARITY, clarity[number - 1], judges=_verdicts(clarity[number - 1])),
                    "errors": falling(number),
                },
                composite=clarity[number - 1] / 4,
                status=CompositeStatus.UNSAFE if clarity[number - 1] == 0 else CompositeStatus.OK,
                cost=2.0 if name == "a" else 1.0,
                question=HOSTILE,
            )
            for number in numbers
        ]
        write(tmp_path / name / "results.jsonl", rows, [CLARITY, ERRORS], fingerprint=name * 16)
    (tmp_path / "labels.csv").write_text("id,clarity,comment\nr-2,3,good\nr-3,1,\n", "utf-8")


def _verdicts(value: int) -> list[Any]:
    return [verdict("strict", CLARITY, max(0, value - 1)), verdict("mild", CLARITY, value)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare", *arguments])


def table_row(output: str, first: str, title: str) -> list[str]:
    """Return the cells of one row in the table with this title."""
    _, _, table = output.partition(f"\n{title}\n" if not output.startswith(title) else f"{title}\n")
    return next(text.split() for text in table.splitlines() if text.split()[:1] == [first])


@pytest.mark.usefixtures("results")
def test_two_results_are_compared_in_tables() -> None:
    result = run("a", "b")
    assert result.exit_code == 0, result.output
    assert table_row(result.stdout, "clarity", "Agreement")[:6] == ["clarity", "2", "0", "0", "0", "%"]
    assert table_row(result.stdout, "clarity", "Mean scores")[:5] == ["clarity", "2", "0.375", "0.625", "+0.250"]
    assert "only in A: r-1" in result.stdout
    assert "only in B: r-4" in result.stdout
    assert "unsafe → ok" in result.stdout
    assert table_row(result.stdout, "total", "Cost and latency") == ["total", "cost", "$4.00", "$2.00"]


@pytest.mark.usefixtures("results")
def test_the_same_in_json_has_every_number_or_its_reason() -> None:
    document = json.loads(run("a", "b", "--json").stdout)
    comparison = document["comparison"]
    assert comparison["rows"] == 2
    assert comparison["only"] == {"A": ["r-1"], "B": ["r-4"]}
    assert comparison["criteria"]["clarity"]["same"] == {"value": 0.0, "reason": None}
    assert comparison["criteria"]["errors"]["kappa"] == {"value": None, "reason": "a range has no classes"}
    assert comparison["composite"]["mean"] == {"A": 0.375, "B": 0.625}
    assert [change["id"] for change in comparison["changed_most"]] == ["r-3", "r-2"]
    assert comparison["changed_most"][0]["status"] == {"A": "unsafe", "B": "ok"}
    assert comparison["expenses"]["B"]["cost_usd"]["mean"] == 1.0
    assert document["sides"]["A"]["evaluator"]["fingerprint"] == "a" * 16
    assert "labels" not in document


@pytest.mark.usefixtures("results")
def test_both_sides_are_compared_with_the_labels() -> None:
    result = run("a", "b", "--labels", "labels.csv", "--json")
    labels = json.loads(result.stdout)["labels"]
    assert labels["A"]["criteria"]["clarity"]["accuracy"]["value"] == 0.5
    assert labels["B"]["criteria"]["clarity"]["accuracy"]["value"] == 0.0
    assert labels["A"]["criteria"]["clarity"]["calibration"]["error"]["value"] == pytest.approx(0.125)
    assert "columns ignored because they name no criterion: comment" in result.stderr


@pytest.mark.usefixtures("results")
def test_names_of_columns_cannot_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,clarity,\x1b[31mred\nr-2,3,good\n", "utf-8")
    result = run("a", "b", "--labels", "labels.csv")
    assert "no criterion:  [31mred" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.usefixtures("results")
def test_one_side_is_enough_for_labels() -> None:
    result = run("a", "--labels", "labels.csv")
    assert result.exit_code == 0, result.output
    assert table_row(result.stdout, "clarity", "A and the labels: 2 rows")[:4] == ["clarity", "2", "0", "50"]
    assert "Rows that changed most" not in result.stdout


@pytest.mark.usefixtures("results")
def test_two_judges_of_one_file_are_compared() -> None:
    document = json.loads(run("a", "--judges", "strict,mild", "--json").stdout)
    assert document["comparison"]["composite"] is None
    assert document["comparison"]["criteria"]["clarity"]["difference"]["mean"] == pytest.approx(0.5 / 3)
    assert document["comparison"]["expenses"]["strict"]["latency_ms"]["p50"] == 100.0


@pytest.mark.usefixtures("results")
def test_judged_texts_are_escaped_in_the_markdown_tables(tmp_path: Path) -> None:
    result = run("a", "b", "--output", "out.md")
    assert result.exit_code == 0, result.output
    assert "written to out.md" in result.stderr
    text = (tmp_path / "out.md").read_text("utf-8")
    assert text.startswith("# Comparison\n")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert "| clarity | 2 | 0.375 | 0.625 | +0.250 |" in "\n".join(tables)
    for hostile in ("<script>", "[x]", "`code`", "*bold*", "\x1b", "? | "):
        assert hostile not in text


@pytest.mark.usefixtures("results")
def test_judged_texts_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in run("a", "b").stdout


@pytest.mark.usefixtures("results")
def test_the_number_of_changed_rows_is_limited_on_request() -> None:
    assert len(json.loads(run("a", "b", "--changed", "1", "--json").stdout)["comparison"]["changed_most"]) == 1
    assert "2 of 2 rows differ" in run("a", "b", "--changed", "0").stdout


@pytest.mark.usefixtures("results")
def test_a_comparison_with_itself_is_equal_and_says_that_the_evaluator_is_the_same() -> None:
    result = run("a", "a")
    assert "0 of 3 rows differ" in result.stdout
    assert "both were judged by the same evaluator" in result.stdout


def test_criteria_on_one_side_only_and_different_inputs_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [row(1, {"clarity": level(CLARITY, 1)})], [CLARITY], digest="1", finished=False)
    dimensions = {"clarity": level(CLARITY, 1), "groundedness": level(GROUNDED, 1)}
    write(tmp_path / "b.jsonl", [row(1, dimensions)], [CLARITY, GROUNDED], digest="2")
    result = run("a.jsonl", "b.jsonl")
    assert "the two judged files differ; rows are matched by id" in result.stdout
    assert "only b.jsonl has groundedness" in result.stdout
    assert "unfinished run: a.jsonl" in result.stdout


def test_composites_of_different_criteria_are_called_not_comparable(tmp_path: Path) -> None:
    both = {"clarity": level(CLARITY, 1), "groundedness": level(GROUNDED, 1)}
    unweighted = GROUNDED.model_copy(update={"weight": 0.0})
    write(tmp_path / "a.jsonl", [row(1, {"clarity": level(CLARITY, 1)})], [CLARITY])
    write(tmp_path / "b.jsonl", [row(1, both)], [CLARITY, GROUNDED])
    write(tmp_path / "c.jsonl", [row(1, both)], [CLARITY, unweighted])
    note = "composite: different criteria count on the two sides, so the composites are not comparable"
    for other, comparable in (("b.jsonl", False), ("c.jsonl", True)):
        output = run("a.jsonl", other).stdout
        agreement, _, means = output.partition("Mean scores")
        assert (note in agreement, note in means) == (not comparable, not comparable)
        assert json.loads(run("a.jsonl", other, "--json").stdout)["comparison"]["composite"]["comparable"] is comparable


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["a"], 2, "give two results to compare, or one with --labels or --judges"),
        (["a", "b", "a"], 2, "cannot compare 3 results, only two"),
        (["a", "b", "--judges", "strict,mild"], 2, "--judges compares two judges within one results file"),
        (["a", "--judges", "strict"], 2, "'strict' must be two names separated by a comma"),
        (["a", "--judges", "strict,strict"], 2, "'strict,strict' must be two names"),
        (["a", "--judges", "strict,lax"], 1, "no verdicts by a judge named 'lax'; its judges are: mild, strict"),
        (["a", "nothing"], 1, "nothing: cannot be read"),
        (["a", "labels.csv"], 1, "labels.csv, line 1:"),
        (["a", "b", "--labels", "none.csv"], 1, "none.csv: cannot be read: no such file or directory"),
        (["a", "b", "--output", "no/where.md"], 1, "no/where.md cannot be written: no such file or directory"),
    ],
)
def test_an_error_names_the_file_or_option_it_is_about(arguments: list[str], status: int, message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == status
    assert message in result.stderr


def test_results_without_a_common_row_are_an_error(tmp_path: Path) -> None:
    for name, number in (("a.jsonl", 1), ("b.jsonl", 2)):
        write(tmp_path / name, [row(number, {"clarity": level(CLARITY, 1)})], [CLARITY])
    result = run("a.jsonl", "b.jsonl")
    assert result.exit_code == 1
    assert "a.jsonl and b.jsonl have no row in common" in result.stderr


# Two configurations

CONFIG = "judges:\n  panel:\n    - kind: local\n"
ROWS = [
    {
        "id": "q-1",
        "question": "How long does delivery take?",
        "answer": "Two to four days.",
        "contexts": [{"id": "c", "text": "Delivery takes two to four days."}],
    },
    {
        "id": "q-2",
        "question": "Can I return shoes?",
        "answer": "Yes, within 90 days, and we pay double.",
        "contexts": [{"id": "c", "text": "Shoes can be returned within 30 days."}],
    },
    {"id": "q-3", "question": "Without an answer?"},
]


@pytest.fixture
def two_configurations(tmp_path: Path) -> None:
    """A file of three rows, the last of them bad, and two configurations, the second with fewer criteria."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(fields) + "\n" for fields in ROWS), "utf-8")
    (tmp_path / "one.yaml").write_text(CONFIG, "utf-8")
    (tmp_path / "two.yaml").write_text(f"{CONFIG}criteria:\n  use: [groundedness, harmfulness]\n", "utf-8")


@pytest.mark.usefixtures("two_configurations")
def test_a_file_is_judged_by_two_configurations_and_compared(tmp_path: Path) -> None:
    result = run("--rows", "rows.jsonl", "one.yaml", "two.yaml", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["comparison"]["rows"] == 2
    assert [document["sides"][name]["failed"] for name in "AB"] == [1, 1]
    assert list(document["comparison"]["criteria"]) == ["groundedness", "harmfulness"]
    assert (tmp_path / "rows-one-results" / "report.md").exists()
    assert "row 3:" in result.stderr


@pytest.mark.usefixtures("two_configurations")
def test_judged_rows_are_not_judged_again_without_restart(tmp_path: Path) -> None:
    arguments = ("--rows", "rows.jsonl", "one.yaml", "two.yaml")
    results = tmp_path / "rows-one-results" / "results.jsonl"
    assert run(*arguments).exit_code == 0
    before = results.read_bytes()
    assert run(*arguments).exit_code == 0
    assert results.read_bytes() == before
    assert run(*arguments, "--restart").exit_code == 0
    assert results.read_bytes() != before


@pytest.mark.usefixtures("two_configurations")
def test_both_configurations_are_checked_before_the_first_row_is_judged(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("judges:\n  panel:\n    - kind: lokal\n", "utf-8")
    result = run("--rows", "rows.jsonl", "one.yaml", "two.yaml")
    assert result.exit_code == 2
    assert "two.yaml: 1 problem" in result.stderr
    assert not (tmp_path / "rows-one-results").exists()


@pytest.mark.usefixtures("two_configurations")
def test_a_changed_configuration_is_refused_with_advice_for_this_command(tmp_path: Path) -> None:
    arguments = ("--rows", "rows.jsonl", "one.yaml", "two.yaml")
    assert run(*arguments).exit_code == 0
    (tmp_path / "one.yaml").write_text(f"{CONFIG}composite:\n  weights: {{clarity: 2}}\n", "utf-8")
    result = run(*arguments)
    assert result.exit_code == 1
    assert "rows-one-results has results of another run" in result.stderr
    assert "rename the file, or use --restart" in result.stderr
    assert "--output" not in result.stderr
    assert run(*arguments, "--restart").exit_code == 0


@pytest.mark.usefixtures("two_configurations")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--rows", "rows.jsonl", "one.yaml"], 2, "--rows judges a file with two configurations: give both"),
        (
            ["--rows", "rows.jsonl", "one.yaml", "one.yaml"],
            2,
            "--rows judges a file with two configurations: give both",
        ),
        (["--rows", "-", "one.yaml", "two.yaml"], 2, "not possible with standard input"),
        (["--rows", "rows.jsonl", "one.yaml", "--judges", "a,b"], 2, "give one path, and no --rows"),
        (["--rows", "none.jsonl", "one.yaml", "two.yaml"], 1, "none.jsonl"),
        (["--rows", "rows.jsonl", "one.yaml", "none.yaml"], 2, "none.yaml"),
        (["one.yaml", "two.yaml", "--restart"], 2, "--restart requires --rows"),
    ],
)
def test_impossible_arguments_for_rows_are_refused(arguments: list[str], status: int, message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == status
    assert message in result.stderr


def test_the_folders_are_named_after_the_file_and_the_configurations() -> None:
    assert folders_of("data/rows.csv", [Path("a/strict.yaml"), Path("mild.yaml")]) == (
        Path("rows-strict-results"),
        Path("rows-mild-results"),
    )
    assert folders_of("rows.csv", [Path("a/x.yaml"), Path("b/x.yaml")]) == (
        Path("rows-x-1-results"),
        Path("rows-x-2-results"),
    )


@pytest.fixture
def grounded(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    levels = (2, 2, 1, 0, 2, 0)
    rows = [row(number, {"groundedness": level(GROUNDED, value)}) for number, value in enumerate(levels, start=1)]
    write(tmp_path / "g" / "results.jsonl", rows, [GROUNDED])


@pytest.mark.usefixtures("grounded")
@pytest.mark.parametrize("words", [("yes", "no"), ("True", "FALSE"), ("pass", "fail"), ("да", "нет")])
def test_labels_of_yes_and_no_show_how_well_bad_rows_are_found(tmp_path: Path, words: tuple[str, str]) -> None:
    yes, no = words
    labels = [yes, yes, yes, no, no, no]
    lines = "".join(f"r-{number},{label}\n" for number, label in enumerate(labels, start=1))
    (tmp_path / "labels.csv").write_text(f"id,groundedness\n{lines}", "utf-8")
    result = run("g", "--labels", "labels.csv", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["labels"]["A"]["criteria"]["groundedness"]["detection"]
    assert (found["rows"], found["bad"]) == (6, 3)
    assert found["auroc"]["value"] == pytest.approx((6 + 0.5 * 2) / 9)
    assert found["auroc"]["low"] < found["auroc"]["value"] < found["auroc"]["high"]
    assert (found["a_priori"]["below"], found["a_priori"]["alarms"]) == (1.0, 3)
    assert found["a_priori"]["precision"]["value"] == pytest.approx(2 / 3)
    assert found["best"]["precision"]["value"] == 1.0
    assert found["best"]["f1"]["value"] == pytest.approx(0.8)
    tables = run("g", "--labels", "labels.csv").stdout
    assert "A and the labels: yes and no" in tables
    assert "a priori" in tables
    assert "it is a bound, not a result" in " ".join(tables.split())
    assert "accuracy, balanced accuracy, macro F1 of groundedness: labels of yes and no have no levels" in tables
    assert "kappa, linear, quadratic of groundedness: labels of yes and no have no levels" in tables


@pytest.mark.usefixtures("grounded")
def test_labels_of_yes_and_no_may_be_json_values(tmp_path: Path) -> None:
    lines = [json.dumps({"row": number, "groundedness": number < 4}) for number in range(1, 7)]
    (tmp_path / "labels.jsonl").write_text("\n".join(lines), "utf-8")
    found = json.loads(run("g", "--labels", "labels.jsonl", "--json").stdout)
    assert found["labels"]["A"]["criteria"]["groundedness"]["detection"]["bad"] == 3


@pytest.mark.usefixtures("results")
def test_labels_on_the_scale_have_no_such_figures_and_map_needs_rows() -> None:
    found = json.loads(run("a", "--labels", "labels.csv", "--json").stdout)
    assert found["labels"]["A"]["criteria"]["clarity"]["detection"] is None
    refused = run("a", "b", "--map", "question=prompt")
    assert (refused.exit_code, "--map requires --rows" in refused.output) == (2, True)


def test_labels_with_a_probability_correct_the_means_in_tables_and_json(tmp_path: Path) -> None:
    rows = [row(number, {"clarity": level(CLARITY, number % 4 + 1)}) for number in range(1, 81)]
    write(tmp_path / "many.jsonl", rows, [CLARITY])
    # Half of the rows of each level are labelled, one level below the judges'.
    labels = "".join(f"r-{number},{number % 4},0.5\n" for number in range(1, 81) if number % 8 < 4)
    (tmp_path / "labels.csv").write_text(f"id,clarity,probability\n{labels}", "utf-8")
    found = json.loads(run("many.jsonl", "--labels", "labels.csv", "--json").stdout)
    corrected = found["labels"]["A"]["criteria"]["clarity"]["corrected"]
    assert (corrected["labels"], corrected["bias"]) == (40, pytest.approx(0.25))
    tables = run("many.jsonl", "--labels", "labels.csv").stdout
    assert table_row(tables, "clarity", "A and the labels: corrected means")[:4] == ["clarity", "80", "40", "0.625"]
    assert "corrected means" not in run("many.jsonl", "--labels", str(_without_probability(tmp_path))).stdout


def _without_probability(folder: Path) -> Path:
    path = folder / "picked.csv"
    path.write_text("id,clarity\nr-1,1\nr-2,2\n", "utf-8")
    return path
