"""An offline run: every row has a result, a bad row fails alone, and finished rows are not judged again."""

import json
import resource
import threading
from pathlib import Path
from typing import Any

import pytest

from judges.values.evaluation import MIN_PROBABILITY
from sinks.reports.results_reader import read_results
from stream.config.model import Config
from stream.errors import StageError
from stream.jobs.evaluate import EvaluateRequest, FileError, JournalError, Progress, evaluate
from stream.jobs.evaluate.row_judge import make_row_id
from stream.jobs.evaluate.rows import FileRow
from stream.records.decision import Cohort
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, best_verdict, delayed, error_response
from tests.stream.jobs.evaluate.results import interaction, judge, lines_in, rows_in, write_rows


def config_with_judge(endpoint: JudgeEndpoint, **worker: object) -> Config:
    judges = {"panel": [{"kind": "openai", "name": "judge", "model": "m", "base_url": endpoint.base_url}]}
    return Config.model_validate(
        {"criteria": {"use": ["rag"]}, "judges": judges, "worker": {"drain_seconds": 0.5, **worker}}
    )


@pytest.fixture
def ten_rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "ten.jsonl", (interaction(number) for number in range(10)))


def test_every_row_has_a_result_and_the_results_can_be_loaded(ten_rows: Path, tmp_path: Path) -> None:
    outcome = judge(ten_rows, tmp_path / "out")
    assert (outcome.judged, outcome.failed, outcome.finished) == (10, 0, True)
    results = read_results(tmp_path / "out")
    assert [row.row for row in results.rows()] == list(range(1, 11))
    assert {row.evaluation.composite.status.value for row in results.rows() if row.evaluation} == {"ok"}
    assert results.end is not None
    assert results.end.rows == 10
    assert results.end.seconds > 0
    assert results.run.name == "ten.jsonl"
    assert (results.run.input_digest or "").startswith("sha256:")
    assert [criterion.name for criterion in results.run.criteria if criterion.safety] == ["harmfulness"]


def test_any_source_is_kept_unchanged(tmp_path: Path) -> None:
    odd = '{"id": "a",\t"question":"q\\u0000\\n ", "answer": "a", "x": [1.10, 1e400, {"y": null}], "z": "\u2028\x7f"}'
    judge(write_rows(tmp_path / "odd.jsonl", [odd, interaction(2)]), tmp_path / "out")
    text = (tmp_path / "out/results.jsonl").read_text(encoding="utf-8")
    assert odd in text
    assert rows_in(tmp_path / "out")[0]["source"] == json.loads(odd)
    assert len(list(read_results(tmp_path / "out").rows())) == 2


def test_a_bad_row_is_reported_and_the_others_are_judged(tmp_path: Path) -> None:
    rows = [interaction(1), "{not json", "[1]", {"id": "x", "question": "q"}, interaction(5), '{"id":"\\ud800"}', "{}"]
    outcome = judge(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "out")
    assert (outcome.judged, outcome.failed, outcome.finished) == (7, 5, True)
    rows_by_number = {row["row"]: row for row in rows_in(tmp_path / "out")}
    assert {number for number, row in rows_by_number.items() if row["evaluation"]} == {1, 5}
    assert rows_by_number[2]["source"] == {"line": "{not json"}
    assert rows_by_number[4]["source"] == rows[3]
    assert rows_by_number[4]["error"] == {"kind": "invalid_record", "message": "answer: Field required"}
    assert outcome.problems[0].startswith("row 2: bad_json: line 2: not JSON")
    assert len(list(read_results(tmp_path / "out").rows())) == 7


def test_a_row_over_the_limits_is_a_bad_row_and_its_beginning_is_kept(tmp_path: Path) -> None:
    config = Config.model_validate({"input": {"limits": {"record_bytes": 5_000}}})
    rows = [interaction(1, answer="x" * 4_990), interaction(2), interaction(3, answer="x" * 100_000)]
    outcome = judge(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "out", config)
    rows_by_number = {row["row"]: row for row in rows_in(tmp_path / "out")}
    assert outcome.failed == 2
    assert [rows_by_number[number]["error"]["kind"] for number in (1, 3)] == ["too_large", "too_large"]
    assert all(len(json.dumps(rows_by_number[number])) < 10_000 for number in (1, 3))


def test_a_table_row_over_the_limits_keeps_its_columns(tmp_path: Path) -> None:
    config = Config.model_validate({"input": {"limits": {"record_bytes": 5_000}}})
    (tmp_path / "a.csv").write_text(f"id,question,answer\n1,q,{'x' * 9_000}\n2,q,a\n")
    outcome = judge(tmp_path / "a.csv", tmp_path / "out", config)
    first, second = rows_in(tmp_path / "out")
    assert outcome.failed == 1
    assert first["source"] == {"id": "1", "question": "q", "answer": "x" * 2_000 + "…"}
    assert second["evaluation"]["interaction_id"] == "2"


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_rows_without_an_id_get_one_that_is_the_same_every_time(tmp_path: Path, name: str) -> None:
    if name.endswith("csv"):
        (tmp_path / name).write_text("question,answer,ID\nq,a,\nq,a,\nq,a,own\n")
    else:
        same = {"question": "q", "answer": "a"}
        write_rows(tmp_path / name, [same, {**same, "id": None}, {**same, "id": "own"}])
    ids = []
    for folder in ("one", "two"):
        assert judge(tmp_path / name, tmp_path / folder).failed == 0
        ids.append([row["evaluation"]["interaction_id"] for row in rows_in(tmp_path / folder)])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3
    assert ids[0][2] == "own"
    assert ids[0][0].startswith("row-1-")


def test_a_mapping_reads_rows_as_the_stream_does(tmp_path: Path) -> None:
    mapping = {"id": "no", "question": "in.q", "answer": "out.a"}
    config = Config.model_validate({"input": {"adapter": "mapping", "mapping": mapping}})
    rows = [{"no": 7, "in": {"q": "q"}, "out": {"a": "a"}}, {"in": {"q": "q"}, "out": {"a": "a"}}]
    outcome = judge(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "out", config)
    first, second = rows_in(tmp_path / "out")
    assert first["evaluation"]["interaction_id"] == "7"
    assert second["error"]["message"] == "id: nothing at 'no'"
    assert outcome.failed == 1


@pytest.mark.slow
def test_several_processes_give_the_same_results_as_one(tmp_path: Path) -> None:
    rows = [*(interaction(n, answer=f"{n} days.") for n in range(100)), "{", interaction(102)]
    file = write_rows(tmp_path / "a.jsonl", rows)
    alone, together = judge(file, tmp_path / "one", processes=1), judge(file, tmp_path / "two", processes=2)
    assert (alone.judged, alone.failed) == (together.judged, together.failed) == (102, 1)

    def composites(folder: Path) -> dict[int, Any]:
        return {row["row"]: (row["evaluation"] or {}).get("composite") for row in rows_in(folder)}

    assert composites(tmp_path / "one") == composites(tmp_path / "two")


def test_the_limit_counts_rows_of_the_file_and_may_grow(ten_rows: Path, tmp_path: Path) -> None:
    assert judge(ten_rows, tmp_path / "out", limit=4).judged == 4
    assert read_results(tmp_path / "out").run.parameters["limit"] == 4
    second = judge(ten_rows, tmp_path / "out")
    assert (second.before, second.judged) == (4, 6)
    results = read_results(tmp_path / "out")
    assert results.run.parameters["limit"] is None
    assert results.end is not None
    assert (len(results), results.end.rows) == (10, 10)


def test_a_sample_matches_that_of_the_stream_and_its_rate_is_recorded(tmp_path: Path) -> None:
    rows = [interaction(number) for number in range(200)]
    file = write_rows(tmp_path / "a.jsonl", rows)
    outcome = judge(file, tmp_path / "out", share=0.3, salt="pepper")
    chosen = {str(row["id"]) for row in rows if Cohort("pepper").draw(str(row["id"])) < 0.3}
    results = rows_in(tmp_path / "out")
    assert {row["evaluation"]["interaction_id"] for row in results} == chosen
    assert {json.dumps(row["evaluation"]["sampling"]) for row in results} == {
        '{"probability": 0.3, "rule": "sample", "lane": "main"}'
    }
    assert outcome.judged + outcome.left_out == 200
    assert "pepper" not in (tmp_path / "out" / "results.jsonl").read_text()
    salt = Config().sampling.salt
    judge(file, tmp_path / "own", share=0.3)
    own = {row["evaluation"]["interaction_id"] for row in rows_in(tmp_path / "own")}
    assert own == {str(row["id"]) for row in rows if Cohort(salt).draw(str(row["id"])) < 0.3} != chosen


def test_bad_rows_are_sampled_like_others(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl", [f"{{bad {number}" for number in range(100)])
    outcome = judge(file, tmp_path / "out", share=0.2, salt="s")
    expected = [
        number + 1
        for number in range(100)
        if Cohort("s").draw(make_row_id(FileRow(number + 1, f"{{bad {number}".encode()))) < 0.2
    ]
    assert [row["row"] for row in rows_in(tmp_path / "out")] == expected
    assert 0 < outcome.judged == outcome.failed < 50
    assert judge(file, tmp_path / "none", share=MIN_PROBABILITY).judged == 0


def test_progress_reports_bytes_and_rows(ten_rows: Path, tmp_path: Path) -> None:
    reports: list[Progress] = []
    evaluate(Config(), EvaluateRequest(file=str(ten_rows), folder=tmp_path / "out"), watch=reports.append)
    assert reports[-1] == Progress(ten_rows.stat().st_size, ten_rows.stat().st_size, 0.0, 10, None)
    reports.clear()
    evaluate(Config(), EvaluateRequest(file=str(ten_rows), folder=tmp_path / "out"), watch=reports.append)
    assert reports[-1].done == reports[-1].before == ten_rows.stat().st_size


# With models


@pytest.mark.slow
def test_no_more_rows_are_judged_at_once_than_allowed(ten_rows: Path, tmp_path: Path) -> None:
    lock, requests, at_once, most = threading.Lock(), 0, 0, 0
    texts: dict[str, int] = {}

    second_row = threading.Event()

    def respond(body: Body) -> Response:
        nonlocal requests, at_once, most
        with lock:
            requests, at_once = requests + 1, at_once + 1
            most = max(most, at_once)
        if most > 6:
            second_row.set()
        # After enough answers to raise the number of calls at once, a call waits for a request of the second row, so
        # that a slow machine has as many calls in flight as a fast one.
        if requests > 24:
            second_row.wait(25.0)
        with lock:
            at_once -= 1
            texts[str(body["messages"])] = texts.get(str(body["messages"]), 0) + 1
        return best_verdict(body)

    file = write_rows(ten_rows, [interaction(number, answer=f"rec-{number} it is.") for number in range(10)])
    with JudgeEndpoint(respond) as endpoint:
        config = config_with_judge(endpoint)
        assert judge(file, tmp_path / "out", config, concurrency=2).judged == 10
    assert most <= 2 * 6
    assert most > 6


def test_finished_rows_are_not_judged_again(ten_rows: Path, tmp_path: Path) -> None:
    rows = [interaction(number, answer=f"rec-{number} it is.") for number in range(10)]
    file = write_rows(ten_rows, rows)
    with JudgeEndpoint() as endpoint:
        config = config_with_judge(endpoint)
        judge(file, tmp_path / "out", config, limit=6)
        first = len(endpoint.calls)
        assert judge(file, tmp_path / "out", config).judged == 4
        assert (first, len(endpoint.calls)) == (36, 60)
        assert judge(file, tmp_path / "out", config).judged == 0
        assert len(endpoint.calls) == 60
    assert [line["kind"] for line in lines_in(tmp_path / "out")].count("end") == 1 + 1


def test_rows_whose_judges_cannot_be_reached_are_judged_by_the_next_run(ten_rows: Path, tmp_path: Path) -> None:
    with JudgeEndpoint(lambda _: error_response(503)) as endpoint:
        config = config_with_judge(endpoint)
        first = judge(ten_rows, tmp_path / "out", config, concurrency=1)
        assert (first.judged, first.failed, first.gave_up) == (10, 10, None)
        assert first.problems[0].startswith("row 1: no judge could be reached: ")
        endpoint.respond = best_verdict
        second = judge(ten_rows, tmp_path / "out", config)
    assert (second.before, second.judged, second.failed) == (0, 10, 0)
    results = read_results(tmp_path / "out")
    assert len(results) == 10
    assert all(row.evaluation and row.evaluation.composite.score == 1.0 for row in results.rows())


def test_the_cost_of_a_row_includes_all_attempts(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl", [interaction(1)])
    refused = 0

    def respond(body: Body) -> Response:
        nonlocal refused
        if "harm" in str(body["messages"]).lower() and refused < 2:
            refused += 1
            return error_response(503)
        return best_verdict(body)

    with JudgeEndpoint(respond) as endpoint:
        judge_config = {
            "kind": "openai",
            "name": "judge",
            "model": "m",
            "base_url": endpoint.base_url,
            "price": {"prompt": 10.0, "completion": 10.0},
            "limits": {"retries": 0},
        }
        config = Config.model_validate(
            {"criteria": {"use": ["rag"]}, "judges": {"panel": [judge_config], "cache": {"entries": 0}}}
        )
        outcome = evaluate(config, EvaluateRequest(file=str(file), folder=tmp_path / "out"), pauses=(0.0,) * 5)
        answered = len(endpoint.calls) - refused
    assert refused == 2
    assert answered == 3 * 6 - refused
    assert outcome.cost_usd == pytest.approx(answered * 110 * 10e-6)
    [row] = rows_in(tmp_path / "out")
    assert row["evaluation"]["cost_usd"] == outcome.cost_usd


def test_an_outage_is_waited_out(ten_rows: Path, tmp_path: Path) -> None:
    with JudgeEndpoint(lambda _: error_response(503)) as endpoint:
        config = config_with_judge(endpoint)
        threading.Timer(1.0, lambda: setattr(endpoint, "respond", best_verdict)).start()
        request = EvaluateRequest(file=str(ten_rows), folder=tmp_path / "out")
        outcome = evaluate(config, request, pauses=(1.0,) * 30)
    assert (outcome.judged, outcome.failed) == (10, 0)


def test_judges_that_are_never_reached_end_the_run_early(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl", (interaction(number) for number in range(100)))
    with JudgeEndpoint(lambda _: error_response(401, "the key is wrong")) as endpoint:
        outcome = judge(file, tmp_path / "out", config_with_judge(endpoint), concurrency=4)
    assert not outcome.finished
    assert 20 <= outcome.judged < 30
    assert outcome.gave_up is not None
    assert [line["kind"] for line in lines_in(tmp_path / "out")][-1] == "row"


def test_a_stop_finishes_rows_in_flight_and_the_next_run_resumes(tmp_path: Path) -> None:
    rows = [interaction(number, answer=f"rec-{number} it is.") for number in range(50)]
    file = write_rows(tmp_path / "a.jsonl", rows)
    stop = threading.Event()
    with JudgeEndpoint(lambda body: delayed(best_verdict(body), 0.05)) as endpoint:
        config = config_with_judge(endpoint, drain_seconds=45)
        request = EvaluateRequest(file=str(file), folder=tmp_path / "out", concurrency=4)
        first = evaluate(config, request, stop=stop, watch=lambda progress: stop.set() if progress.rows >= 10 else None)
        assert first.interrupted
        assert 10 <= first.judged <= 14
        second = judge(file, tmp_path / "out", config)
        assert len(endpoint.calls) == 50 * 6
    assert (second.before, second.judged, second.finished) == (first.judged, 50 - first.judged, True)


def test_a_stop_does_not_wait_for_a_judge_that_hangs(ten_rows: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    with JudgeEndpoint(lambda body: delayed(best_verdict(body), 30.0)) as endpoint:
        threading.Timer(0.5, stop.set).start()
        outcome = evaluate(
            config_with_judge(endpoint), EvaluateRequest(file=str(ten_rows), folder=tmp_path / "out"), stop=stop
        )
    assert (outcome.interrupted, outcome.judged) == (True, 0)


def test_models_need_a_single_process(ten_rows: Path, tmp_path: Path) -> None:
    with JudgeEndpoint() as endpoint, pytest.raises(StageError, match="remove --processes"):
        judge(ten_rows, tmp_path / "out", config_with_judge(endpoint), processes=2)
    assert not (tmp_path / "out").exists()


# Runs that cannot be resumed


def refusal(file: Path, folder: Path, config: Config | None = None, **request: Any) -> str:
    before = (folder / "results.jsonl").read_bytes()
    with pytest.raises((JournalError, FileError)) as caught:
        judge(file, folder, config, **request)
    assert (folder / "results.jsonl").read_bytes() == before
    assert "use another --output, or --restart" in str(caught.value)
    return str(caught.value)


def test_results_of_another_run_are_not_extended(ten_rows: Path, tmp_path: Path) -> None:
    judge(ten_rows, tmp_path / "out")
    stricter = Config.model_validate({"composite": {"weights": {"clarity": 2.0}}})
    assert "the criteria or judges have changed (fingerprint" in refusal(ten_rows, tmp_path / "out", stricter)
    assert 'the sample has changed (null then, {"share":0.5' in refusal(ten_rows, tmp_path / "out", share=0.5)
    shorter = Config.model_validate({"input": {"limits": {"contexts": 1}}})
    assert "the input has changed" in refusal(ten_rows, tmp_path / "out", shorter)
    other = write_rows(tmp_path / "other.jsonl", [interaction(1)])
    assert "the rows have changed (ten.jsonl, sha256:" in refusal(other, tmp_path / "out")
    assert judge(other, tmp_path / "out", restart=True).judged == 1
    assert len(rows_in(tmp_path / "out")) == 1


def test_a_file_that_is_not_a_results_file_is_left_alone(ten_rows: Path, tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("my own notes\n")
    assert "is not a results file" in refusal(ten_rows, tmp_path)


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n\n")
    with pytest.raises(FileError, match=r"a\.jsonl: no rows to judge"):
        judge(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_without_rows_does_not_delete_earlier_results(ten_rows: Path, tmp_path: Path) -> None:
    judge(ten_rows, tmp_path / "out")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(FileError, match="no rows"):
        judge(tmp_path / "empty.jsonl", tmp_path / "out", restart=True)
    assert len(rows_in(tmp_path / "out")) == 10


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("name", ["results.jsonl", "results.csv", "report.md", "report.html"])
@pytest.mark.parametrize("way", ["itself", "a link to it", "its other name"])
def test_no_run_overwrites_its_input(ten_rows: Path, tmp_path: Path, name: str, way: str, restart: bool) -> None:
    target = ten_rows.rename(tmp_path / name)
    file = target if way == "itself" else tmp_path / "other.jsonl"
    if way == "a link to it":
        file.symlink_to(target)
    elif way == "its other name":
        file.hardlink_to(target)
    before = target.read_bytes()
    with pytest.raises(FileError, match=f"this run would overwrite .* with its {name}: judge a copy"):
        judge(file, tmp_path, restart=restart, format="jsonl")
    assert target.read_bytes() == before


def test_rows_before_an_endless_line_are_judged(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer\nq,a\nq,a\n" + "x" * 33_554_433)
    with pytest.raises(FileError, match="a line of more than"):
        judge(tmp_path / "a.csv", tmp_path / "out", processes=1)
    assert len(rows_in(tmp_path / "out")) == 2


def test_a_full_disk_ends_the_run_and_the_next_one_resumes(ten_rows: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(JournalError, match=r"cannot write .*: File too large; finished results are kept"):
            judge(ten_rows, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    outcome = judge(ten_rows, tmp_path / "out")
    assert 0 < outcome.before < 10
    assert len(read_results(tmp_path / "out")) == outcome.before + outcome.judged == 10


def test_two_runs_do_not_write_to_the_same_file(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl", (interaction(number) for number in range(3)))
    refusals: list[str] = []

    def respond(body: Body) -> Response:
        if not refusals:
            with pytest.raises(JournalError) as caught:
                judge(file, tmp_path / "out")
            refusals.append(str(caught.value))
        return best_verdict(body)

    with JudgeEndpoint(respond) as endpoint:
        assert judge(file, tmp_path / "out", config_with_judge(endpoint), concurrency=1).judged == 3
    assert refusals[0].startswith("another run is writing to ")


def test_no_secret_is_written(ten_rows: Path, tmp_path: Path) -> None:
    with JudgeEndpoint() as endpoint:
        panel = [{"kind": "openai", "name": "j", "model": "m", "base_url": endpoint.base_url, "api_key": "sk-secret-1"}]
        judge(ten_rows, tmp_path / "out", Config.model_validate({"judges": {"panel": panel}}))
        assert endpoint.headers[0]["authorization"] == "Bearer sk-secret-1"
    text = (tmp_path / "out/results.jsonl").read_text()
    assert "sk-secret-1" not in text
    assert '"api_key":"***"' in text
