"""`streamjury archive`: figures, deletion and rebuild on a real database, without a broker."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import func, select

from benchmarks.archive_data import fill_archive, make_answers
from sinks.archive.database import Database
from sinks.archive.tables import evaluations
from stream.cli.main import main

COUNT = 20


@pytest.fixture
def config(archive_url: str, tmp_path: Path) -> Path:
    with Database(archive_url) as database:
        fill_archive(database, make_answers(COUNT))
    path = tmp_path / "streamjury.yaml"
    path.write_text(json.dumps({"archive": {"url": archive_url}}))
    return path


def run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["archive", *words, "--config", str(config)])


def figures(config: Path) -> dict[str, Any]:
    result = run(config, "stats", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)  # type: ignore[no-any-return]


def test_stats_count_rows_and_name_the_time(config: Path) -> None:
    stats = figures(config)
    assert stats["rows"] == {"evaluations": COUNT, "texts": COUNT, "alerts": 0, "labels": 0, "erasures": 0}
    assert (stats["oldest"], stats["newest"][:10]) == ("2026-03-01T00:00:00Z", "2026-03-01")
    assert stats["bytes"] > 100_000
    text = run(config, "stats").output
    assert f"evaluations {COUNT:>13}" in text
    assert "from 2026-03-01T00:00:00Z to 2026-03-01T22:48:00Z" in text


def test_deleting_and_allowing_an_interaction(config: Path) -> None:
    result = run(config, "delete", "--interaction", "answer-00000003")
    assert result.output == "deleted: 1 evaluations, 1 texts, 0 labels, 0 alerts\n"
    assert figures(config)["rows"]["evaluations"] == COUNT - 1
    assert figures(config)["rows"]["erasures"] == 1
    assert run(config, "allow", "--interaction", "answer-00000003").exit_code == 0
    again = run(config, "allow", "--interaction", "answer-00000003")
    assert (again.exit_code, again.output) == (1, "Error: interaction answer-00000003 was not deleted\n")


@pytest.mark.parametrize("options", [[], ["--interaction", "a", "--tenant", "b"], ["--tenant", ""]])
def test_a_deletion_names_one_thing(config: Path, options: list[str]) -> None:
    result = run(config, "delete", *options)
    assert result.exit_code == 2
    assert "either --interaction or --tenant" in result.output


def test_a_rebuild_leaves_the_archive_empty(config: Path, archive_url: str) -> None:
    result = run(config, "rebuild")
    assert result.exit_code == 0, result.output
    assert f"{COUNT} evaluations, from 2026-03-01" in result.output
    with Database(archive_url) as database, database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(evaluations)) == 0


def test_a_database_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "streamjury.yaml"
    path.write_text(json.dumps({"archive": {"url": f"sqlite:///{tmp_path}/missing/archive.db"}}))
    result = run(path, "stats")
    assert result.exit_code == 1
    assert f"the folder of the archive does not exist: {tmp_path}/missing" in result.output
