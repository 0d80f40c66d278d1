"""`streamjury evaluate`: its files, its output, the arguments it refuses, and how it resumes."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sinks.metrics import Stage
from stream.cli.main import main
from stream.cli.support.progress import Meter
from stream.jobs import evaluate
from stream.service.service import Service
from stream.service.setup.config_file import load
from tests.integration.pipeline import wait_until
from tests.parts.documents.json_fields import json_fields
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    best_verdict,
    chat_response,
    delayed,
    error_response,
)
from tests.parts.local_judge import LOCAL_JUDGE
from tests.parts.patience import patience
from tests.parts.program import program_for_shells
from tests.parts.rules import rules_of
from tests.stream.jobs.evaluate.results import interaction, lines_in, rows_in, write_rows

EXAMPLE = Path(__file__).parents[4] / "docs/examples/answers.csv"
# Rows of a run that a test ends: too many to be judged before it does so, even on a busy machine.
_MANY = 20_000


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


def start_process(*arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
    """Start the command; without a configuration, with the local judge alone, as the tests in this process."""
    pinned = {} if "--config" in arguments else LOCAL_JUDGE
    environ = {**os.environ, **pinned}
    command = [sys.executable, "-m", "stream.cli.main", "evaluate", *arguments]
    return subprocess.Popen(command, **{"env": environ, **options})


def write_config(endpoint: JudgeEndpoint, **options: object) -> Path:
    panel = [{"kind": "openai", "name": "gpt", "model": "m", "base_url": endpoint.base_url, **options}]
    price = {"prompt": 10.0, "completion": 10.0}
    judges = {"panel": [{**judge, "price": price} for judge in panel] + [{"kind": "local"}]}
    Path("c.yaml").write_text(yaml.safe_dump({"judges": judges}))
    return Path("c.yaml")


@pytest.mark.usefixtures("default_panel")
def test_the_example_is_judged_and_reported_as_the_page_says() -> None:
    page = (EXAMPLE.parents[1] / "evaluate.md").read_text(encoding="utf-8")
    result = run(EXAMPLE)
    assert result.exit_code == 0, result.output
    assert f"```text\n{result.stdout}```" in page
    names = {path.name for path in Path("answers-results").iterdir()}
    assert names == {"results.jsonl", "results.csv", "report.md", "report.html"}


def test_json_is_the_one_thing_on_standard_output() -> None:
    result = run(EXAMPLE, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, list(document)) == (0, json_fields("evaluate"))
    assert (document["rows"], document["judged"], document["statuses"]) == (25, 25, {"ok": 24, "unsafe": 1})
    assert round(document["composite"]["mean"], 4) == 0.8373
    assert document["criteria"]["clarity"] == {"mean": 0.98, "coverage": 1.0}
    assert (document["fail_under"], document["passed"]) == (None, None)


def test_labels_correct_the_means_in_the_reports_without_judging_again() -> None:
    write_rows(Path("answers.jsonl"), [interaction(number) for number in range(60)])
    labels = "".join(f"{interaction(number)['id']},clarity,{number % 2},ada,0.5\n" for number in range(40))
    Path("reviewed.csv").write_text(f"interaction_id,criterion,score,who,probability\n{labels}")
    assert run("answers.jsonl", "--criteria", "clarity").exit_code == 0
    before = Path("answers-results/results.jsonl").read_bytes()
    assert "Means corrected by labels" not in Path("answers-results/report.md").read_text()
    result = run("answers.jsonl", "--criteria", "clarity", "--labels", "reviewed.csv", "--json")
    (clarity,) = (row for row in json.loads(result.stdout)["corrected"] if row["criterion"] == "clarity")
    assert (clarity["judged"], clarity["labels"], clarity["status"]) == (60, 40, "corrected")
    assert clarity["corrected"]["low"] < 0.5 < clarity["corrected"]["high"]
    assert Path("answers-results/results.jsonl").read_bytes() == before
    shown = [f"{clarity['corrected'][name]:.2f}" for name in ("low", "high")]
    for report in ("report.md", "report.html"):
        text = Path(f"answers-results/{report}").read_text()
        assert "Means corrected by labels" in text
        assert " – ".join(shown) in text


def test_mistakes_in_the_labels_are_listed_before_a_row_is_judged() -> None:
    write_rows(Path("answers.jsonl"), [interaction(0)])
    Path("reviewed.csv").write_text("interaction_id,criterion,score,who\na,clarity,7,ada\nb,clarity,1,\n")
    result = run("answers.jsonl", "--labels", "reviewed.csv")
    assert result.exit_code == 1
    assert "line 2, score" in result.output
    assert "line 3, who" in result.output
    assert not Path("answers-results").exists()


@pytest.mark.parametrize(("threshold", "passed"), [("0.8", True), ("0.8373", True), ("0.8374", False), ("1", False)])
def test_a_mean_below_the_threshold_fails_with_a_clear_message(threshold: str, passed: bool) -> None:
    result = run(EXAMPLE, "--json", "--fail-under", threshold)
    assert result.exit_code == (0 if passed else 1)
    assert json.loads(result.stdout)["passed"] is passed
    expected = [] if passed else [f"failed: composite 0.8373 is below --fail-under {threshold}"]
    assert result.stderr.splitlines() == expected


def test_a_mean_just_below_the_threshold_is_not_rounded_up_to_it() -> None:
    result = run(EXAMPLE, "--fail-under", "0.83734")
    assert result.stderr == "failed: composite 0.8373 is below --fail-under 0.83734\n"


def test_without_any_composite_a_threshold_fails() -> None:
    write_rows(Path("a.jsonl"), ["{"])
    result = run("a.jsonl", "--fail-under", "0")
    assert result.exit_code == 1
    assert "failed: no composite is below" not in result.stderr
    assert "failed: there is no composite to compare with --fail-under 0\n" in result.stderr


def test_a_bad_row_is_reported_and_makes_the_exit_status_1_every_time() -> None:
    Path("a.csv").write_text("question,answer\nq,a\nonly one\nq,a\n")
    result = run("a.csv", "--output", "out")
    assert result.exit_code == 1
    assert "row 2: bad_csv: line 3: 1 cells, but the header has 2" in result.stderr
    assert "rows       3, 1 could not be judged" in result.stdout
    again = run("a.csv", "--output", "out")
    assert again.exit_code == 1
    assert "rows       3, 1 could not be judged, 3 already finished" in again.stdout


def test_a_bad_line_is_reported_with_its_line_number_counting_blank_lines() -> None:
    Path("a.jsonl").write_text('\n{"question": "q", "answer": "a"}\n\n \n{"question": \n')
    result = run("a.jsonl")
    assert result.exit_code == 1
    assert "row 2: bad_json: line 5: not JSON: Expecting value: column 13 (char 12)" in result.stderr


def test_rows_with_an_empty_question_or_answer_are_judged_and_reported() -> None:
    Path("a.csv").write_text("question,answer\nq,\n ,a\nq,a\n")
    result = run("a.csv")
    assert result.exit_code == 0, result.output
    assert "2 rows with an empty question or answer; judged like the others\n" in result.stderr
    assert result.stdout.startswith("rows       3\n")
    Path("b.csv").write_text("question,answer\nq,a\n")
    assert "empty" not in run("b.csv").stderr


def test_reports_for_people_say_scored_instead_of_ok() -> None:
    Path("a.csv").write_text("question,answer\nIs it open?,It is open.\n")
    result = run("a.csv", "-o", "out")
    assert "statuses   scored 1\n" in result.stdout
    assert ", scored\n" in Path("out/report.md").read_text()
    page = Path("out/report.html").read_text()
    assert ('<option value="status:ok">status scored</option>' in page, "status ok" in page) == (True, False)
    assert Path("out/results.csv").read_text().rstrip().endswith(",ok")


def test_the_first_line_counts_the_rows_for_which_no_judge_could_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "evaluate", partial(evaluate.evaluate, pauses=()))
    write_rows(Path("a.jsonl"), [*(interaction(number) for number in range(3)), "{"])
    with JudgeEndpoint(lambda _: error_response(401)) as endpoint:
        arguments = ("a.jsonl", "--judge", "gpt", "--config", write_config(endpoint))
        result = run(*arguments)
        assert result.exit_code == 1, result.output
        summary = "1 could not be judged, no judge could be reached for 3; run the same command to retry them"
        assert result.stdout.splitlines()[0] == f"rows       4, {summary}"
        assert f"gpt: check that {endpoint.base_url} answers" in result.stderr
        assert result.stderr.endswith("No judge gave a verdict, so there are no scores\n"), "and no line per criterion"
        assert "No judge gave a verdict, so there are no scores." in Path("a-results/report.md").read_text()
        endpoint.respond = best_verdict
        assert run(*arguments).stdout.splitlines()[0] == "rows       4, 1 could not be judged, 1 already finished"


def write_two_judges(safety: JudgeEndpoint, quality: JudgeEndpoint) -> Path:
    """Write a configuration with one judge for safety and another for the other five dimensions."""
    others = ["answer_relevance", "clarity", "completeness", "conciseness", "groundedness"]
    base = {"kind": "openai", "model": "m", "repairs": 0, "limits": {"retries": 0}}
    panel = [
        {**base, "name": "safety", "base_url": safety.base_url, "criteria": ["harmfulness"]},
        {**base, "name": "quality", "base_url": quality.base_url, "criteria": others},
    ]
    Path("two.yaml").write_text(yaml.safe_dump({"judges": {"panel": panel}}))
    return Path("two.yaml")


@pytest.mark.parametrize("quality", [error_response(401), chat_response("no verdict")], ids=["away", "invalid"])
def test_rows_without_verdicts_on_quality_have_no_composite_and_make_the_exit_status_1(
    quality: Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "evaluate", partial(evaluate.evaluate, pauses=()))
    write_rows(Path("a.jsonl"), [interaction(number) for number in range(3)])
    with JudgeEndpoint() as safe, JudgeEndpoint(lambda _: quality) as other:
        arguments = ("a.jsonl", "--config", write_two_judges(safe, other), "--output", "out")
        for _ in range(2):
            result = run(*arguments)
            assert result.exit_code == 1, result.output
            assert "composite  none" in result.stdout
            assert "statuses   incomplete 3" in result.stdout
            assert "3 rows without a composite: too many verdicts are missing\n" in result.stderr
            assert ("row 1: not all judges could be reached: " in result.stderr) is (quality.status == 401)
        other.respond = best_verdict
        result = run(*arguments, "--restart")
        assert (result.exit_code, "composite  1.0000" in result.stdout) == (0, True), result.output


def test_every_summary_warns_of_a_criterion_without_any_verdict() -> None:
    write_rows(Path("a.jsonl"), [interaction(number) for number in range(3)])

    def silent_about_groundedness(body: Body) -> Response:
        is_groundedness = "hallucinated" in json.dumps(body["response_format"])
        return chat_response("no verdict") if is_groundedness else best_verdict(body)

    with JudgeEndpoint(silent_about_groundedness) as endpoint:
        result = run("a.jsonl", "--judge", "gpt", "--config", write_config(endpoint), "--output", "out")
    assert result.exit_code == 0, result.output
    assert "composite  1.0000" in result.stdout
    assert "conciseness 100 %, groundedness 0 %, harmfulness 100 %, context_" in result.stdout
    assert "groundedness has no verdicts: it does not count in the composites\n" in result.stderr
    for report in ("report.md", "report.html"):
        assert "Groundedness has no verdicts" in Path("out", report).read_text()
    header, first, *_ = Path("out/results.csv").read_text().splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert (row["composite"], row["coverage"], row["status"]) == ("1", "0.8", "ok")


WITHOUT_GROUNDEDNESS = [
    ["rag.harmfulness", "rag.clarity"],
    ["rag.harmfulness"],
    ["rag.harmfulness", "answer_relevance", "rag.completeness"],
    ["harmfulness", "rag.conciseness", "rag.clarity"],
]


@pytest.mark.parametrize("use", WITHOUT_GROUNDEDNESS, ids=" ".join)
def test_a_default_floor_is_left_out_if_its_criterion_is_not_judged(use: list[str]) -> None:
    write_rows(Path("a.jsonl"), [interaction(1)])
    Path("c.yaml").write_text(yaml.safe_dump({"criteria": {"use": use}}))
    checked = CliRunner().invoke(main, ["config", "check", "--config", "c.yaml"])
    assert checked.exit_code == 0, checked.output
    for options in ([], ["--judge", "local"], ["--seed", "1"], ["--criteria", "harmfulness"]):
        result = run("a.jsonl", "--config", "c.yaml", "--restart", *options)
        assert result.exit_code == 0, result.output
    config = load(Path("c.yaml"), {})
    stages = [Stage.SAMPLER, Stage.WORKER, Stage.MONITOR]
    assert Service(config, stages).config.criteria.use == tuple(use)
    assert "groundedness" not in rules_of(config).text()


def test_a_configured_floor_is_refused_if_its_criterion_is_not_judged() -> None:
    write_rows(Path("a.jsonl"), [interaction(1)])
    content = {"criteria": {"use": ["rag.harmfulness", "rag.clarity"]}, "objectives": {"floors": {"groundedness": 0.7}}}
    Path("c.yaml").write_text(yaml.safe_dump(content))
    checked = CliRunner().invoke(main, ["config", "check", "--config", "c.yaml"])
    for result in (checked, run("a.jsonl", "--config", "c.yaml")):
        assert result.exit_code != 0
        assert "objectives.floors.groundedness: unknown criterion" in result.output


def test_a_notice_says_that_budgets_do_not_apply_to_this_run() -> None:
    write_rows(Path("a.jsonl"), [interaction(1)])
    Path("budgets.yaml").write_text("budgets: {per_hour_usd: 1.0}\n")
    notice = "budgets apply to the workers of the stream, not to this run"
    assert run("a.jsonl", "--config", "budgets.yaml").stderr.splitlines() == [notice]
    assert run("a.jsonl", "-o", "other").stderr == ""


def test_the_input_is_not_overwritten_by_the_table() -> None:
    Path("results.csv").write_text("question,answer\nq,a\n")
    result = run("results.csv", "-o", ".")
    assert result.exit_code == 1
    assert "this run would overwrite results.csv with its results.csv" in result.output
    assert Path("results.csv").read_text() == "question,answer\nq,a\n"
    assert not Path("results.jsonl").exists()


def test_standard_input_is_not_overwritten_either() -> None:
    write_rows(Path("results.jsonl"), [interaction(1)])
    before = Path("results.jsonl").read_bytes()
    with Path("results.jsonl").open("rb") as file:
        process = start_process("-", "-o", ".", "--restart", stdin=file, stderr=subprocess.PIPE)
        _out, err = process.communicate(timeout=60 * patience())
    assert process.returncode == 1
    assert b"this run would overwrite standard input with its results.jsonl" in err
    assert Path("results.jsonl").read_bytes() == before


def test_only_the_first_bad_rows_are_listed_and_the_rest_are_counted() -> None:
    write_rows(Path("a.jsonl"), ["{"] * 50)
    result = run("a.jsonl")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 21
    assert "and 30 more rows that could not be judged" in result.stderr


def test_criteria_judges_and_rows_can_be_limited_and_the_results_record_the_options() -> None:
    write_rows(Path("a.jsonl"), (interaction(number, answer=f"rec-{number} it is.") for number in range(8)))
    with JudgeEndpoint() as endpoint:
        config = write_config(endpoint)
        arguments = ("a.jsonl", "--criteria", "clarity, groundedness", "--judge", "gpt", "--limit", "3")
        result = run(*arguments, "--seed", "5", "--temperature", "0.25", "--config", config)
        assert result.exit_code == 0, result.output
        assert {(call["seed"], call["temperature"]) for call in endpoint.calls} == {(5, 0.25)}
        assert len(endpoint.calls) == 9
    assert "harmfulness is also judged: every composite needs a safety verdict" in result.stderr
    assert "cost       $0.0099" in result.stdout
    first, *rows, _end = lines_in(Path("a-results"))
    assert first["evaluator"]["judges"] == ["gpt"]
    assert first["evaluator"]["criteria"] == ["clarity", "groundedness", "harmfulness"]
    assert first["parameters"]["limit"] == 3
    assert first["parameters"]["options"] == {
        "criteria": ["clarity", "groundedness"],
        "judge": ["gpt"],
        "seed": 5,
        "temperature": 0.25,
    }
    assert len(rows) == 3


def test_the_seed_decides_which_rows_are_in_a_sample() -> None:
    write_rows(Path("a.jsonl"), (interaction(number) for number in range(60)))
    chosen = []
    for seed, folder in (("1", "one"), ("1", "two"), ("2", "three")):
        result = run("a.jsonl", "--sample", "0.5", "--seed", seed, "-o", folder)
        assert "not in the sample" in result.stdout
        chosen.append({row["row"] for row in rows_in(Path(folder))})
    assert chosen[0] == chosen[1] != chosen[2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("none.csv",), 1, "cannot read none.csv: No such file or directory"),
        (("a.xlsx",), 1, "unknown file extension"),
        (("-", "--format", "parquet"), 1, "cannot read Parquet from standard input"),
        (("a.csv", "--judge", "lokal"), 2, "--judge lokal: unknown judge; did you mean 'local'?"),
        (("a.csv", "--criteria", "claritty"), 2, "--criteria claritty: unknown criterion; did you mean"),
        (("a.csv", "--sample", "0"), 2, "Invalid value for '--sample'"),
        (("a.csv", "--limit", "0"), 2, "Invalid value for '--limit'"),
        (("a.csv", "--processes", "100000"), 2, "100000 is not in the range 1<=x<=256"),
        (("a.csv", "--config", "no.yaml"), 2, "no.yaml"),
        (("empty.csv",), 1, "empty.csv is empty"),
        (("a.csv", "-o", "a.csv"), 1, "cannot write"),
    ],
)
def test_an_error_is_a_message_without_a_traceback(arguments: tuple[str, ...], code: int, message: str) -> None:
    Path("a.csv").write_text("question,answer\nq,a\n")
    Path("empty.csv").write_text("")
    result = run(*arguments)
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output


def test_results_of_another_run_are_refused_with_advice() -> None:
    write_rows(Path("a.jsonl"), [interaction(1)])
    assert run("a.jsonl").exit_code == 0
    refused = run("a.jsonl", "--criteria", "clarity")
    assert refused.exit_code == 1
    assert "the criteria or judges have changed" in refused.output
    assert "use another --output, or --restart" in refused.output
    assert run("a.jsonl", "--criteria", "clarity", "--restart").exit_code == 0


@pytest.mark.parametrize(
    ("options", "content"),
    [
        ((), b'{"question":"q","answer":"a"}\n{"question":"q2","answer":"a"}\n'),
        (("--format", "csv"), b"question,answer\nq,a\nq2,a\n"),
    ],
    ids=["jsonl", "csv"],
)
@pytest.mark.slow
def test_a_run_on_standard_input_is_judged_and_resumed(options: tuple[str, ...], content: bytes) -> None:
    with program_for_shells() as folder:
        command = [folder / "streamjury", "evaluate", "-", *options]
        run_on = partial(subprocess.run, capture_output=True, timeout=60 * patience())
        first = run_on([*command, "--limit", "1"], input=content, check=True)
        second = run_on(command, input=content, check=True)
        changed = run_on(command, input=content.replace(b"q", b"x", 3), check=False)
    assert b"stdin-results/report.html" in first.stdout
    assert b"rows       2, 1 already finished" in second.stdout
    assert lines_in(Path("stdin-results"))[0]["name"] == "-"
    assert changed.returncode == 1


def test_ctrl_c_while_waiting_for_input_exits_at_once_and_says_how_to_resume() -> None:
    process = start_process("-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b'{"question":"q","answer":"a"}\n')
    process.stdin.flush()
    _wait_for_rows(Path("stdin-results"), 1)
    process.send_signal(signal.SIGINT)
    started_at = time.monotonic()
    process.wait(20 * patience())
    assert time.monotonic() - started_at < 5 * patience()
    _out, err = process.communicate()
    assert process.returncode == 130
    assert b"1 rows are finished; run the same command to judge the rest" in err


def _wait_for_rows(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60 * patience()
    while time.monotonic() < deadline:
        if (folder / "results.jsonl").exists() and len((folder / "results.jsonl").read_bytes().splitlines()) > count:
            return
        time.sleep(0.02)
    pytest.fail(f"no {count} rows in {folder}")


def test_ctrl_c_reports_at_once_how_many_rows_are_being_finished() -> None:
    write_rows(Path("a.jsonl"), (interaction(number, answer=f"rec-{number} it is.") for number in range(20)))
    held, release = set(), Event()

    def respond(body: Body) -> Response:
        """Answer the calls for two rows at once, then hold the two rows that are being judged."""
        if len(endpoint.calls) > 16:
            held.update(re.findall(r"rec-\d+", json.dumps(body)))
            assert release.wait(60 * patience())
        return best_verdict(body)

    with JudgeEndpoint(respond) as endpoint:
        config = write_config(endpoint)
        config.write_text(config.read_text() + yaml.safe_dump({"worker": {"drain_seconds": 45}}))
        process = start_process("a.jsonl", "--config", str(config), "--concurrency", "2", stderr=subprocess.PIPE)
        wait_until(lambda: len(held) == 2, seconds=60, what=lambda: f"two rows are held, not {held}")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert next(_messages(process.stderr)) == b"finishing 2 rows, for up to 45 s; Ctrl-C abandons them\n"
        assert process.poll() is None
        release.set()
        _out, err = process.communicate(timeout=30 * patience())
    assert process.returncode == 130
    assert [path.name for path in Path("a-results").iterdir()] == ["results.jsonl"]
    # The 16 calls were for the first two rows, or for all of one and most of the next two.
    _run, *rows = Path("a-results/results.jsonl").read_bytes().splitlines()
    assert len(rows) in {3, 4}
    said = list(_messages(err.splitlines(keepends=True)))
    assert said == [f"{len(rows)} rows are finished; run the same command to judge the rest\n".encode()]


def _messages(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that do not show the progress, which come after some seconds: on a slow machine too early."""
    return (line for line in lines if not line.startswith(b"judging: "))


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_an_interrupted_run_with_processes_can_be_resumed(signal_number: int) -> None:
    """Signals go to the whole group, as a terminal and an init system send them."""
    write_rows(Path("a.jsonl"), (interaction(index, answer=f"{index} days. " * 20) for index in range(_MANY)))
    process = start_process("a.jsonl", "--processes", "2", stderr=subprocess.PIPE, start_new_session=True)
    _wait_for_rows(Path("a-results"), 100)
    os.killpg(process.pid, signal_number)
    _out, err = process.communicate(timeout=30 * patience())
    assert process.returncode == 130, err
    assert b"run the same command to judge the rest" in err
    assert b"Traceback" not in err
    before = len(rows_in(Path("a-results")))
    result = run("a.jsonl", "--limit", str(before + 200), "--processes", "1")
    assert result.exit_code == 0, result.output
    rows = [row["row"] for row in rows_in(Path("a-results"))]
    assert len(rows) == len(set(rows)) >= before


@pytest.mark.slow
def test_a_killed_process_is_reported_with_how_to_resume() -> None:
    write_rows(Path("a.jsonl"), (interaction(index, answer=f"{index} days. " * 20) for index in range(_MANY)))
    process = start_process("a.jsonl", "--processes", "2", stderr=subprocess.PIPE)
    _wait_for_rows(Path("a-results"), 50)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    judges = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(judges[0]), signal.SIGKILL)
    _out, err = process.communicate(timeout=30 * patience())
    assert process.returncode == 1
    assert b"a judging process exited with status -9; run the same command to resume" in err


@pytest.mark.slow
def test_killing_the_command_leaves_no_process_behind() -> None:
    write_rows(Path("a.jsonl"), (interaction(index, answer=f"{index} days. " * 20) for index in range(_MANY)))
    process = start_process("a.jsonl", "--processes", "2", stderr=subprocess.DEVNULL)
    _wait_for_rows(Path("a-results"), 50)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20 * patience()
    while any(_is_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_is_alive(pid) for pid in children)


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


# Progress


def test_without_a_terminal_progress_is_written_as_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stream.cli.support.progress._LINE_SECONDS", 0.0)
    with Meter("judging", 1000.0, unit="rows", lines=True) as meter:
        monkeypatch.setattr(type(meter), "seconds", property(lambda _self: 10.0))
        meter.show(done=250, records=50, cost=0.0125)
        meter.show(done=1000, records=150, cost=1234.5, before=500)
    assert capsys.readouterr().err.splitlines() == [
        "judging: 50 rows, 5.0/s, $0.0125, 0:00:30 left",
        "judging: 150 rows, 15/s, $1,234.50, 0:00:00 left",
    ]


def test_without_a_terminal_there_is_no_progress_unless_lines_are_requested(capsys: pytest.CaptureFixture[str]) -> None:
    with Meter("sending", 10.0) as meter:
        meter.show(done=5, records=5)
    assert capsys.readouterr().err == ""


def test_a_run_with_models_shows_its_cost_and_rate() -> None:
    write_rows(Path("a.jsonl"), (interaction(number, answer=f"rec-{number} it is.") for number in range(20)))
    proceed = Event()

    def respond(body: Body) -> Response:
        assert proceed.wait(60 * patience())
        return delayed(best_verdict(body), 0.3)

    with JudgeEndpoint(respond) as endpoint:
        config = write_config(endpoint)
        code = (
            "import stream.cli.support.progress as p; p._LINE_SECONDS = 0.2; from stream.cli.main import main; "
            f"main(['evaluate', 'a.jsonl', '--config', '{config}', '--concurrency', '2'])"
        )
        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, b"")
            assert b"judging: 0 judged, 2 waiting, 0.0/s\n" in lines
            proceed.set()
            rest = b"".join(lines)
    assert process.returncode == 0, rest
    assert re.search(rb"judging: \d+ judged, \d waiting, \d+(\.\d)?/s, \$0\.\d{4}, \d:\d\d:\d\d left", rest)


def test_the_journal_is_readable_json_lines() -> None:
    run(EXAMPLE)
    for line in io.BytesIO(Path("answers-results/results.jsonl").read_bytes()):
        assert json.loads(line)["kind"] in {"run", "row", "end"}
