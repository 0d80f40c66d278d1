"""The long form: `python -m tests.fuzz --inputs 1000000`, with progress, a seed to repeat it, and a table at the end.

Inputs are broken seeds (`tests.fuzz.mutation`) and, where atheris is installed, a tenth of them is searched for by
coverage. The exit status is 1 when a fault was found; the inputs are kept in .cache/fuzz.
"""

import argparse
import hashlib
import multiprocessing
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.pool import Pool

from tests.fuzz import guided
from tests.fuzz.campaign import BLOCKS, ROOT, Account, Block, run_block
from tests.fuzz.targets import TARGETS, Target

FOUND = ROOT / ".cache" / "fuzz"
_GUIDED_SHARE = 0.1
_PROGRESS_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    targets = [target for target in TARGETS if not options.only or target.name in options.only]
    print(f"fuzzing {len(targets)} targets with {options.inputs} inputs, seed {options.seed}", flush=True)
    searching = guided.why_not() is None
    print(f"atheris: {guided.why_not() or 'used for a tenth of the inputs'}", flush=True)
    began = time.monotonic()
    counts = _counts(targets, round(options.inputs * (1 - _GUIDED_SHARE)) if searching else options.inputs)
    accounts = _broken_seeds(targets, counts, options.seed, options.jobs)
    if searching:
        _search(targets, _counts(targets, round(options.inputs * _GUIDED_SHARE)), options.seed, accounts)
    return _report(accounts.values(), time.monotonic() - began)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), help="repeats a run")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=[target.name for target in TARGETS], help="these targets")
    return parser.parse_args(arguments)


def _counts(targets: Sequence[Target], inputs: int) -> dict[str, int]:
    whole = sum(target.share for target in targets)
    return {target.name: max(1, inputs * target.share // whole) for target in targets}


# Broken seeds, in blocks shared by the processes


def _broken_seeds(targets: Sequence[Target], counts: dict[str, int], seed: int, jobs: int) -> dict[str, Account]:
    accounts = {target.name: Account(target=target.name) for target in targets}
    blocks = list(_blocks(counts, seed))
    # Slow targets first; otherwise one of them would keep a single process busy at the end.
    order = [target.name for target in sorted(targets, key=lambda target: target.share)]
    blocks.sort(key=lambda block: order.index(block[0]))
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for account in _with_progress(pool, blocks, sum(counts.values())):
            _add(accounts[account.target], account)
    return accounts


def _blocks(counts: dict[str, int], seed: int) -> Iterator[Block]:
    for name, count in counts.items():
        for number in range(BLOCKS):
            inputs = count // BLOCKS + (number < count % BLOCKS)
            if inputs:
                yield name, inputs, seed, number


def _with_progress(pool: Pool, blocks: Sequence[Block], inputs: int) -> Iterator[Account]:
    began = reported = time.monotonic()
    finished = 0
    for account in pool.imap_unordered(run_block, blocks):
        finished += account.inputs
        now = time.monotonic()
        if now - reported >= _PROGRESS_SECONDS or finished == inputs:
            reported = now
            print(f"{finished / inputs:4.0%}  {finished} of {inputs}  {finished / (now - began):.0f}/s", flush=True)
        yield account


def _add(account: Account, more: Account) -> None:
    account.inputs += more.inputs
    account.refused += more.refused
    account.seconds += more.seconds
    account.slowest_ms = max(account.slowest_ms, more.slowest_ms)
    for fault, data in more.found.items():
        account.note(fault, data, more.messages[fault])


# Guided by coverage


def _search(targets: Sequence[Target], counts: dict[str, int], seed: int, accounts: dict[str, Account]) -> None:
    for target in targets:
        began = time.monotonic()
        result = guided.search(target.name, counts[target.name], seed)
        account = accounts[target.name]
        account.inputs += result.inputs
        account.seconds += time.monotonic() - began
        if result.fault is not None:
            account.note(result.fault, result.data, result.message)
        print(f"atheris  {target.name}: {result.inputs} inputs", flush=True)


# The report


def _report(accounts: Iterable[Account], seconds: float) -> int:
    accounts = list(accounts)
    print(f"\n{'target':12} {'inputs':>9} {'refused':>9} {'inputs/s':>9} {'slowest':>9} {'faults':>7}")
    for account in accounts:
        pace = account.inputs / account.seconds if account.seconds else 0.0
        print(
            f"{account.target:12} {account.inputs:9} {account.refused:9} {pace:9.0f} {account.slowest_ms:6.0f} ms"
            f" {len(account.found):7}"
        )
    inputs = sum(account.inputs for account in accounts)
    print(f"{'in all':12} {inputs:9} {'':9} {inputs / seconds:9.0f}  in {seconds:.0f} s")
    for account in accounts:
        for fault, data in account.found.items():
            print(f"\n{fault.target}: {account.messages[fault]}\n  at {fault.place}\n  on {data[:500]!r}")
            print(f"  in {_save(fault.target, data)}")
    return 1 if any(account.found for account in accounts) else 0


def _save(target: str, data: bytes) -> str:
    FOUND.mkdir(parents=True, exist_ok=True)
    file = FOUND / f"{target}-{hashlib.sha256(data).hexdigest()[:12]}"
    file.write_bytes(data)
    return str(file.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
