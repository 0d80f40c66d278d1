"""The journal: a run that was cut off at any byte resumes where it stopped."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import EvaluatorInfo
from sinks.reports.results_schema import End, Run
from stream.jobs.evaluate.journal import Journal, JournalEntry, JournalError, Past, describe_sample, digest_number
from tests.stream.jobs.evaluate.results import interaction, judge, lines_in, rows_in, write_rows

START = datetime(2026, 11, 15, tzinfo=UTC)
RUN = Run(
    name="a.csv",
    input_digest="sha256:1",
    started_at=START,
    evaluator=EvaluatorInfo(fingerprint="f", criteria=("c",), judges=("j",), version="1"),
    criteria=(),
    parameters={"limit": None, "sample": None, "input": {"adapter": "csv"}},
)


def journal_line(number: int, *, offset_seconds: float = 0.0, seconds: float = 1.0, again: bool = False) -> bytes:
    evaluation = {
        "evaluated_at": (START + timedelta(seconds=offset_seconds)).isoformat(),
        "composite": {"score": 0.5, "status": "ok"},
        "sampling": {"probability": 1.0},
    }
    digest = f"{number:016x}"
    row = {"kind": "row", "row": number, "digest": digest, "source": {}, "evaluation": evaluation, "seconds": seconds}
    return json.dumps({**row, "again": True} if again else row).encode() + b"\n"


END = End(ended_at=START, rows=3, seconds=9.0)


def past_of(folder: Path, **changes: Any) -> Past:
    with Journal(folder, RUN.model_copy(update=changes)) as journal:
        return journal.past


def test_written_rows_are_found_again(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        assert (journal.past.rows, journal.past.ended) == (0, False)
        journal.add(journal_line(3) + journal_line(1))
        journal.add(journal_line(7))
    past = past_of(tmp_path)
    assert (past.rows, past.ended) == (3, False)
    assert [number for number in range(10) if past.digest(number) is not None] == [1, 3, 7]
    assert past.digest(7) == 7 == digest_number((7).to_bytes(8, "big"))
    with Journal(tmp_path, RUN) as journal:
        journal.end(END)
    assert past_of(tmp_path).ended


def test_a_file_that_was_cut_at_any_byte_resumes_after_its_last_complete_line(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.add(journal_line(1) + journal_line(2) + journal_line(3))
        journal.end(END)
    whole = (tmp_path / "results.jsonl").read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / "results.jsonl").write_bytes(whole[:cut])
        with Journal(tmp_path, RUN) as journal:
            lines = whole[:cut].count(b"\n")
            assert journal.past.rows == max(0, min(lines - 1, 3))
            assert journal.past.ended == (lines == 5)
            journal.add(journal_line(9))
        kinds = [entry["kind"] for entry in lines_in(tmp_path)]
        assert kinds == [*["run", "row", "row", "row", "end"][: max(1, lines)], "row"]


def test_a_run_that_was_cut_at_any_byte_judges_the_rest_and_no_row_twice(tmp_path: Path) -> None:
    """This cuts a real file at many positions."""
    file = write_rows(tmp_path / "a.jsonl", (interaction(number) for number in range(4)))
    judge(file, tmp_path / "out")
    results = tmp_path / "out/results.jsonl"
    whole = results.read_bytes()
    for cut in [*range(0, len(whole), 997), len(whole) - 1]:
        results.write_bytes(whole[:cut])
        outcome = judge(file, tmp_path / "out")
        assert (outcome.before, outcome.judged) == (outcome.before, 4 - outcome.before)
        assert outcome.before == min(4, max(0, whole[:cut].count(b"\n") - 1))
        assert sorted(row["row"] for row in rows_in(tmp_path / "out")) == [1, 2, 3, 4]
        assert lines_in(tmp_path / "out")[-1]["kind"] == "end"


@given(st.binary(max_size=60).filter(lambda tail: b"\n" not in tail))
def test_any_incomplete_last_line_is_cut_off(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    folder = tmp_path_factory.mktemp("torn")
    with Journal(folder, RUN) as journal:
        journal.add(journal_line(1))
        journal.add(tail)
    assert past_of(folder).rows == 1
    assert len(lines_in(folder)) == 2


@pytest.mark.parametrize("damage", [b"{}\n", b"\x00\x00\n", b'{"kind":"row","row":"x"}\n'])
def test_damage_in_the_middle_is_refused_with_its_line(tmp_path: Path, damage: bytes) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.add(journal_line(1) + damage + journal_line(2))
    with pytest.raises(JournalError, match=r"results.jsonl, line 3: not a result .* use another --output"):
        past_of(tmp_path)


def test_a_row_to_be_judged_again_is_not_finished_until_then(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.add(journal_line(1, again=True) + journal_line(2))
    past = past_of(tmp_path)
    assert (past.rows, past.digest(1), past.digest(2)) == (1, None, 2)
    with Journal(tmp_path, RUN) as journal:
        journal.add(journal_line(1))
    past = past_of(tmp_path)
    assert (past.rows, past.digest(1)) == (2, 1)


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        ([(10.0, 2.0)], 2.0),
        ([(10.0, 2.0), (12.0, 2.0)], 4.0),
        ([(10.0, 2.0), (10.5, 2.0), (11.0, 2.0)], 3.0),
        ([(10.0, 2.0), (9.9, 2.0), (86_400.0, 3.0)], 5.0),
    ],
    ids=["one", "one after the other", "side by side", "a day later"],
)
def test_only_time_during_which_a_row_was_judged_counts(rows: list[tuple[float, float]], seconds: float) -> None:
    past = Past()
    for number, (offset_seconds, duration) in enumerate(rows, start=1):
        past.add(
            msgspec.json.decode(
                journal_line(number, offset_seconds=offset_seconds, seconds=duration), type=JournalEntry
            )
        )
    assert past.seconds == pytest.approx(seconds)


def test_options_that_change_no_result_may_change(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.add(journal_line(1))
    later = {"parameters": {**RUN.parameters, "limit": 5}, "started_at": START + timedelta(days=1)}
    assert past_of(tmp_path, **later).rows == 1
    first, second = lines_in(tmp_path)
    assert first["parameters"]["limit"] == 5
    assert first["started_at"] == "2026-11-15T00:00:00Z"
    assert second["row"] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_digest": "sha256:2"}, "the rows have changed"),
        ({"input_digest": None}, "not a file now"),
        ({"evaluator": RUN.evaluator.model_copy(update={"fingerprint": "g"})}, "fingerprint f then, g now"),
        ({"parameters": {**RUN.parameters, "sample": 0.5}}, "the sample has changed"),
        ({"parameters": {**RUN.parameters, "input": None}}, "the input has changed"),
    ],
)
def test_the_error_names_what_has_changed(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    past_of(tmp_path)
    with pytest.raises(JournalError, match=message):
        past_of(tmp_path, **changes)


def test_a_sample_of_an_earlier_version_is_resumed_and_its_salt_removed(tmp_path: Path) -> None:
    def sample(**parameters: Any) -> dict[str, Any]:
        return {"parameters": {**RUN.parameters, "sample": parameters}}

    past_of(tmp_path, **sample(share=0.5, salt="pepper"))
    with pytest.raises(JournalError, match="the sample has changed") as caught:
        past_of(tmp_path, **sample(**describe_sample(0.5, "paprika")))
    assert "pepper" not in str(caught.value)
    past_of(tmp_path, **sample(**describe_sample(0.5, "pepper")))
    assert "pepper" not in (tmp_path / "results.jsonl").read_text()


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot write"):
        past_of(tmp_path / "file" / "out")
