"""Run pip-audit on the pinned dependencies; if it cannot run, report that and pass.

pip-audit alone fails without a network, and `make lint` must not.

    python tests/project/audit_dependencies.py [constraints.txt]

The exit status is 1 for a vulnerability, and 0 otherwise.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_SECONDS = 120
# An answer of the package index takes a fraction of this; without a network, lint waits no longer.
_CONNECT_SECONDS = 5
_SKIPPED = "dependency audit skipped:"


def main(file: Path) -> int:
    if find_spec("pip_audit") is None:
        print(f"{_SKIPPED} pip-audit is not installed")
        return 0
    options = [
        "--requirement",
        str(file),
        "--no-deps",
        "--disable-pip",
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--timeout",
        str(_CONNECT_SECONDS),
    ]
    try:
        process = subprocess.run(
            [sys.executable, "-m", "pip_audit", *options], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"{_SKIPPED} no answer within {_SECONDS} s")
        return 0
    try:
        dependencies = json.loads(process.stdout)["dependencies"]
    except (ValueError, LookupError, TypeError):
        print(f"{_SKIPPED} {_last_line(process.stderr)}")
        return 0
    return report(dependencies)


def report(dependencies: Sequence[Mapping[str, Any]]) -> int:
    """Print the vulnerabilities. A package unknown to the index was not audited, whatever pip-audit calls it."""
    audited = [dependency for dependency in dependencies if "skip_reason" not in dependency]
    vulnerable = [dependency for dependency in audited if dependency.get("vulns")]
    for dependency in vulnerable:
        for vulnerability in dependency["vulns"]:
            fixed = ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"
            print(
                f"{dependency['name']} {dependency['version']}: {vulnerability['id']}, fixed in {fixed}",
                file=sys.stderr,
            )
    if not audited:
        print(f"{_SKIPPED} the package index knows none of the {len(dependencies)} packages")
    elif not vulnerable:
        print(f"dependency audit: no known vulnerability in {len(audited)} of {len(dependencies)} packages")
    return 1 if vulnerable else 0


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "pip-audit said nothing"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "constraints.txt")))
