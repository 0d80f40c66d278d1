"""Run the monitored scenario once and draw every dashboard from its Prometheus: `make pictures`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.integration.monitored import SECONDS, Monitored

# One hour of the rules is a minute here.
_WINDOW = "1m"


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m tests.integration.pictures FOLDER\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="streamjury-pictures-") as folder, Monitored(Path(folder)) as monitored:
        sys.stdout.write(f"running the scenario: {SECONDS:.0f} s of traffic, then what is left of it\n")
        monitored.run()
        span = ["--start", str(monitored.started), "--end", str(monitored.ended), "--window", _WINDOW]
        where = ["--prometheus", monitored.prometheus.url, "--output", sys.argv[1]]
        return subprocess.run(
            [sys.executable, "-m", "dashboards.pictures.pictures", *where, *span], check=False
        ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
