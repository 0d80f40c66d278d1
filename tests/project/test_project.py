"""The project's own files: package metadata, pinned versions, import rules and the rules of the test run."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.parts.program import start_process

ROOT = Path(__file__).parents[2]
PACKAGES = ("judges", "sinks", "stream")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]


def test_the_command_is_declared() -> None:
    assert PROJECT["scripts"] == {"streamjury": "stream.cli.main:main"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_shipped_and_typed(package: str) -> None:
    assert package in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert (ROOT / package / "py.typed").is_file()


def test_the_license_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def declared_requirements() -> list[Requirement]:
    groups: list[list[str]] = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return [Requirement(line) for group in groups for line in group]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("requirement", declared_requirements(), ids=lambda requirement: requirement.name)
def test_the_pinned_version_satisfies_the_declared_requirement(requirement: Requirement) -> None:
    assert requirement.specifier.contains(constraints()[canonicalize_name(requirement.name)])


def print_if_imported(modules: list[str]) -> None:
    print([module in sys.modules for module in modules])


def test_copies_of_the_program_have_imported_it(tmp_path: Path) -> None:
    """A test file that gives Python another list of modules to preload would take it away from all of them."""
    stages = ["stream.sampler.stage", "stream.worker.stage", "stream.monitor.stage", "stream.archivist.stage"]
    process = start_process(print_if_imported, stages, output=tmp_path / "log")
    process.join()
    assert (tmp_path / "log").read_text() == f"{[True] * len(stages)}\n"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_import_arrows_hold() -> None:
    process = lint_imports(ROOT)
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize(
    ("module", "wrong"), [("judges", "import sinks"), ("judges", "import stream"), ("sinks", "import stream")]
)
def test_an_import_against_the_arrows_is_caught(tmp_path: Path, module: str, wrong: str) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / module / "astray.py").write_text(f"{wrong}\n")

    process = lint_imports(tmp_path)

    assert process.returncode == 1
    assert f"{module}.astray -> {wrong.split()[1]}" in process.stdout


def run_pytest(folder: Path, sources: list[str], *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run test files with our conftest, and without any plugin but xdist."""
    shutil.copy(ROOT / "tests/conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for number, source in enumerate(sources):
        (folder / f"test_{number}.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "xdist", *options, str(folder)]
    variables = os.environ | environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


SKIPPING = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="something is missing")
def test_is_left_out():
    pass
"""
SKIPPING_WHOLE = """
import pytest

pytest.skip("something is missing", allow_module_level=True)
"""


SKIPLESS = "def test_passes():\n    pass\n"


@pytest.mark.parametrize(
    ("sources", "required", "workers", "code"),
    [
        ([SKIPPING, SKIPPING_WHOLE], "1", "2", 1),
        ([SKIPPING, SKIPPING_WHOLE], "1", "0", 1),
        ([SKIPPING, SKIPPING_WHOLE], "", "0", 0),
        ([SKIPLESS], "1", "0", 0),
    ],
    ids=["skips in workers", "skips", "skips allowed", "no skips"],
)
@pytest.mark.slow
def test_a_skip_fails_the_run_where_everything_is_required(
    tmp_path: Path, sources: list[str], required: str, workers: str, code: int
) -> None:
    process = run_pytest(tmp_path, sources, "-n", workers, STREAMJURY_REQUIRE_ALL=required)

    assert process.returncode == code, process.stdout + process.stderr
    named = process.stdout.partition("STREAMJURY_REQUIRE_ALL=1 allows none")[2]
    assert re.findall(r"^test_\d.py\S*", named, re.MULTILINE) == (["test_0.py::test_is_left_out", "test_1.py"] * code)


GROUPED = """
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_of_a_group(number):
    pass
"""


@pytest.mark.slow
def test_tests_of_one_group_run_in_one_worker(tmp_path: Path) -> None:
    """Some pairs of pytest and xdist silently ignore groups, and then every worker would start its own parts."""
    process = run_pytest(tmp_path, [GROUPED], "-n", "2", "--dist", "loadgroup", "-v")
    workers = re.findall(r"^\[(gw\d)\].* PASSED", process.stdout, re.MULTILINE)
    assert len(workers) == 6
    assert len(set(workers)) == 1
