"""`streamjury worker --processes 2` with an encoder judge: each process loads the model, and stops cleanly."""

import json
from collections import Counter
from pathlib import Path

import pytest

from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import StageProcess, produce_all, read_json, to_create, topic_names, wait_until
from tests.integration.worker.test_processes import PARTITIONS, PROCESSES, START_SECONDS, WORK_SECONDS, ManyProcesses
from tests.parts.onnx_model import write_model

CONTEXT = "The warranty of the kettle lasts twenty four months from the day of purchase."
TRUE, FALSE = "The kettle has a warranty for two years.", "The kettle attracts dragons at night."


def write_config(folder: Path, names: dict[str, str]) -> Path:
    """Write a configuration that names its model by a path relative to itself."""
    write_model(folder / "models" / "words", {"dragons": (4.0,)})
    panel = [{"kind": "local"}, {"kind": "encoder", "path": "models/words"}]
    worker = {"group": names["sampled"], "concurrency": 8}
    config = folder / "worker.json"
    config.write_text(json.dumps({"topics": names, "judges": {"panel": panel}, "worker": worker}))
    return config


def write_records(bootstrap: str, topic: str, number: int) -> dict[str, str]:
    """Write records to all partitions; returns the answers by id."""
    answers = {f"rec-{index:03}": FALSE if index % 2 else TRUE for index in range(number)}
    records = [
        {
            "key": key,
            "value": json.dumps(
                {"id": key, "question": "And the kettle?", "answer": answer, "contexts": [{"text": CONTEXT}]}
            ).encode(),
            "partition": index // 2 % PARTITIONS,
        }
        for index, (key, answer) in enumerate(answers.items())
    ]
    produce_all(bootstrap, topic, records)
    return answers


@pytest.mark.slow
def test_two_processes_judge_with_the_same_model(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    names = topic_names(tmp_path.name.replace("_", "-"))
    embedded_broker.make_topics(to_create(names))
    process = StageProcess(
        "worker",
        bootstrap=embedded_broker.bootstrap,
        log=tmp_path / "worker.log",
        config=write_config(tmp_path, names),
        options=("--processes", "2"),
    )
    with process:
        worker = ManyProcesses(process)
        worker.wait_until_ready()
        answers = write_records(embedded_broker.bootstrap, names["sampled"], 48)
        wait_until(lambda: worker.read_consumed().total() >= len(answers), seconds=WORK_SECONDS, what=worker.log)
        assert set(worker.read_consumed()) == set(PROCESSES)
        verdicts = worker.read_counter("streamjury_judge_verdicts_total", judge="encoder")
        assert verdicts.total() == len(answers)
        assert process.terminate(START_SECONDS) == 0, worker.log()
    evaluations = read_json(embedded_broker.bootstrap, names["evaluations"])
    assert Counter(evaluation["interaction_id"] for evaluation in evaluations) == Counter(list(answers))
    for evaluation in evaluations:
        finding = evaluation["dimensions"]["groundedness"]
        [encoder] = [verdict for verdict in finding["judges"] if verdict["judge"] == "encoder"]
        is_false = answers[evaluation["interaction_id"]] == FALSE
        assert encoder["level"] == (0 if is_false else 2)
        assert [span["verdict"] for span in encoder["spans"]] == ["unsupported" if is_false else "supported"]


def test_a_wrong_hash_stops_at_the_start(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    names = topic_names(tmp_path.name.replace("_", "-"))
    embedded_broker.make_topics(to_create(names))
    config = write_config(tmp_path, names)
    (tmp_path / "models/words/model.onnx").write_bytes(b"another model")
    process = StageProcess("worker", bootstrap=embedded_broker.bootstrap, log=tmp_path / "worker.log", config=config)
    with process:
        wait_until(
            lambda: "does not match model.onnx" in process.log.read_text(),
            seconds=START_SECONDS,
            what=process.log.read_text,
        )
        assert process.wait(START_SECONDS) == 1
    assert "model.sha256: does not match model.onnx, whose hash is " in process.log.read_text()
