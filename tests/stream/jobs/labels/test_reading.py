"""Files of labels: what is read, and how all mistakes are listed at once."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.values.label import Label
from stream.config.model import Config
from stream.jobs.label_file import LabelsError
from stream.jobs.labels.reading import read_label_file
from stream.service.setup.criteria_files import load_chosen_criteria

CRITERIA = load_chosen_criteria(Config().criteria)
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def read(folder: Path, text: str | bytes, name: str = "labels.csv") -> list[Label]:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_label_file(path, CRITERIA, now=NOW)


def problems(folder: Path, text: str, name: str = "labels.csv") -> list[str]:
    with pytest.raises(LabelsError) as caught:
        read(folder, text, name)
    return list(caught.value.problems)


def test_a_table_of_reviews_is_read(tmp_path: Path) -> None:
    text = (
        "interaction_id,criterion,option,score,who,labelled_at,probability,comment,question\n"
        "a-1,groundedness,Hallucinated,,ada,2026-11-16T12:00:00+01:00,0.05,not in the contexts,Is it open?\n"
        "a-2,groundedness,,0.5,ada,,,,\n"
        "a-1,composite,,0.4,bob,,,,\n"
    )
    first, second, third = read(tmp_path, text)
    assert first == Label(
        label_id=first.label_id,
        interaction_id="a-1",
        criterion="groundedness",
        option="hallucinated",
        score=0.0,
        who="ada",
        labelled_at=datetime(2026, 11, 16, 11, tzinfo=UTC),
        probability=0.05,
        comment="not in the contexts",
    )
    assert (second.score, second.option, second.probability, second.labelled_at) == (0.5, None, None, NOW)
    assert (third.criterion, third.score, third.who) == ("composite", 0.4, "bob")


def test_feedback_needs_no_criterion_and_may_name_a_trace(tmp_path: Path) -> None:
    records = [
        {
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "criterion": "thumbs",
            "score": 1,
            "who": "u",
            "kind": "feedback",
        },
        {"id": "a-2", "criterion": "thumbs", "score": 0, "who": "u", "kind": "feedback"},
        {"id": "a-2", "criterion": "thumbs", "score": 1, "who": "u", "kind": "feedback"},
    ]
    labels = read(tmp_path, "\n".join(map(json.dumps, records)), "labels.jsonl")
    assert [label.interaction_id for label in labels] == ["4bf92f3577b34da6a3ce929d0e0e4736", "a-2", "a-2"]
    assert {label.kind for label in labels} == {"feedback"}
    assert len({label.label_id for label in labels}) == 3


def test_a_retraction_needs_no_verdict(tmp_path: Path) -> None:
    (label,) = read(tmp_path, "id,criterion,who,retracts\na-1,groundedness,ada,l-1\n")
    assert (label.retracts, label.option, label.score) == ("l-1", None, None)


def test_a_file_that_is_sent_twice_has_the_same_ids(tmp_path: Path) -> None:
    text = "id,criterion,score,who\na-1,groundedness,1,ada\na-2,groundedness,1,ada\n"
    ids = [[label.label_id for label in read(tmp_path, text)] for _time in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2
    assert read(tmp_path, text.replace(",1,ada", ",0,ada"))[0].label_id not in ids[0]


def test_all_mistakes_are_listed_at_once(tmp_path: Path) -> None:
    text = (
        "interaction_id,criterion,option,score,who,labelled_at,probability,kind,comentt\n"
        ",groundedness,,1,ada,,,,\n"
        "a-1,groundednes,,1,ada,,,,\n"
        "a-2,groundedness,wonderful,,ada,,,,\n"
        "a-3,groundedness,,1.5,,,,,\n"
        "a-4,groundedness,,1,ada,yesterday,2,,\n"
        "a-5,groundedness,,,ada,2026-11-16T12:00:00,0,opinion,\n"
        "a-6,groundedness,hallucinated,1,ada,,,,\n"
        "a-7,groundedness,,1,ada,,,,\n"
        "a-7,groundedness,,0,ada,,,,\n"
        "a-8,taste,sweet,,ada,,,feedback,\n"
        "a-9,clarity,,nan,ada,,,,\n"
        "a-10,clarity,,1,ada,0001-01-01T00:00:00+23:00,,,\n"
    )
    assert problems(tmp_path, text) == [
        "the column 'comentt' is unknown; did you mean 'comment'?",
        "line 2, interaction_id: is missing; give the id of the interaction, or its trace_id",
        "line 3, criterion: there is no criterion 'groundednes'; did you mean 'groundedness'?",
        "line 4, option: 'wonderful' is not an option of groundedness; its options are: "
        "hallucinated, partly supported, fully supported",
        "line 5, who: is missing",
        "line 5, score: must be a number at least 0 and at most 1, not '1.5'",
        "line 6, labelled_at: 'yesterday' is not a time such as 2026-11-17T12:00:00Z",
        "line 6, probability: must be a number above 0 and at most 1, not '2'",
        "line 7, kind: must be one of review, anchor, feedback, not 'opinion'",
        "line 7, option: is missing, and so is score; a label needs one of them",
        "line 7, labelled_at: '2026-11-16T12:00:00' has no time zone, such as Z or +01:00",
        "line 7, probability: must be a number above 0 and at most 1, not '0'",
        "line 8, score: is 1, but that of 'hallucinated' is 0.0",
        "line 10: ada already labelled groundedness of a-7 in line 9",
        "line 11, score: is missing; taste has no scale that 'sweet' is on",
        "line 12, score: must be a number at least 0 and at most 1, not 'nan'",
        "line 13, labelled_at: '0001-01-01T00:00:00+23:00' is not a time such as 2026-11-17T12:00:00Z",
    ]


def test_a_level_may_be_named_by_its_number(tmp_path: Path) -> None:
    labels = read(tmp_path, "id,criterion,option,who\na-1,groundedness,2,ada\na-2,groundedness,0,ada\n")
    assert [(label.option, label.score) for label in labels] == [("fully supported", 1.0), ("hallucinated", 0.0)]
    assert problems(tmp_path, "id,criterion,option,who\na-1,groundedness,3,ada\n") == [
        "line 2, option: '3' is not an option of groundedness; its options are: "
        "hallucinated, partly supported, fully supported"
    ]


def test_yes_and_no_are_refused_with_a_hint(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "id,criterion,option,who\na-1,groundedness,Yes,ada\n")
    assert problem.endswith("fully supported; for yes and no, give a score of 1 and 0 instead")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "id,criterion,label,who\na-1,groundedness,0,ada\na-2,groundedness,1,ada\n",
            ["has no column 'option' and no column 'score'; its columns are: id, criterion, label, who"],
        ),
        ("question,criterion,score\nq,clarity,2\n", ["interaction_id", "who", "line 2, score: must be a number"]),
        ("id,groundedness,who\na-1,yes,ada\n", ["a column 'groundedness'; each line is one label", "'option'"]),
        ("id,criterion,opton,who\na-1,clarity,clear,ada\n", ["did you mean 'option'?", "has no column 'option'"]),
    ],
)
def test_a_column_that_no_line_has_is_reported_once(tmp_path: Path, text: str, expected: list[str]) -> None:
    listed = problems(tmp_path, text)
    assert len(listed) == len(expected)
    assert all(part in problem for part, problem in zip(expected, listed, strict=True))


def test_an_empty_file_and_a_missing_one_are_reported(tmp_path: Path) -> None:
    assert problems(tmp_path, "") == ["contains no labels"]
    with pytest.raises(LabelsError, match="no such file"):
        read_label_file(tmp_path / "nowhere.csv", CRITERIA, now=NOW)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)), st.sampled_from(["csv", "jsonl"]))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes, ending: str) -> None:
    try:
        labels = read(tmp_path, b"id,criterion,score,who\n" + content, f"labels.{ending}")
    except LabelsError:
        return
    assert all(label.score is not None or label.retracts for label in labels)
