"""The recipes for logs and exports of other tools: their records are read by the settings that the page shows."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from judges.values.interaction import Interaction
from stream.cli.main import main
from stream.config.model import Config
from stream.jobs.evaluate.formats import open_rows
from stream.kafka.embedded import EmbeddedBroker
from stream.records.body import BodyReader
from stream.records.reading import InteractionReader
from stream.service.setup.config_file import load
from tests.integration.pipeline import read_json
from tests.parts.documents.pages import ROOT, blocks

PAGE = ROOT / "docs" / "guides" / "recipes.md"
EXAMPLES = ROOT / "docs" / "examples"
RETURNS, NORWAY, ORDER = (
    "8f14e45fceea167a5a36dedd4bea2543",
    "c9f0f895fb98ab9159f51fd0297e236d",
    "45c48cce2e2d7fbdea1afc51c7c6ad26",
)


def write_settings(name: str, folder: Path) -> Path:
    (code,) = (block.code for block in blocks(PAGE, "yaml") if block.code.startswith(f"# {name}\n"))
    file = folder / name
    file.write_text(code)
    return file


def read_file(file: str, config: Config) -> dict[str, Interaction]:
    with open_rows(str(EXAMPLES / file), None, config.input) as rows:
        reader = InteractionReader(rows.input)
        interactions = [reader.read(row.value).interaction for row in rows]
    return {interaction.id: interaction for interaction in interactions}


def test_a_record_of_kong_holds_bodies_as_texts(tmp_path: Path) -> None:
    config = load(write_settings("kong.yaml", tmp_path), {})
    interactions = read_file("kong-log.jsonl", config)
    assert list(interactions) == [RETURNS, NORWAY, ORDER]
    first = interactions[RETURNS]
    assert (first.question, first.answer) == (
        "How long do I have to return goods?",
        "You can return goods within 30 days.",
    )
    assert [(context.id, context.text) for context in first.contexts] == [
        ("kb-0", "Goods can be returned within 30 days of delivery."),
        ("kb-1", "Refunds take five working days."),
    ]
    assert (first.app, first.model) == ("support-bot", "atlas-mini")
    assert first.traceparent == f"00-{RETURNS}-00f067aa0ba902b0-01"


def test_the_sampler_finds_fields_in_the_texts_too(tmp_path: Path) -> None:
    config = load(write_settings("kong.yaml", tmp_path), {})
    reader = BodyReader(config.input)
    getters = {name: reader.field_getter(name) for name in ("question", "answer", "model", "app", "id")}
    line = (EXAMPLES / "kong-log.jsonl").read_bytes().splitlines()[1]
    body = reader.read(line)
    assert {name: get(body) for name, get in getters.items()} == {
        "question": "Do you ship to Norway?",
        "answer": "Yes, we ship to Norway in seven working days.",
        "model": "atlas-mini",
        "app": "support-bot",
        "id": NORWAY,
    }


def test_an_export_of_langfuse_reads_alike_from_json_lines_and_csv(tmp_path: Path) -> None:
    config = load(write_settings("langfuse.yaml", tmp_path), {})
    interactions = read_file("langfuse-traces.jsonl", config)
    assert interactions == read_file("langfuse-traces.csv", config)
    assert list(interactions) == [RETURNS, NORWAY, ORDER]
    assert [context.text for context in interactions[RETURNS].contexts] == [
        "Goods can be returned within 30 days of delivery.",
        "Refunds take five working days.",
    ]
    assert (interactions[ORDER].app, interactions[ORDER].model) == ("support-bot", "atlas-mini")


@pytest.mark.slow
def test_an_export_of_langfuse_can_be_backfilled(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    file = write_settings("langfuse.yaml", tmp_path)
    settings = ["--config", str(file)]
    env = {"STREAMJURY__KAFKA__BOOTSTRAP": embedded_broker.bootstrap}
    embedded_broker.make_topics(["langfuse.export"])
    for command in (
        ["send", str(EXAMPLES / "langfuse-traces.jsonl"), *settings],
        ["backfill", *settings, *(f"--offsets={number}:0-" for number in range(4)), "--yes"],
    ):
        done = CliRunner().invoke(main, command, env=env)
        assert done.exit_code == 0, done.output
    evaluations = read_json(embedded_broker.bootstrap, "rag.evaluations")
    assert {evaluation["interaction_id"] for evaluation in evaluations} == {RETURNS, NORWAY, ORDER}
    assert {evaluation["sampling"]["lane"] for evaluation in evaluations} == {"backfill"}
    assert json.dumps(evaluations)
