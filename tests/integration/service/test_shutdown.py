"""SIGTERM while the broker is dead or hangs: every command ends promptly, with a reason and without a traceback."""

import json
import math
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.pipeline import StageProcess, produce_all, read_all, to_create, topic_names, wait_until
from tests.parts import kafka
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint, best_verdict, delayed
from tests.parts.patience import patience

pytestmark = pytest.mark.slow

COMMANDS = ("assembler", "sampler", "worker", "monitor", "archivist", "run")
SECONDS = 20.0


def write_config(folder: Path, command: str, names: dict[str, str], endpoint: str) -> Path:
    """Write the configuration of one of two installations: a process for each stage, or a single one."""
    place = "whole" if command == "run" else "parts"
    path = folder / f"{command}.yaml"
    judge = {"kind": "openai", "name": "m", "model": "m", "base_url": endpoint}
    settings = {
        "topics": names,
        "input": {"otlp": {"topics": [f"{place}.otlp"], "keyed": True, "group": f"{place}-assembler"}},
        "sampling": {"rate": 1.0},
        "judges": {"panel": [judge]},
        "worker": {"group": f"{place}-worker", "concurrency": 4},
        "sampler": {"group": f"{place}-sampler"},
        "monitor": {"group": f"{place}-monitor"},
        "archive": {"group": f"{place}-archivist", "url": f"sqlite:///{folder}/{place}.db"},
    }
    path.write_text(json.dumps(settings))
    return path


@pytest.mark.parametrize("how", ["dead", "hung"])
def test_every_command_ends_soon_when_the_broker_does_not_answer(
    own_kafka: kafka.KafkaBroker, tmp_path: Path, how: str
) -> None:
    """Records are being judged when the broker stops: the worker cannot publish those it finishes then."""
    # Each with a different question, so that no verdict comes from the cache.
    documents = [
        {"id": f"i-{number}", "question": f"Is shop {number} open?", "answer": "Yes."} for number in range(500)
    ]
    values = [{"value": json.dumps(document).encode()} for document in documents]
    places = {place: topic_names(place) | {"traces": f"{place}.traces"} for place in ("parts", "whole")}
    for place, names in places.items():
        own_kafka.create_topics(*to_create(names), f"{place}.otlp", partitions=2)
        produce_all(own_kafka.bootstrap, names["interactions"], values)
    with ExitStack() as stack:
        endpoint = stack.enter_context(JudgeEndpoint(lambda body: delayed(best_verdict(body), 1.0)))
        processes = {}
        for command in COMMANDS:
            names = places["whole" if command == "run" else "parts"]
            path = write_config(tmp_path, command, names, endpoint.base_url)
            process = StageProcess(command, bootstrap=own_kafka.bootstrap, log=tmp_path / f"{command}.log", config=path)
            processes[command] = stack.enter_context(process)
        for names in places.values():
            wait_until(
                lambda scores=names["scores"]: bool(read_all(own_kafka.bootstrap, scores)),
                seconds=60,
                what=lambda: "all are at work: " + "".join(process.log.read_text() for process in processes.values()),
            )
        own_kafka.kill() if how == "dead" else own_kafka.pause()
        time.sleep(2)
        begun = time.monotonic()
        for process in processes.values():
            process.request_stop()
        took = {}
        while len(took) < len(processes) and time.monotonic() - begun < 3 * SECONDS * patience():
            took |= {
                command: time.monotonic() - begun
                for command, process in processes.items()
                if command not in took and process.has_ended()
            }
            time.sleep(0.1)
    logs = {command: process.log.read_text() for command, process in processes.items()}
    late = [command for command in COMMANDS if took.get(command, math.inf) > SECONDS * patience()]
    assert not late, (took, logs)
    assert not [command for command, text in logs.items() if "Traceback" in text], logs
