"""The rooms of the code: folders have correct maps, stay small, and have no import cycles."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.parts.documents.pages import pages

ROOT = Path(__file__).parents[2]
ROOMS = ("stream", "judges", "sinks", "dashboards")
MAPPED = (*ROOMS, "docs/generate")
IMPORTED = (*ROOMS, "docs")
NAMED = (*ROOMS, "docs", "benchmarks")
TESTED = ("stream", "judges", "sinks")

MOST_ENTRIES = 14
# One module per command, so its size is that of the command line.
COMMANDS = "stream/cli/commands"
# One collection of attacks, used on the prompts, on the parsing of completions and on the probe.
TESTS_OF_SEVERAL = {"judges/llm/injection"}

# A path in a page; NAME stands for a file that a contributor adds.
PATH = re.compile(r"`((?:stream|judges|sinks|dashboards|docs|tests|benchmarks)/[\w./-]*)`")
UNCOUNTED = {"__init__.py", "py.typed", "__pycache__"}
MAP_LINE = re.compile(r"^- `([^`]+)`: \S", re.MULTILINE)


def modules_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def packages_in(folder: Path) -> list[Path]:
    """Return the folders that have modules; the others hold data."""
    return sorted({path.parent for path in modules_in(folder)})


def entries_of(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if entry.name not in UNCOUNTED and not entry.name.startswith(".")}


# Maps


def names_to_map(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return modules | {path.name for path in package.iterdir() if path.is_dir() and modules_in(path)}


def map_problems(package: Path) -> list[str]:
    """Compare the map in a package's docstring with the contents of its folder."""
    opening = package / "__init__.py"
    docstring = ast.get_docstring(ast.parse(opening.read_text(encoding="utf-8"))) if opening.exists() else None
    if docstring is None:
        return [f"{package} has no docstring"]
    mapped = MAP_LINE.findall(docstring)
    there = names_to_map(package)
    return [
        *(f"{package}: the map does not name {name}" for name in sorted(there.difference(mapped))),
        *(f"{package}: there is no {name}" for name in sorted(set(mapped) - there - entries_of(package))),
        *(f"{package}: the map names {name} twice" for name in sorted(set(mapped)) if mapped.count(name) > 1),
    ]


@pytest.mark.parametrize("folder", MAPPED)
def test_the_docstring_of_a_package_is_the_map_of_its_folder(folder: str) -> None:
    packages = [package for package in packages_in(ROOT / folder) if package != ROOT / COMMANDS]
    assert [problem for package in packages for problem in map_problems(package)] == []


def test_the_folder_of_commands_has_a_description() -> None:
    assert ast.get_docstring(ast.parse((ROOT / COMMANDS / "__init__.py").read_text(encoding="utf-8")))


def test_a_map_that_is_wrong_is_found(tmp_path: Path) -> None:
    package = tmp_path / "room"
    (package / "inner").mkdir(parents=True)
    for name in ("left_out.py", "named.py", "words.yaml", "inner/module.py"):
        (package / name).touch()
    text = "- `named`: one\n- `named`: again\n- `gone`: left\n- `words.yaml`: data\n"
    (package / "__init__.py").write_text(f'"""A room.\n\n{text}"""\n')
    assert map_problems(package) == [
        f"{package}: the map does not name inner",
        f"{package}: the map does not name left_out",
        f"{package}: there is no gone",
        f"{package}: the map names named twice",
    ]
    assert map_problems(package / "inner") == [f"{package / 'inner'} has no docstring"]


# Sizes


def is_crowded(package: Path) -> bool:
    return len(entries_of(package)) > MOST_ENTRIES


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_is_crowded(room: str) -> None:
    packages = [package for package in packages_in(ROOT / room) if package != ROOT / COMMANDS]
    assert {str(package): len(entries_of(package)) for package in packages if is_crowded(package)} == {}


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    for name in ("__init__.py", "py.typed", *(f"m{number}.py" for number in range(MOST_ENTRIES))):
        (tmp_path / name).touch()
    assert not is_crowded(tmp_path)
    (tmp_path / "one_more.yaml").touch()
    assert is_crowded(tmp_path)


# Names of classes


def classes_defined_twice(modules: Iterable[Path]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module}:{node.lineno}")
    return {name: lines for name, lines in places.items() if len(lines) > 1}


def test_a_class_name_means_one_thing() -> None:
    assert classes_defined_twice(module for folder in NAMED for module in modules_in(ROOT / folder)) == {}


def test_a_class_name_with_two_meanings_is_found(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("class Side: ...\nclass Alone: ...\n")
    other.write_text("class Outer:\n    class Side: ...\n")
    assert classes_defined_twice([one, other]) == {"Side": [f"{one}:1", f"{other}:2"]}


# Import cycles


def import_graph(root: Path, folders: Iterable[str]) -> dict[str, set[str]]:
    """Return the modules that each module imports, also inside functions, but not for type checking only."""
    modules = {_module_name(root, path): path for folder in folders for path in modules_in(root / folder)}
    return {name: _imports(path, modules) - {name} for name, path in modules.items()}


def _module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, modules: Mapping[str, Path]) -> set[str]:
    names: set[str] = set()
    for node in _nodes_at_runtime(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= whole & modules.keys()
            if whole - modules.keys():
                names.add(node.module)
    return names & modules.keys()


def _nodes_at_runtime(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node and all statements in it; an expression contains no import."""
    yield node
    only_for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    for child in node.orelse if only_for_types else ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from _nodes_at_runtime(child)


def find_cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return modules that import each other in a cycle, with the first one repeated at the end; empty if none do."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_no_modules_import_each_other_in_a_cycle() -> None:
    graph = import_graph(ROOT, IMPORTED)
    assert "stream.kafka.topics" in graph["stream.cli.commands.topics"]
    assert find_cycle(graph) == []


@pytest.mark.parametrize(
    ("last", "is_circle"),
    [
        ("from room.first import value", True),
        ("import room.first", True),
        ("from room import first", True),
        ("def work():\n    from room.first import value", True),
        ("if TYPE_CHECKING:\n    from room.first import value", False),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from room.first import value", True),
        ("import json", False),
    ],
)
def test_a_cycle_is_found(tmp_path: Path, last: str, is_circle: bool) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "first.py").write_text("from room import second\n\nvalue = 1\n")
    (room / "second.py").write_text("def later():\n    from room.third import value\n")
    (room / "third.py").write_text(f"{last}\n\nvalue = 2\n")
    circle = find_cycle(import_graph(tmp_path, ["room"]))
    assert set(circle) == ({"room.first", "room.second", "room.third"} if is_circle else set())


# Tests


def folders_without_code(root: Path) -> list[str]:
    """Return the test folders that match no folder of the code; those without a module hold data."""
    tests = root / "tests"
    folders = [str(folder.relative_to(tests)) for room in TESTED for folder in packages_in(tests / room)]
    return [folder for folder in folders if not (root / folder).is_dir() and folder not in TESTS_OF_SEVERAL]


def test_the_folders_of_tests_are_those_of_the_code() -> None:
    assert folders_without_code(ROOT) == []


def test_a_folder_of_folders_without_code_is_found(tmp_path: Path) -> None:
    for folder in ("stream/kafka", "tests/stream/kafka", "tests/sinks/moved_away", "tests/judges/wire/examples"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("stream/kafka/test_topics.py", "sinks/moved_away/test_it.py", "judges/wire/examples/answer.json"):
        (tmp_path / "tests" / file).touch()
    assert folders_without_code(tmp_path) == ["sinks/moved_away"]


# Paths in pages


def broken_paths(text: str) -> list[str]:
    return [path for path in PATH.findall(text) if "NAME" not in path and not (ROOT / path).exists()]


def test_every_path_to_code_on_a_page_exists() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    assert sum(len(PATH.findall(text)) for text in texts.values()) > 50
    assert {str(page): paths for page, text in texts.items() if (paths := broken_paths(text))} == {}


def test_a_broken_path_is_found() -> None:
    text = "`stream/kafka/topics.py`, `stream/topics.py`, `sinks/NAME.py`, `tests/stream/` and `config/stream/x.py`"
    assert broken_paths(text) == ["stream/topics.py"]
