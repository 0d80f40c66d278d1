"""What a model is asked: one template file per judge and language, filled with a case and a criterion.

The texts of a case are untrusted. Each stands under a line that carries a code which occurs in none of them, so no text
can end its field and speak as the task. A criterion is shown its own fields only, in an order that puts the shared ones
first, so that an endpoint that caches prefixes reads them once per case.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from string import Template

from judges.completion import NOT_APPLICABLE
from judges.criteria import Criterion, Level, Levels, Text
from judges.interaction import Case, Language
from judges.models.base import Message

_MAX_QUOTED_CHARS = 1000
_ORDER = ("question", "answer", "history", "contexts", "reference")
_NAMES: Mapping[str, Text] = {
    "question": Text(en="question", ru="вопрос"),
    "answer": Text(en="answer", ru="ответ"),
    "history": Text(en="history", ru="история"),
    "contexts": Text(en="contexts", ru="контексты"),
    "reference": Text(en="reference", ru="эталон"),
}
_EMPTY = Text(en="(empty)", ru="(пусто)")


def direct_messages(case: Case, criterion: Criterion) -> list[Message]:
    """The task of judging one field of a case by one criterion."""
    language, code = case.language, boundary(case.fields)
    user = _template("direct", language, "user").substitute(
        code=code,
        data="\n".join(_blocks(case, shown_fields(case, criterion), code)),
        target=_name(criterion.to_evaluate, language),
        title=criterion.title.of(language),
        question=criterion.question.of(language),
        ignore=criterion.ignore.of(language),
        verdicts="\n".join(_verdicts(criterion, language)),
    )
    system = _template("direct", language, "system").template
    return [Message(role="system", content=system), Message(role="user", content=user)]


def repair_messages(output: str | None, reason: str, criterion: Criterion, language: Language) -> list[Message]:
    """What follows the task after an output that could not be used."""
    repair = _template("direct", language, "repair").substitute(
        reason=reason, labels=", ".join(f'"{label}"' for label in allowed_labels(criterion, language))
    )
    # Some endpoints refuse an assistant's message without content.
    said = (output or "").strip()[:_MAX_QUOTED_CHARS] or _EMPTY.of(language)
    return [Message(role="assistant", content=said), Message(role="user", content=repair)]


def allowed_labels(criterion: Criterion, language: Language) -> tuple[str, ...]:
    """The verdicts that the judge may give, worst first as the scale has them."""
    labels = tuple(level.label.of(language) for level in criterion.scale.levels)
    return labels if criterion.not_applicable is None else (*labels, NOT_APPLICABLE)


def shown_fields(case: Case, criterion: Criterion) -> tuple[str, ...]:
    """The fields of the case that this criterion may see, the ones that most criteria share first."""
    wanted = set(case.fields) if criterion.context is None else {criterion.to_evaluate, *criterion.context}
    ranks = {name: rank for rank, name in enumerate(_ORDER)}
    return tuple(sorted(wanted & set(case.fields), key=lambda name: (ranks.get(name, len(ranks)), name)))


def boundary(fields: Mapping[str, str | tuple[str, ...]]) -> str:
    """A code that occurs in no field: the same for the same case, and for every criterion of it."""
    return absent_code(json.dumps(dict(fields), sort_keys=True), "\n".join(_texts(fields)))


def absent_code(seed: str, text: str) -> str:
    """The first code of the seed's series that does not occur in the text, in capitals or not."""
    digest, haystack = hashlib.sha256(seed.encode()).hexdigest(), text.casefold()
    while digest[:6] in haystack:
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return digest[:6]


def _texts(fields: Mapping[str, str | tuple[str, ...]]) -> Iterator[str]:
    for name, value in fields.items():
        yield name
        yield from (value,) if isinstance(value, str) else value


def _blocks(case: Case, names: Iterable[str], code: str) -> Iterator[str]:
    for name in names:
        title, value, empty = _name(name, case.language), case.fields[name], _EMPTY.of(case.language)
        if isinstance(value, str) or not value:
            yield f"### {title} {code}\n{value or empty}"
        else:
            yield from (f"### {title} {number} {code}\n{item or empty}" for number, item in enumerate(value, 1))


def _name(field: str, language: Language) -> str:
    return _NAMES[field].of(language) if field in _NAMES else field


def _verdicts(criterion: Criterion, language: Language) -> Iterator[str]:
    for level in criterion.scale.levels:
        yield f"- {level.label.of(language)}: {level.description.of(language)}"
    if criterion.not_applicable is not None:
        yield f"- {NOT_APPLICABLE}: {criterion.not_applicable.of(language)}"


@cache
def _template(judge: str, language: Language, part: str) -> Template:
    text = resources.files("judges").joinpath(f"prompts/{judge}.{language}.md").read_text(encoding="utf-8")
    _, *pieces = re.split(r"^--- (\w+)\n", text, flags=re.MULTILINE)
    return Template(dict(zip(pieces[::2], pieces[1::2], strict=True))[part].strip())


@cache
def direct_prompt_hash() -> str:
    """Changes whenever the wording or the layout of the direct judge's prompt does, for any case."""
    digest = hashlib.sha256()
    probe = Text(en="en", ru="ru")
    levels = tuple(
        Level(value=value, label=Text(en=f"e{value}", ru=f"r{value}"), description=probe) for value in (0, 1)
    )
    criterion = Criterion(
        name="probe", title=probe, question=probe, ignore=probe, scale=Levels(levels=levels), not_applicable=probe
    )
    fields: Mapping[str, str | tuple[str, ...]] = {name: (name, "") for name in _ORDER} | {"answer": "", "other": ()}
    languages: tuple[Language, ...] = ("en", "ru")
    for language in languages:
        case = Case(id="probe", fields=fields, language=language)
        messages = direct_messages(case, criterion) + repair_messages(None, "reason", criterion, language)
        digest.update("\0".join(f"{message.role}\0{message.content}" for message in messages).encode())
    return digest.hexdigest()[:12]
