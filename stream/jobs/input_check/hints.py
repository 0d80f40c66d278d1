"""Finds values in records that look like a missing field, by the names that services usually give them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from stream.config.sections.input import InputConfig
from stream.records.adapters.base import Document

# The most usual names first. A name matches without regard to case, dashes and underscores.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "interactionid", "requestid", "messageid", "traceid", "uuid", "callid"),
    "question": ("question", "query", "userquestion", "userinput", "prompt", "input", "request", "usermessage"),
    "answer": ("answer", "response", "output", "completion", "reply", "generation", "assistantanswer", "result"),
    "contexts": ("contexts", "context", "documents", "docs", "passages", "chunks", "sources", "retrieved", "fragments"),
    "history": ("history", "conversation", "previousmessages", "chathistory"),
    "app": ("app", "application", "servicename", "service", "appname"),
    "tenant": ("tenant", "tenantid", "organization", "org", "customer"),
    "model": ("model", "modelname", "modelid", "llm"),
    "timestamp": ("timestamp", "createdat", "time", "ts", "loggedat", "at"),
    "reference": ("reference", "groundtruth", "expectedanswer", "expected"),
    "tags": ("tags", "labels", "metadata", "attributes"),
    "traceparent": ("traceparent",),
}
# Names of an object's value, where the object has the telling name: response.text.
_INNER = ("text", "content", "value", "message")
_WORDS = {"id": "the id", "app": "the app", "contexts": "the contexts", "history": "the history", "tags": "the tags"}
_MAX_DEPTH = 6
_MAX_PATHS = 2000

_TRACES = (
    "these are OpenTelemetry traces, not interactions: write them to a topic of input.otlp.topics, and "
    "`streamjury assembler` (or `streamjury run`) makes interactions of them"
)
_INDENTED = (
    "the file is one JSON document over several lines; this command reads one record per line: `jq -c .` joins the "
    "lines of an object, `jq -c '.[]'` writes the items of an array"
)
_TABLE = "the file is not JSON; if it is CSV, `streamjury evaluate` reads it, and says which columns are missing"


def find_shape_hints(documents: Sequence[Document], unread: bytes | None) -> list[str]:
    """Return a hint if the records are not single interactions at all; `unread` is a first line that is not JSON."""
    if any(isinstance(document.get("resourceSpans"), list) for document in documents):
        return [_TRACES]
    if documents or unread is None:
        return []
    return [_INDENTED if unread.startswith((b"{", b"[")) else _TABLE]


def find_hints(config: InputConfig, documents: Sequence[Document], *, missing: set[str], found: set[str]) -> list[str]:
    """Return a hint for each missing field that has a likely value in most of the documents."""
    counts: Counter[tuple[str, str]] = Counter()
    for document in documents:
        counts.update({pair for pair in _likely_fields(document) if pair[0] in missing and pair[1] not in found})
    best: dict[str, str] = {}
    for field in (name for name in _NAMES if name in missing):
        paths = [path for (name, path), count in counts.items() if name == field and 2 * count > len(documents)]
        if paths:
            best[field] = min(paths, key=lambda path: _rank(field, path))
    how = "" if config.adapter == "mapping" else "input.adapter to mapping and "
    return [
        f"`{path}` looks like {_WORDS.get(field, f'the {field}')}: set {how}input.mapping.{field} to {path}"
        for field, path in best.items()
    ]


def _likely_fields(document: Document) -> Iterator[tuple[str, str]]:
    for path, value in _paths(document):
        for field in _NAMES:
            if _has_name(field, path) and _FITS.get(field, _is_text)(value):
                yield field, ".".join(path)


def _paths(document: Document) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the values in objects, the outer ones first."""
    level: list[tuple[tuple[str, ...], object]] = [((), document)]
    count = 0
    for _ in range(_MAX_DEPTH):
        inner: list[tuple[tuple[str, ...], object]] = []
        for path, value in level:
            if isinstance(value, dict):
                # A name with a dot, or an empty one, cannot be written in a path.
                inner += [((*path, name), item) for name, item in value.items() if name and "." not in name]
        for pair in inner:
            count += 1
            if count > _MAX_PATHS:
                return
            yield pair
        level = inner


def _telling_name(path: tuple[str, ...]) -> str:
    name = _plain(path[-1])
    return _plain(path[-2]) if name in _INNER and len(path) > 1 else name


def _has_name(field: str, path: tuple[str, ...]) -> bool:
    return _telling_name(path) in _NAMES[field]


def _rank(field: str, path: str) -> tuple[int, int, str]:
    steps = tuple(path.split("."))
    return _NAMES[field].index(_telling_name(steps)), len(steps), path


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_list_or_text(value: object) -> bool:
    return isinstance(value, list) or _is_text(value)


_FITS: Mapping[str, Callable[[object], bool]] = {
    "id": lambda value: _is_text(value) or (isinstance(value, int) and not isinstance(value, bool)),
    "contexts": _is_list_or_text,
    "history": _is_list_or_text,
    "tags": lambda value: isinstance(value, dict),
}
