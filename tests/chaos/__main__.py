"""Run the chaos suite: python -m tests.chaos [--long] [--seed N]"""

import argparse
import random
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tests.chaos.plan import LONG, SHORT, schedule
from tests.chaos.report import table
from tests.chaos.run import run
from tests.parts.kafka import why_unavailable

_SEEDS = 1_000_000


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    arguments.add_argument("--long", action="store_true", help="100,000 interactions in place of 10,000")
    arguments.add_argument("--seed", type=int, help="repeats the schedule of an earlier run")
    arguments.add_argument("--interactions", type=int, help="another number of interactions, at the same pace")
    arguments.add_argument("--schedule", action="store_true", help="only print what would happen")
    options = arguments.parse_args()
    plan, console = LONG if options.long else SHORT, Console(width=120, soft_wrap=False)
    if options.interactions:
        seconds = plan.feed_seconds * options.interactions / plan.interactions
        plan = replace(plan, interactions=options.interactions, feed_seconds=max(seconds, 2 * plan.outage_seconds))
    seed = random.randrange(_SEEDS) if options.seed is None else options.seed
    if options.schedule:
        for event in schedule(plan, seed):
            console.print(f"{event.at:6.1f} s  {event}", highlight=False)
        return 0
    if missing := why_unavailable():
        console.print(f"the chaos suite needs a real broker: {missing}")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="streamjury-chaos-"))
    console.print(f"seed {seed}, {plan.interactions:,} interactions, logs in {folder}", highlight=False)
    try:
        result = run(
            plan, seed=seed, folder=folder, say=lambda line: console.print(line, highlight=False, markup=False)
        )
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    console.print(table(result.checks, f"chaos with seed {seed}"))
    for note in result.notes:
        console.print(note, highlight=False, markup=False)
    if result.ok:
        shutil.rmtree(folder)
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
