"""Coverage-guided fuzzing with atheris, if installed: one process per target, which ends at the first fault.

`python -m tests.fuzz.guided TARGET INPUTS SEED FOLDER` is that process.
"""

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.fuzz.campaign import Fault

_LONGEST_INPUT = 16_384
_REPORT = "fault.json"
_FAULTY = "fault.bin"


class Search(NamedTuple):
    """The number of inputs tried, and the fault found."""

    inputs: int
    fault: "Fault | None" = None
    data: bytes = b""
    message: str = ""


def why_not() -> str | None:
    """Return why there is no guidance, or None."""
    return None if importlib.util.find_spec("atheris") else "not installed, so no inputs are guided by coverage"


def search(target: str, inputs: int, seed: int) -> Search:
    """Let a separate process try this many inputs."""
    from tests.fuzz.campaign import Fault

    with tempfile.TemporaryDirectory(prefix="streamjury-fuzz-") as folder:
        command = [sys.executable, "-m", "tests.fuzz.guided", target, str(inputs), str(seed), folder]
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        report = Path(folder) / _REPORT
        tried = max([int(count) for count in re.findall(r"^#(\d+)", process.stderr, re.MULTILINE)], default=0)
        if report.exists():
            report_data = json.loads(report.read_text())
            data = (Path(folder) / _FAULTY).read_bytes()
            return Search(tried, Fault(target, report_data["kind"], report_data["place"]), data, report_data["said"])
        if process.returncode != 0:
            # libFuzzer itself ended: out of time or memory in a call that cannot be interrupted.
            crash = next((path.read_bytes() for path in Path(folder).glob("*-*")), b"")
            return Search(tried, Fault(target, "ended", f"status {process.returncode}"), crash, process.stderr[-300:])
        return Search(tried)


def _main(name: str, inputs: int, seed: int, folder: Path) -> None:
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

    with atheris.instrument_imports(include=["judges", "sinks", "stream"]):
        from tests.fuzz.campaign import Hang, fault_of, is_refused, quieten
        from tests.fuzz.targets import TARGETS
    quieten()
    target = next(candidate for candidate in TARGETS if candidate.name == name)
    run = target.make()
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed_input in enumerate(target.seeds()):
        (corpus / str(number)).write_bytes(seed_input)

    def try_one(data: bytes) -> None:
        try:
            is_refused(run, data, target.allowed)
        except (Exception, Hang) as error:
            fault = fault_of(error, name)
            message = f"{type(error).__name__}: {error}"[:300]
            (folder / _FAULTY).write_bytes(data)
            (folder / _REPORT).write_text(json.dumps({"kind": fault.kind, "place": fault.place, "said": message}))
            raise

    options = [f"-runs={inputs}", f"-seed={seed % 2**31 or 1}", f"-max_len={_LONGEST_INPUT}", "-timeout=60"]
    atheris.Setup([sys.argv[0], *options, "-verbosity=1", f"-artifact_prefix={folder}/", str(corpus)], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
