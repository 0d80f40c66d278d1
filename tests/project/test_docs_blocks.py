"""Every code block of the pages is valid: commands and Python run, configurations load, queries are PromQL.

The blocks of a page are run in order, in a separate folder, as a reader would. Commands that cannot run here are
listed below with the reason, and only checked: commands, options, targets, extras and profiles must exist.
"""

import ast
import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import yaml

from judges import Interaction, Judge, PairwiseJudge, Panel, load_criteria
from judges.encoder import ModelDescription, read_description
from judges.values.evaluation import Evaluation
from sinks.archive.database import Database
from sinks.web.health import Health, health_routes
from stream.config.model import Config
from stream.config.sections.kafka import TopicsConfig
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import exit_patience
from stream.service.setup.config_file import load
from tests.parts import promtool
from tests.parts.documents.pages import ROOT, Block, blocks, code_spans, pages
from tests.parts.documents.shell import check, check_mention, commands
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, chat_response
from tests.parts.patience import patience
from tests.parts.program import program_for_shells

RUN_ELSEWHERE = {
    "docs/tutorial.md": "typed into terminals by tests/integration/cli/test_tutorial.py",
    "docs/guides/opentelemetry.md": "typed into terminals by tests/integration/cli/test_opentelemetry_guide.py",
    "docs/backfill.md": "needs a broker that finds records by time: run by tests/integration/jobs/test_backfill.py",
    "docs/reference/cli.md": "the examples of the help texts, about files and clusters of the reader's own",
}
"""Pages whose shell commands are checked and not run here, and why."""

NOT_RUN = {
    r"make ": "sets up the environment, or runs everything: the tests are part of that",
    r"(\w+=\S+ )?streamjury (run|sampler|worker|monitor|archivist|page|tail)\b": (
        "goes on until Ctrl-C; run by tests/integration"
    ),
    r"streamjury labels (send|report --since)": "labels of the reader's own; run by tests/integration/cli",
    r"(streamjury rules|promtool) .*/etc/prometheus/": "where only root may write",
    r"curl .*\.example\.com": "a server of the reader's own; the API is called by tests/sinks/page",
}
"""Commands that are checked and not run here, and why."""

SHELL = ("sh", "bash", "console")
# A block without a language holds commands if it begins with one of these, else a drawing.
PROGRAMS = ("make ", "streamjury ")
NEEDS_BROKER = re.compile(r"streamjury (topics|send|labels|audit|replay|alerts)\b|bootstrap.servers")
_SECONDS = 200.0
BRAND = "criteria: [{name: brand, title: Brand, question: Is the brand named, scale: {range: {min: 0, max: 10}}}]"


def obliging(body: Body) -> Response:
    """Answer with the best that the request's schema allows; without one, reply as a guardian model does."""
    if "response_format" not in body:
        return chat_response("Feedback: It is. [RESULT] 5" if "[RESULT]" in str(body["messages"]) else "No")
    return chat_response(json.dumps(_obliging_reply(body["response_format"]["json_schema"]["schema"])))


def _obliging_reply(schema: Mapping[str, Any]) -> dict[str, object]:
    properties = schema["properties"]
    if "verdict" not in properties:
        return {name: _obliging_reply(part) for name, part in properties.items()}
    verdict = properties["verdict"]
    if verdict.get("type") == "number":
        return {"explanation": "So it is.", "verdict": verdict["maximum"]}
    if verdict.get("type") == "object":
        return {"explanation": "So it is.", "verdict": dict.fromkeys(verdict["required"], True)}
    return {
        "explanation": "So it is.",
        "verdict": next(label for label in verdict["enum"] if label != "not_applicable"),
    }


def invent_secrets(text: str) -> dict[str, str]:
    """Return a value for each variable that a text names, as long as a token must be."""
    return {name: f"the-value-of-{name}" for name in re.findall(r"\$\{(\w+)\}", text)}


class Desk:
    """The place where a reader follows one page: a folder, and on demand a broker and a model."""

    def __init__(self, folder: Path, page: Path, stack: ExitStack, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self._page, self._stack, self._capture = folder, page, stack, capture
        self._text = page.read_text(encoding="utf-8")
        self.printed = ""
        self._namespace: dict[str, object] = {"__name__": "example"}
        self._kinds: Mapping[str, Callable[[Block], None]] = {
            **dict.fromkeys(SHELL, self._shell),
            "yaml": self._yaml,
            "json": self._json,
            "python": self._python,
            "promql": self._promql,
            "ini": self._unit,
            "sql": self._sql,
            "text": self._shown,
            "": self._unmarked,
        }
        self._endpoint = stack.enter_context(JudgeEndpoint(obliging))
        self._program = stack.enter_context(program_for_shells())
        self.bootstrap = self._broker() if NEEDS_BROKER.search(self._text) else "127.0.0.1:1"
        (folder / "docs").symlink_to(ROOT / "docs")
        self._write_files()

    def follow(self, block: Block) -> None:
        assert block.language in self._kinds, f"no rule for blocks of {block.language}"
        self._kinds[block.language](block)

    def close(self) -> None:
        for value in self._namespace.values():
            if isinstance(value, Judge | Panel | PairwiseJudge):
                value.close()
        # Clients of the broker close before it does.
        self._namespace.clear()

    def promises(self) -> set[str]:
        """Return the output that comments after Python's `print` promise."""
        code = "\n".join(block.code for block in blocks(self._page, "python"))
        return set(re.findall(r"^print\(.*\)  # (.+)$", code, re.MULTILINE))

    def _broker(self) -> str:
        broker = self._stack.enter_context(EmbeddedBroker())
        topics = TopicsConfig()
        aside = (*topics.retry_topics(3), topics.overflow)
        results = (topics.evaluations, topics.critical, topics.deadletter, topics.labels)
        broker.make_topics((topics.interactions, topics.sampled, *aside, *results))
        return broker.bootstrap

    def _write_files(self) -> None:
        """Write the files that a page names in the first line of a block, and those that it presupposes."""
        named = {name: block.code for block in blocks(self._page, "yaml") if (name := file_name(block))}
        for name, code in (presupposed_files() | named).items():
            (self.folder / name).write_text(self._with_real_addresses(code), encoding="utf-8")

    def _with_real_addresses(self, code: str) -> str:
        """Replace addresses in the code by those of this test."""
        here = {"http://localhost:8000/v1": self._endpoint.base_url, "kafka-1:9092": self.bootstrap}
        for address, ours in here.items():
            code = code.replace(address, ours)
        return code

    # One method per language

    def _unmarked(self, block: Block) -> None:
        (self._shell if block.code.startswith(PROGRAMS) else self._shown)(block)

    def _shell(self, block: Block) -> None:
        run = []
        for command in commands(block.code):
            check(command)
            if not (block.page in RUN_ELSEWHERE or is_not_run(command)):
                run.append(command)
        if run:
            self._run("\n".join(run))

    def _run(self, script: str) -> None:
        environ = {
            **os.environ,
            **invent_secrets(self._text),
            "PATH": os.pathsep.join((str(self._program), str(Path(sys.executable).parent), os.environ["PATH"])),
            "STREAMJURY__KAFKA__BOOTSTRAP": self.bootstrap,
            "COLUMNS": "160",
        }
        script = f"set -euo pipefail\n{self._with_real_addresses(script)}"
        command = ["bash", "-c", script]
        process = subprocess.run(
            command, cwd=self.folder, env=environ, capture_output=True, timeout=_SECONDS * patience(), check=False
        )
        output = process.stdout.decode() + process.stderr.decode()
        assert process.returncode == 0, f"{script}\n{output}"
        self.printed += output

    def _python(self, block: Block) -> None:
        source = self._with_real_addresses(block.code)
        code = compile(source, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, self._namespace))
        else:
            exec(code, self._namespace)
        self.printed += self._capture.readouterr().out

    def _yaml(self, block: Block) -> None:
        text = self._with_real_addresses(block.code)
        document = yaml.safe_load(text)
        keys = set(document)
        file = self.folder / f"block-{block.line}.yaml"
        file.write_text(text, encoding="utf-8")
        if isinstance(document.get("criteria"), list):
            assert load_criteria(file)
        elif keys <= set(Config.model_fields):
            load(file, invent_secrets(text))
        elif keys == {"groups"}:
            assert promtool.problems_of_rules(self.folder, text) == ""
        elif {"scrape_configs"} <= keys:
            process = promtool.run("promtool", "check", "config", file.name, cwd=self.folder)
            assert process.returncode == 0, process.stdout + process.stderr
        elif {"route", "receivers"} <= keys:
            process = promtool.run("amtool", "check-config", file.name, cwd=self.folder)
            assert process.returncode == 0, process.stdout + process.stderr
        elif keys <= set(ModelDescription.model_fields):
            self._check_model(block)
        elif document.get("kind") == "Deployment":
            self._check_deployment(document["spec"]["template"]["spec"])
        else:
            pytest.fail(f"no rule for a file with the keys {', '.join(sorted(keys))}")

    def _check_model(self, block: Block) -> None:
        """Check the description of a model beside empty files, and keep it for the configurations that name it."""
        match = re.match(r"# (models/[\w-]+/model\.yaml)\n", block.code)
        assert match is not None, "the first line names the file"
        file = self.folder / match[1]
        file.parent.mkdir(parents=True)
        file.write_text(block.code, encoding="utf-8")
        for part in ("model.onnx", "tokenizer.json"):
            (file.parent / part).touch()
        read_description(file)

    def _check_deployment(self, pod: Mapping[str, Any]) -> None:
        assert pod["terminationGracePeriodSeconds"] > exit_patience(Config())
        for container in pod["containers"]:
            check(f"streamjury {' '.join(container['args'])}")
            variables = {variable["name"]: variable.get("value", "name") for variable in container["env"]}
            load(None, {name: value for name, value in variables.items() if name != "STREAMJURY_CONFIG"})
            [port] = container["ports"]
            assert port["containerPort"] == Config().http.port
            probes = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
            assert [probe["path"] for probe in probes] == [route.path for route in health_routes(Health())]
            assert {probe["port"] for probe in probes} == {port["name"]}

    def _sql(self, block: Block) -> None:
        with Database(f"sqlite:///{self.folder}/archive.db") as database, database.read() as connection:
            connection.execute(sqlalchemy.text(block.code))

    def _unit(self, block: Block) -> None:
        """Check a unit of systemd: the commands exist, and a stage has the time to stop."""
        unit = ConfigParser(interpolation=None, strict=False)
        unit.read_string(block.code)
        for stage in ("sampler", "worker", "monitor"):
            check(unit["Service"]["ExecStart"].replace("%i", stage).removeprefix("/opt/streamjury/bin/"))
        assert unit["Service"].getint("TimeoutStopSec") > exit_patience(Config())

    def _json(self, block: Block) -> None:
        for document in _documents(block.code):
            if "evaluation_id" in document:
                Evaluation.model_validate(document)
            elif "logger" in document:
                _check_log_line(document)
            else:
                Interaction.model_validate(document)

    def _promql(self, block: Block) -> None:
        assert promtool.problems_of_expressions(self.folder, [block.code]) == ""

    def _shown(self, block: Block) -> None:
        """If a command of the page printed one of the lines, it printed them all; the names in them exist."""
        printed = {" ".join(line.split()) for line in self.printed.splitlines()}
        lines = [" ".join(line.split()) for line in block.code.splitlines() if line.strip()]
        if printed & {*lines}:
            assert [line for line in lines if line not in printed and "…" not in line] == []
        topics = set(TopicsConfig().model_dump().values())
        assert set(re.findall(r"\brag\.[a-z]+", block.code)) <= topics


def file_name(block: Block) -> str | None:
    """Return the file name in the first line of a block, if any."""
    match = re.match(r"# ([\w-]+\.yaml)\n", block.code)
    return match and match[1]


def presupposed_files() -> dict[str, str]:
    """Return files that pages mention and do not show."""
    own = blocks(ROOT / "docs/judges.md", "yaml")[0].code
    return {"my-criteria.yaml": own, "mine.yaml": BRAND}


def is_not_run(command: str) -> bool:
    return any(re.match(pattern, command) for pattern in NOT_RUN)


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """Parse one or several JSON objects."""
    decoder, rest = json.JSONDecoder(), text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        yield document
        rest = rest[end:].strip()


def _check_log_line(document: Mapping[str, Any]) -> None:
    about = {"stage", "interaction_id", "trace_id", "span_id", "exception"}
    assert {"time", "level", "logger", "message"} <= set(document) <= {"time", "level", "logger", "message", *about}
    assert datetime.fromisoformat(document["time"]).tzinfo is not None


def short(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.usefixtures("default_panel")
@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)], ids=short)
@pytest.mark.slow
def test_every_block_of_a_page_holds(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        desk = Desk(tmp_path, page, stack, capsys)
        for block in blocks(page):
            try:
                desk.follow(block)
            except Exception as error:
                error.add_note(f"in the block at {block}")
                raise
        desk.close()
        if short(page) == "docs/guides/judges.md":
            assert desk.promises() <= set(desk.printed.splitlines())


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("toml", "a = 1"),
        ("yaml", "unknown: 1"),
        ("yaml", "{kind: Deployment, spec: {template: {spec: {terminationGracePeriodSeconds: 30}}}}"),
        ("yaml", "sampling: {rat: 1}"),
        ("yaml", "criteria: [{name: a}]"),
        ("yaml", "# models/a/model.yaml\nname: a\nthresholds: [1]"),
        ("yaml", "groups: [{name: a, rules: [{record: a, expr: 'sum('}]}]"),
        ("json", '{"id": "a"}'),
        ("json", '{"id": "a", "question": "b", "answer": "c"'),
        ("python", "assert False"),
        ("python", "import none_such"),
        ("promql", "sum("),
        ("ini", "[Service]\nExecStart=/opt/streamjury/bin/streamjury %i\nTimeoutStopSec=30"),
        ("sh", "streamjury none"),
        ("sh", "streamjury run --none"),
        ("sh", "streamjury tail | none"),
        ("sh", "make none"),
        ("sh", "pip install 'streamjury[none]'"),
        ("sh", "cat none"),
        ("", "streamjury none"),
        ("text", "rag.none"),
    ],
)
def test_a_block_that_does_not_hold_is_found(
    language: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        desk = Desk(tmp_path, ROOT / "docs/index.md", stack, capsys)
        with pytest.raises((Exception, pytest.fail.Exception)):
            desk.follow(Block("docs/index.md", 1, language, None, f"{code}\n"))


def test_the_output_on_a_page_is_the_output_of_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        desk = Desk(tmp_path, ROOT / "docs/index.md", stack, capsys)
        desk.follow(Block("docs/index.md", 1, "python", None, "print('rows  25\\nmean  0.8')\n"))
        desk.follow(Block("docs/index.md", 2, "text", None, "rows 25\n\nmean 0.8\n"))
        with pytest.raises(AssertionError):
            desk.follow(Block("docs/index.md", 3, "text", None, "rows 25\nmean 0.9\n"))


def test_the_exceptions_are_needed() -> None:
    """Every exception in the lists above is still on a page."""
    shell = {short(page): blocks(page, *SHELL, "") for page in pages()}
    all_commands = [
        command for page_blocks in shell.values() for block in page_blocks for command in commands(block.code)
    ]
    assert [page for page in RUN_ELSEWHERE if not shell.get(page)] == []
    assert [pattern for pattern in NOT_RUN if not any(re.match(pattern, command) for command in all_commands)] == []


@pytest.mark.parametrize("page", pages(), ids=short)
def test_the_commands_within_the_text_exist_with_their_options(page: Path) -> None:
    for span in code_spans(page):
        # `[PATH]`, `a|b` and `…` are placeholders for the reader.
        if span.startswith(("streamjury ", "make ")) and not re.search(r"[\[\]…]|\w\|\w", span):
            check_mention(span)


def test_the_files_of_criteria_on_the_page_show_every_scale(tmp_path: Path) -> None:
    kinds = set()
    for block in blocks(ROOT / "docs/judges.md", "yaml"):
        if not block.code.startswith("criteria:"):
            continue
        (tmp_path / "criteria.yaml").write_text(block.code, encoding="utf-8")
        kinds |= {criterion.scale.kind for criterion in load_criteria(tmp_path / "criteria.yaml").values()}
    assert kinds == {"levels", "binary", "range", "options"}


def test_the_custom_judge_fits_in_twenty_lines() -> None:
    [code] = [block.code for block in blocks(ROOT / "docs/judges.md", "python") if "(Judge):" in block.code]
    body = code[code.index("class ") : code.index("\n\n\n[short]")]
    assert len(body.splitlines()) <= 20
