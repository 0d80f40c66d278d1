"""The wheel and the sdist: reproducible, and complete enough to run the demo in an empty environment."""

import hashlib
import importlib.metadata
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.slow]

ROOT = Path(__file__).parents[2]
DATA_FILES = {
    "judges/encoder/groundedness/model.onnx",
    "judges/encoder/groundedness/model.yaml",
    "judges/encoder/groundedness/tokenizer.json",
    "judges/local/harm.yaml",
    "judges/local/words.yaml",
    "judges/models/prices.yaml",
    "judges/py.typed",
}
# Judges an answer with the shipped model, and fails if anything connects to a network.
JUDGE_OFFLINE = """
import sys

def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
        raise RuntimeError(f"{event} {arguments}")

sys.addaudithook(refuse)
from judges import EncoderJudge
judge = EncoderJudge()
context = "The warranty of the kettle lasts 24 months from the day of purchase."
answer = "The kettle comes with a free trip to the moon for the whole family."
record = {"id": "1", "question": "How long is the warranty?", "answer": answer, "contexts": [context]}
verdict = judge(record, "rag.groundedness")
judge.close()
print(verdict.status, verdict.level)
"""


def build(folder: Path) -> list[Path]:
    """Build wheel and sdist, in this order, with the backend that pyproject.toml names."""
    script = f"from hatchling import build; build.build_wheel({str(folder)!r}); build.build_sdist({str(folder)!r})"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return [wheel, sdist]


def digests(files: list[Path]) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def data_files() -> set[str]:
    suffixes = {".yaml", ".typed", ".html", ".css", ".js", ".j2", ".txt", ".onnx", ".json"}
    folders = [ROOT / package for package in ("judges", "sinks", "stream")]
    return {str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*") if file.suffix in suffixes}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("packages") / "built")


def test_two_builds_are_the_same_and_hold_every_data_file(built: list[Path], tmp_path: Path) -> None:
    assert digests(built) == digests(build(tmp_path / "again"))
    wheel, sdist = built
    assert data_files() >= DATA_FILES
    assert data_files() <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        assert data_files() <= {name.partition("/")[2] for name in archive.getnames()}


def test_the_demo_runs_from_the_wheel_in_an_empty_environment(built: list[Path], tmp_path: Path) -> None:
    wheel, _ = built
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        environment / "bin/python",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "install", "--no-compile", "--no-deps", "--no-index", wheel], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    [declared] = importlib.metadata.distributions(name="streamjury", path=[str(packages)])
    link_requirements(declared, "", packages)
    command = [environment / "bin/streamjury", "run", "--embedded", "--seconds", "5"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "support-bot" in process.stdout
    assert "the panel is the local judge alone" in process.stderr
    link_requirements(declared, "encoder", packages)
    python = [environment / "bin/python", "-c", JUDGE_OFFLINE]
    process = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "scored 0\n"), process.stderr


def link_requirements(declared: importlib.metadata.Distribution, extra: str, packages: Path) -> None:
    """Link what a package requires, and nothing else, from this environment: to install it takes a minute."""
    for text in declared.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            distribution = importlib.metadata.distribution(requirement.name)
            if link_files(distribution, packages):
                for wanted in ("", *requirement.extras):
                    link_requirements(distribution, wanted, packages)


def link_files(distribution: importlib.metadata.Distribution, packages: Path) -> bool:
    """Link the modules of a package; returns whether they were not linked before."""
    is_new = False
    for file in distribution.files or ():
        link = packages / file
        if ".." not in file.parts and not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file.locate())
            is_new = True
    return is_new
