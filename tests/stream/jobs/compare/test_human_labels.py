"""Label files: how they are read, and how problems in them are reported."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream.jobs.compare.human_labels import Labels, LabelsError, on_scales, read_labels
from stream.jobs.compare.sides import Side, load_side
from tests.stream.jobs.compare.files import CLARITY, ERRORS, GROUNDED, TOPIC, level, row, write

CRITERIA = ("clarity", "groundedness", "answer_relevance")
BAD_CHANCES = ("0", "1.5", "true", '"often"')


def read(folder: Path, text: str | bytes, name: str = "labels.csv") -> Labels:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_labels(path, CRITERIA)


def labels_by_row(labels: Labels) -> dict[str | int, dict[str, str | float]]:
    return {key: {name: cell.said for name, cell in cells.items()} for key, cells in labels.rows.items()}


def problems(folder: Path, text: str | bytes, name: str = "labels.csv") -> list[str]:
    with pytest.raises(LabelsError) as caught:
        read(folder, text, name)
    assert str(caught.value).startswith(str(folder / name))
    return list(caught.value.problems)


@pytest.fixture
def side(tmp_path: Path) -> Side:
    rows = [row(n, {"clarity": level(CLARITY, n), "groundedness": level(GROUNDED, 1)}) for n in (1, 2, 3)]
    return load_side(write(tmp_path / "results.jsonl", rows, [CLARITY, GROUNDED, ERRORS, TOPIC]))


# Reading


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_tables_of_common_programs_are_read(tmp_path: Path, delimiter: str, end: str, mark: str) -> None:
    lines = [["ID", " Clarity ", "groundedness"], ["r-1", "3", ""], ["r-2", "", "fully supported"]]
    text = mark + "".join(delimiter.join(cells) + end for cells in lines)
    labels = read(tmp_path, text)
    assert labels.by == "id"
    assert labels_by_row(labels) == {"r-1": {"clarity": "3"}, "r-2": {"groundedness": "fully supported"}}


def test_json_lines_are_read_with_numbers_texts_and_null(tmp_path: Path) -> None:
    records = [{"row": 1, "clarity": 3, "groundedness": None}, {"row": 2, "groundedness": "hallucinated"}]
    labels = read(tmp_path, "\n\n".join(map(json.dumps, records)), "labels.jsonl")
    assert labels.by == "row"
    assert labels_by_row(labels) == {1: {"clarity": 3}, 2: {"groundedness": "hallucinated"}}


def test_an_id_takes_precedence_over_a_row_number(tmp_path: Path) -> None:
    assert labels_by_row(read(tmp_path, "row,id,clarity\n7,r-1,3\n")) == {"r-1": {"clarity": "3"}}


def test_other_columns_are_ignored_and_named(tmp_path: Path) -> None:
    assert read(tmp_path, "id,question,clarity,comment\nr-1,Why?,3,fine\n").ignored == ("question", "comment")


def test_probabilities_of_being_labelled_are_read_and_may_be_missing(tmp_path: Path) -> None:
    labels = read(tmp_path, "id,clarity,Probability\nr-1,3,0.25\nr-2,2,\nr-3,1,1\n")
    assert (labels.probabilities, labels.ignored) == ({"r-1": 0.25, "r-3": 1.0}, ())


def test_numbers_that_are_no_probabilities_are_all_listed(tmp_path: Path) -> None:
    lines = [
        f'{{"id": "r-{number}", "clarity": 3, "probability": {value}}}' for number, value in enumerate(BAD_CHANCES)
    ]
    found = problems(tmp_path, "\n".join(lines), "labels.jsonl")
    assert [problem.partition(" is not a probability")[0] for problem in found] == [
        "line 1, probability: 0",
        "line 2, probability: 1.5",
        "line 3, probability: True",
        "line 4, probability: 'often'",
    ]


def test_line_numbers_account_for_line_breaks_in_cells(tmp_path: Path) -> None:
    labels = read(tmp_path, 'id,comment,clarity\nr-1,"two\nlines",3\nr-2,one,4\n')
    assert [cells["clarity"].line for cells in labels.rows.values()] == [2, 4]


cells = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=5),
    name=st.sampled_from(["c", "jsonl"]),
)
def test_any_file_gives_labels_or_a_clear_error(tmp_path: Path, table: list[list[str]], name: str) -> None:
    text = "id,clarity,groundedness\n" + "\n".join(",".join(line) for line in table)
    try:
        rows = read(tmp_path, text, f"labels.{name}").rows
    except LabelsError as error:
        rows = {problem: {} for problem in error.problems}
    assert rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60))
def test_no_bytes_crash_the_reader(tmp_path: Path, content: bytes) -> None:
    for name in ("labels.csv", "labels.jsonl"):
        with pytest.raises(LabelsError):
            read(tmp_path, content, name)


# Problems


def test_a_misspelt_criterion_column_is_an_error(tmp_path: Path) -> None:
    assert problems(tmp_path, "id,clarity,groundednes\nr-1,3,2\n") == [
        "the column 'groundednes' names no criterion; did you mean 'groundedness'?"
    ]


def test_results_of_the_judges_are_not_read_as_labels(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, "id,clarity,clarity_score,answer_relevance_score,composite\nr-1,3,0.75,1,0.8\n")
    assert problem.startswith("contains the judges' results ('clarity_score'), so its `composite` is theirs")


def test_a_results_table_may_have_label_columns(tmp_path: Path) -> None:
    header = "id,clarity_score,clarity_level,clarity_option,clarity_status,clarity"
    labels = read(tmp_path, f"{header}\nr-1,0.75,3,clear,scored,3\n")
    assert labels_by_row(labels) == {"r-1": {"clarity": "3"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "contains no labels"),
        ("id,clarity\n", "contains no labels"),
        ("clarity\n3\n", "needs a column `id` or `row` to identify the labelled row"),
        ("id,clarity\nr-1,\n", "has no labels; labels go in a column named clarity"),
        ("id,clarity\n,3\n", "line 2: has no id"),
        ("row,clarity\nx,3\n", "line 2: the row 'x' is not a whole number"),
        ("id,clarity\nr-1,3\nr-1,2\n", "line 3: id 'r-1' was already labelled in line 2"),
        ("id,clarity,clarity\nr-1,3,2\n", "line 1: the column 'clarity' is listed twice"),
        ("id,clarity\nr-1,3,2\n", "line 2: has 3 cells, but the header has 2"),
        ('id,clarity\nr-1,"3\n', "line 2: is not valid CSV"),
        (b"id,clarity\nr-1,\xff\n", "line 2: not UTF-8 text"),
    ],
)
def test_a_problem_in_a_table_is_reported_with_its_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    [problem] = problems(tmp_path, text)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": "r-1", "clarity": 3}\n{', "line 2: is not valid JSON"),
        ("[1]", "line 1: is not a JSON object"),
        ('{"id": "r-1", "clarity": {"is": 3}}', "line 1, clarity: {'is': 3} is neither a number nor a text"),
        ('{"id": "r-1", "clarity": [3]}', "line 1, clarity: [3] is neither a number nor a text"),
    ],
)
def test_a_problem_in_json_lines_is_reported_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text, "labels.jsonl")[0].startswith(expected)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match=r"none\.csv: cannot be read: no such file or directory"):
        read_labels(tmp_path / "none.csv", CRITERIA)


@pytest.mark.parametrize(
    ("column", "wrong", "scale"),
    [
        ("clarity", "5", "0 (very unclear), 1 (unclear), 2 (average), 3 (clear), 4 (very clear)"),
        ("clarity", "verry clear", "0 (very unclear), 1 (unclear), 2 (average), 3 (clear), 4 (very clear)"),
        ("groundedness", "0.5", "0 (hallucinated), 1 (partly supported), 2 (fully supported)"),
        ("errors", "11", "a number from 0 to 10"),
        ("errors", "nan", "a number from 0 to 10"),
        ("topic", "price", "prices, delivery, other"),
        ("composite", "1.5", "a number from 0 to 1"),
        ("composite", "good", "ok, questionable, unsafe, safety_unknown, incomplete, failed"),
    ],
)
def test_a_label_off_its_scale_is_an_error_that_lists_the_scale(
    tmp_path: Path, side: Side, column: str, wrong: str, scale: str
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"id,{column}\nr-1,{wrong}\n", "utf-8")
    with pytest.raises(LabelsError) as caught:
        on_scales(read_labels(path, side.scales), side)
    # Options and statuses have no better and worse, so yes and no would mean nothing.
    more = "" if scale.startswith(("prices", "ok")) else "; or yes and no"
    assert caught.value.problems == (f"line 2, {column}: {wrong!r} is not on the scale: {scale}{more}",)


def test_only_the_first_labels_off_their_scale_are_listed_and_the_rest_are_counted(tmp_path: Path, side: Side) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,clarity\n" + "".join(f"r-{n},9\n" for n in range(30)), "utf-8")
    with pytest.raises(LabelsError) as caught:
        on_scales(read_labels(path, side.scales), side)
    assert len(caught.value.problems) == 30
    assert str(caught.value).splitlines()[-1] == "and 10 more"


def test_all_problems_are_reported_at_once_in_the_order_of_the_lines(tmp_path: Path, side: Side) -> None:
    path = tmp_path / "labels.csv"
    lines = ["id,clarity,groundednes", "r-1,9,1", ",9,1", "r-1,3,1", "r-2,3,1,x", "r-3,-1,1"]
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(LabelsError) as caught:
        read_labels(path, side.scales, [side, side])
    scale = "is not on the scale: 0 (very unclear), 1 (unclear), 2 (average), 3 (clear), 4 (very clear); or yes and no"
    assert caught.value.problems == (
        "the column 'groundednes' names no criterion; did you mean 'groundedness'?",
        f"line 2, clarity: '9' {scale}",
        "line 3: has no id",
        f"line 3, clarity: '9' {scale}",
        "line 4: id 'r-1' was already labelled in line 2",
        "line 5: has 4 cells, but the header has 3",
        f"line 6, clarity: '-1' {scale}",
    )


def test_invalid_json_lines_are_reported_together_with_the_labels_of_the_others(tmp_path: Path, side: Side) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{\n[1]\n{"id": "x", "clarity": 9}\n', "utf-8")
    with pytest.raises(LabelsError) as caught:
        read_labels(path, side.scales, [side])
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        f"no id in it matches a row of {side.name}; it has id 'r-1', for example",
        "line 1",
        "line 2",
        "line 3, clarity",
    ]


def test_scores_and_statuses_of_the_composite_are_not_mixed(tmp_path: Path, side: Side) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,composite\nr-1,0.5\nr-2,ok\n", "utf-8")
    with pytest.raises(LabelsError, match="line 3, composite: 'ok' is not on the scale: a number from 0 to 1"):
        on_scales(read_labels(path, side.scales), side)


def test_labels_of_other_rows_are_an_error_that_shows_an_example_id(tmp_path: Path, side: Side) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,clarity\n1,3\n2,3\n", "utf-8")
    with pytest.raises(LabelsError, match=r"no id in it matches a row of .*; it has id 'r-1', for example"):
        on_scales(read_labels(path, side.scales), side)
