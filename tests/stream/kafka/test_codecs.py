"""Missing compression codecs are detected at startup and named."""

from pathlib import Path

import aiokafka.codec
import pytest
from click.testing import CliRunner

from stream.cli.main import main
from stream.cli.support import cluster
from stream.config.model import Config
from stream.errors import StageError
from stream.kafka.codecs import CODECS, librdkafka_codecs
from stream.monitor.faust_app.app import make_app


def test_this_installation_reads_every_codec(tmp_path: Path) -> None:
    assert librdkafka_codecs() == set(CODECS)
    assert make_app(Config(), None, embedded=False, folder=str(tmp_path))


def test_the_monitor_names_codecs_that_it_cannot_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(aiokafka.codec, "cramjam", None)
    with pytest.raises(StageError, match=r"the monitor cannot read .* snappy or lz4 or zstd; install .* cramjam"):
        make_app(Config(), None, embedded=False, folder=str(tmp_path))


def test_every_command_names_codecs_that_its_client_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "librdkafka_codecs", lambda: {"gzip", "snappy", "lz4"})
    result = CliRunner().invoke(main, ["tail"], env={"STREAMJURY__KAFKA__BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 3
    assert "this build of librdkafka cannot read records compressed with zstd" in result.output
