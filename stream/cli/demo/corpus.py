"""The questions, passages and answers that simulated traffic is made of, read from YAML and checked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judges.criteria.strict_yaml import read_shipped

Language = Literal["en", "ru"]
LanguageChoice = Language | Literal["mixed"]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class CorpusError(ValueError):
    """A file of the corpus is wrong; the message names the file and the group."""


class _CorpusEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_EntryT = TypeVar("_EntryT", bound=_CorpusEntry)


class CorpusTurn(_CorpusEntry):
    role: Literal["user", "assistant"]
    text: Text


class CorpusPassage(_CorpusEntry):
    id: Text
    text: Text


class QuestionGroup(_CorpusEntry):
    """One question with its passages, a grounded answer and an invented one."""

    id: Text
    app: Text
    language: Language
    # Greetings, thanks and refusals: their answer claims nothing, so it gets no opener and answers no other question.
    smalltalk: bool = False
    question: Text
    history: list[CorpusTurn] = Field(default=[], max_length=4)
    contexts: list[CorpusPassage] = Field(min_length=2, max_length=4)
    answer: Text
    hallucinated: Text


class UnsafeText(_CorpusEntry):
    category: Literal["fraud", "malware", "medical", "privacy"]
    text: Text


class CorpusPhrases(_CorpusEntry):
    """Texts that surround or replace an answer, in one language."""

    openers: list[Text] = Field(min_length=1)
    closers: list[Text] = Field(min_length=1)
    restatements: list[Text] = Field(min_length=1)
    repeats: list[Text] = Field(min_length=1)
    padding: list[Text] = Field(min_length=1)
    unsafe: list[UnsafeText] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    groups: tuple[QuestionGroup, ...]
    phrases: Mapping[Language, CorpusPhrases]

    @property
    def apps(self) -> tuple[str, ...]:
        return tuple(sorted({group.app for group in self.groups}))

    def in_language(self, language: LanguageChoice) -> "Corpus":
        """Return a corpus of the questions in this language, or of all questions for `mixed`."""
        groups = tuple(group for group in self.groups if language in (group.language, "mixed"))
        return Corpus(groups=groups, phrases=self.phrases)

    def strangers(self, group: QuestionGroup) -> tuple[QuestionGroup, ...]:
        """Return groups of the same language whose answers do not fit this group's question."""
        return tuple(
            other
            for other in self.groups
            if other.language == group.language and other.app != group.app and not other.smalltalk
        )


def load_corpus(root: Traversable | None = None) -> Corpus:
    """Read `phrases.yaml` and `corpus/*.yaml` under `root` (default: those of this package)."""
    root = root or files("stream.cli.demo")
    sources = sorted((file for file in (root / "corpus").iterdir() if file.name.endswith(".yaml")), key=_name)
    groups = tuple(group for file in sources for group in _read_groups(file))
    _refuse_repeats(groups)
    return Corpus(groups=groups, phrases=_read_phrases(root / "phrases.yaml"))


def _name(file: Traversable) -> str:
    return file.name


def _parse_yaml(file: Traversable) -> Any:
    try:
        return read_shipped(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise CorpusError(f"{file.name}: not YAML: {error}") from error


def _read_groups(file: Traversable) -> Iterator[QuestionGroup]:
    entries = _parse_yaml(file)
    if not isinstance(entries, list):
        raise CorpusError(f"{file.name}: expected a list of groups")
    for number, entry in enumerate(entries, start=1):
        name = entry.get("id", f"number {number}") if isinstance(entry, dict) else f"number {number}"
        where = f"{file.name}: group {name}"
        group = _validate(QuestionGroup, entry, where)
        if f"{group.app}.yaml" != file.name:
            raise CorpusError(f"{where}: app: {group.app!r} belongs in {group.app}.yaml")
        yield group


def _read_phrases(file: Traversable) -> dict[Language, CorpusPhrases]:
    entries = _parse_yaml(file)
    if not isinstance(entries, dict):
        raise CorpusError(f"{file.name}: expected one section per language")
    languages: tuple[Language, ...] = ("en", "ru")
    return {
        language: _validate(CorpusPhrases, entries.get(language), f"{file.name}: {language}") for language in languages
    }


def _validate(model: type[_EntryT], entry: object, where: str) -> _EntryT:
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in error.errors())
        raise CorpusError(f"{where}: {problems}") from error


def _refuse_repeats(groups: tuple[QuestionGroup, ...]) -> None:
    ids: set[str] = set()
    questions: dict[str, str] = {}
    for group in groups:
        if group.id in ids:
            raise CorpusError(f"{group.app}.yaml: group {group.id}: id: used twice")
        if group.question in questions:
            raise CorpusError(f"{group.app}.yaml: group {group.id}: question: same as {questions[group.question]}")
        ids.add(group.id)
        questions[group.question] = group.id
