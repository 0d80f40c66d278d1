"""Measures the cost of the worker's bookkeeping: records per second of a worker, against the evaluator alone.

Both judge the same records with the local judge in one run, the worker from an embedded broker. The ratio matters; the
rates depend on the machine.

    PYTHONPATH=. python benchmarks/bench_worker_overhead.py
"""

import json
import time

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, create_topics, write_records
from benchmarks.evaluator_alone import generate_values, measure_evaluator
from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service

RECORDS, SHORT_RECORDS = 2_000, 200


def measure_worker(values: list[bytes]) -> float:
    """Return the records per second of a worker, from the first finished record to the last."""
    with EmbeddedBroker() as broker:
        config = Config.model_validate(
            {
                "kafka": {"bootstrap": broker.bootstrap},
                "http": {"port": 0},
                "judges": {"panel": [{"kind": "local"}]},
            }
        )
        create_topics(broker, config)
        write_records(broker.bootstrap, config.topics.sampled, ((json.loads(value)["id"], value) for value in values))
        with Service(config, [Stage.WORKER]) as service:
            first = wait_for(service, 1, look_seconds=0.005)
            started = time.perf_counter()
            wait_for(service, len(values), look_seconds=0.02)
            return (len(values) - first) / (time.perf_counter() - started)


def wait_for(service: Service, records: int, *, look_seconds: float) -> int:
    """Wait until the worker has finished this many records, and return how many it has."""
    while (finished := service.metrics.read_count(Stage.WORKER, Outcome.CONSUMED)) < records:
        service.check()
        time.sleep(look_seconds)
    return finished


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    values = list(generate_values(SHORT_RECORDS if options.short else RECORDS))
    alone, worker = measure_evaluator(values), measure_worker(values)
    table = Table("judged by", "records/s", title=f"{len(values):,} records, six dimensions each, local judge")
    table.add_row("the evaluator alone", f"{alone:,.0f}")
    table.add_row("a worker on the embedded broker", f"{worker:,.0f}")
    table.add_row("ratio", f"{worker / alone:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
