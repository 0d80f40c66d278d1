"""No module reads data in a way that can run code: no pickle and its kin, no eval, no exec, no unsafe YAML."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for package in ("judges", "sinks", "stream") for path in (ROOT / package).rglob("*.py"))
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
UNSAFE_BUILTINS = {"eval", "exec", "compile", "__import__"}
UNSAFE_CALLS = {
    "os.system",
    "os.popen",
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
}
UNSAFE_LOADERS = {"Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader"}


def unsafe(source: str) -> list[str]:
    """Return the places in a module's source that could run code it reads, by line."""
    return [f"{node.lineno}: {what}" for node, what in _unsafe_nodes(ast.parse(source))]


def _unsafe_nodes(tree: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names if alias.name.split(".")[0] in UNSAFE_MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, name) for name in _imported_names(node) if _is_unsafe_import(name))
        elif isinstance(node, ast.Call):
            yield from _unsafe_calls(node)
        elif isinstance(node, ast.Attribute) and node.attr in UNSAFE_LOADERS and _dotted(node.value) == "yaml":
            yield node, _dotted(node)


def _imported_names(node: ast.ImportFrom) -> list[str]:
    return [f"{node.module}.{alias.name}" for alias in node.names]


def _is_unsafe_import(name: str) -> bool:
    package, _, last = name.partition(".")
    return package in UNSAFE_MODULES or name in UNSAFE_CALLS or (package == "yaml" and last in UNSAFE_LOADERS)


def _dotted(node: ast.expr) -> str:
    """Return a name with the names before it; `ast.unparse` writes out the whole expression, which takes long."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"


def _unsafe_calls(node: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    called = _dotted(node.func)
    if called in UNSAFE_BUILTINS or called in UNSAFE_CALLS:
        yield node, called
    if any(keyword.arg == "shell" and ast.unparse(keyword.value) != "False" for keyword in node.keywords):
        yield node, f"{called}(shell=…)"


def test_no_module_can_run_what_it_reads() -> None:
    assert len(MODULES) > 100
    places = {str(path.relative_to(ROOT)): unsafe(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {module: lines for module, lines in places.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import marshal as m",
        "from shelve import open",
        "from yaml import UnsafeLoader",
        "from yaml import load",
        "import yaml\nyaml.load(text)",
        "import yaml\nyaml.load(text, Loader=yaml.SafeLoader)",
        "class Own(yaml.FullLoader): ...",
        "eval('1')",
        "exec(text)",
        "import subprocess\nsubprocess.run(text, shell=True)",
        "import os\nos.system(text)",
    ],
)
def test_an_unsafe_way_is_noticed(source: str) -> None:
    assert unsafe(source)


@pytest.mark.parametrize(
    "source",
    ["import yaml\nyaml.safe_load(text)", "re.compile(text)", "class Own(yaml.SafeLoader): ...", "model.evaluate(x)"],
)
def test_a_safe_way_is_left_alone(source: str) -> None:
    assert unsafe(source) == []
