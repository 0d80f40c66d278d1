"""Lays out a case in a prompt: its fields in a fixed order, each under a line with a code that no text contains."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from string import Template

from judges.criteria.criterion import Criterion
from judges.criteria.scale import LANGUAGES, YES_NO, Bounds, Level, Levels, LocalizedText, Range
from judges.llm.prompts.lookalikes import skeleton, squeeze
from judges.llm.prompts.reasons import in_language
from judges.models.base import ChatMessage
from judges.runtime.recent import RecentResults
from judges.values.interaction import CONTEXT_IDS, Case, FieldValue, Language

# Fields that most criteria show come first: prompts with a longer common prefix cache better.
_ORDER = ("question", "answer", "history", "contexts", "reference")
_NAMES: Mapping[str, LocalizedText] = {
    "question": LocalizedText(en="question", ru="вопрос"),
    "answer": LocalizedText(en="answer", ru="ответ"),
    "history": LocalizedText(en="history", ru="история"),
    "contexts": LocalizedText(en="contexts", ru="контексты"),
    "reference": LocalizedText(en="reference", ru="эталон"),
    CONTEXT_IDS: LocalizedText(en="id of context", ru="обозначение контекста"),
}
EMPTY = LocalizedText(en="(empty)", ru="(пусто)")
_END = LocalizedText(en="end", ru="конец")
_ENDS = frozenset({skeleton(_END.en), skeleton(_END.ru)})
_FIELD = LocalizedText(en="field", ru="поле")
_MAX_QUOTED_CHARS = 1000
# Total size of the texts whose codes and safe forms are cached: some hundred records of usual length.
_CACHE_CHARS = 4_000_000

_LAYOUT_VERSION = 4
"""Incremented when the same case may be laid out differently than before, but the probes hash to the same value."""

_MARKER = re.compile(r"^(?:###|---) (?P<title>.*) (?P<code>[0-9a-f]{6})$", re.MULTILINE)
# Control words of chat templates, such as `<|im_start|>`, `[INST]` and `<end_of_turn>`: many servers turn them into
# control tokens wherever they occur, so that a text could end its message and begin a system message.
_CONTROL = re.compile(
    r"<(?=[|｜]|[\w▁]{1,40}[|｜]>|/?SYS>>|\[[\w▁ ]{1,40}\]>|/?(?:seed|minimax):\w{1,40}>"
    r"|/?(?:s|sop|eop|(?:bos|eos|pad|unk|cls|sep|mask|eop|eod)(?:_token)?|(?:start|end)_of_(?:turn|image|text)"
    r"|(?:beginning|end)_of_sentence|extra_id_\d+|special_\d+)>)"
    r"|\[(?=\|\w{1,40}\|\]|e~\[|/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_[A-Z]+|THINK|ARGS|CALL_ID|MODEL_SETTINGS"
    r"|IMG(?:_BREAK|_END)?|(?:BEGIN_)?AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX|[gs]?MASK|BOS|EOS|CLS|SEP)\])"
    r"|\](?=~!\w\[|~\w\]|!\w~\[)",
    re.IGNORECASE,
)
# A single word from the model's reply may be quoted to it; a sentence may not, because it could be from the case.
_QUOTATION = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)')
_QUOTED_WORD = re.compile(r'"[\w.,!?/+-]{0,24}"')


def visible_fields(case: Case, criterion: Criterion) -> tuple[str, ...]:
    """Return the fields of the case that this criterion shows; fields that most criteria share come first."""
    names = criterion.fields_shown(case)
    ranks = {name: rank for rank, name in enumerate(_ORDER)}
    return tuple(sorted(names & set(case.fields), key=lambda name: (ranks.get(name, len(ranks)), name)))


def boundary(fields: Mapping[str, FieldValue]) -> str:
    """Return a code that occurs in no field; it is the same for all criteria of a case."""
    return _recent_boundary(
        tuple((name, value if isinstance(value, str) else tuple(value)) for name, value in fields.items())
    )


_Items = tuple[tuple[str, FieldValue], ...]


def _boundary(items: _Items) -> str:
    # The ids of contexts do not change the code, so that prompts that do not show them stay the same.
    seed = {name: value for name, value in items if name != CONTEXT_IDS}
    return absent_code(json.dumps(seed, sort_keys=True), *_texts(items))


def absent_code(seed: str, *texts: str) -> str:
    """Return the first code of the seed's series that the texts do not contain, not even in lookalike letters."""
    digest, joined = hashlib.sha256(seed.encode()).hexdigest(), "\n".join(texts)
    haystack = f"{joined.casefold()} {squeeze(*texts)}"
    while digest[:6] in haystack:
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return digest[:6]


def _texts(items: _Items) -> Iterator[str]:
    for name, value in items:
        yield name
        yield from (value,) if isinstance(value, str) else value


_recent_boundary = RecentResults(_boundary, size=lambda items: sum(map(len, _texts(items))), most=_CACHE_CHARS)


def blocks(case: Case, names: Iterable[str], code: str) -> str:
    """Return the fields, each item below a line with its title."""
    empty = EMPTY.of(case.language)
    return "\n".join(f"### {title} {code}\n{inert(text) or empty}" for title, text in _items(case, names, field_title))


def numbered_blocks(title: str, texts: Iterable[str], code: str, language: Language) -> str:
    """Return texts, each below a line with the title and its number."""
    empty = EMPTY.of(language)
    return "\n".join(f"### {title} {number} {code}\n{inert(text) or empty}" for number, text in enumerate(texts, 1))


def field_title(field: str, language: Language) -> str:
    """Return the title of a field; a name that looks like the end marker gets a prefix, so that it ends nothing."""
    if field in _NAMES:
        return _NAMES[field].of(language)
    return f"{_FIELD.of(language)} {field}" if skeleton(field).split(" ")[0] in _ENDS else field


TitleOf = Callable[[str, Language], str]


def fence_fields(case: Case, names: Iterable[str], code: str, title_of: TitleOf = field_title) -> str:
    """Return the fields, each item between two lines, for prompts that do not separate the task from the data."""
    return "\n".join(fence(title, text, code, case.language) for title, text in _items(case, names, title_of))


def fence(title: str, text: str, code: str, language: Language) -> str:
    return f"--- {title} {code}\n{inert(text) or EMPTY.of(language)}\n--- {_END.of(language)} {code}"


def _inert(text: str) -> str:
    return _CONTROL.sub(r"\g<0> ", text)


_recent_inert = RecentResults(_inert, size=len, most=_CACHE_CHARS)


def inert(text: str) -> str:
    """Return the text with a space in each word that a server could take for a control token."""
    return _recent_inert(text)


def split_prompt(messages: Iterable[ChatMessage]) -> tuple[list[str], list[str]]:
    """Split a prompt into the judged texts, which are between the lines with its code, and the rest."""
    judged: list[str] = []
    own: list[str] = []
    for message in messages:
        text, position, inside = message.content, 0, False
        for marker in _markers(text):
            (judged if inside else own).append(text[position : marker.start()].strip("\n"))
            position, inside = marker.end(), marker["title"] not in (_END.en, _END.ru)
        own.append(text[position:].strip("\n"))
    return judged, own


def _markers(text: str) -> Iterator[re.Match[str]]:
    """Yield the lines with the code of the prompt, which is that of the first such line.

    A judged text may contain similar lines, but cannot know the code.
    """
    marker = _MARKER.search(text)
    code = "" if marker is None else marker["code"]
    while marker is not None:
        yield marker
        # A search for the code is many times faster than matching every line.
        place = text.find(code, marker.end())
        marker = None
        while marker is None and place >= 0:
            marker = _MARKER.match(text, text.rfind("\n", 0, place) + 1)
            if marker is not None and marker["code"] != code:
                marker = None
            place = text.find(code, place + 1)


def _items(case: Case, names: Iterable[str], title_of: TitleOf) -> Iterator[tuple[str, str]]:
    for name in names:
        title, value = title_of(name, case.language), case.fields[name]
        if isinstance(value, str):
            yield title, value
        elif not value:
            yield title, ""
        else:
            yield from ((f"{title} {number}", item) for number, item in enumerate(value, 1))


def retry_messages(output: str | None, request: str, language: Language) -> list[ChatMessage]:
    """Return an invalid output and the request that follows it."""
    # Some endpoints refuse an assistant message without content.
    quoted_output = inert((output or "").strip()[:_MAX_QUOTED_CHARS]) or EMPTY.of(language)
    return [ChatMessage(role="assistant", content=quoted_output), ChatMessage(role="user", content=request)]


def reason_for_model(reason: str, language: Language) -> str:
    """Return why an output is invalid, without quoted sentences and in the language of the prompt."""
    return in_language(_omit_quoted_sentences(reason), language)


def _omit_quoted_sentences(reason: str) -> str:
    return _QUOTATION.sub(lambda quotation: quotation[0] if _QUOTED_WORD.fullmatch(quotation[0]) else '"…"', reason)


def reason_for_log(reason: str) -> str:
    """Return why an output is invalid, with at most one quoted word: several could be a sentence of the case."""
    safe = _omit_quoted_sentences(reason)
    return safe if len(_QUOTATION.findall(safe)) <= 1 else _QUOTATION.sub('"…"', safe)


@cache
def template(judge: str, language: Language, part: str) -> Template:
    """Return one part of a judge's template file; parts begin with a line `--- name`."""
    text = resources.files("judges.llm.prompts").joinpath("texts", f"{judge}.{language}.md").read_text(encoding="utf-8")
    _, *pieces = re.split(r"^--- (\w+)\n", text, flags=re.MULTILINE)
    return Template(dict(zip(pieces[::2], pieces[1::2], strict=True))[part].strip())


def prompt_hash(build: Callable[[Case, Criterion], Iterable[ChatMessage]]) -> str:
    """Return a hash of prompts by `build` for every kind of criterion; it changes with wording and layout."""
    digest = hashlib.sha256(f"layout {_LAYOUT_VERSION}".encode())
    fields: Mapping[str, FieldValue] = {name: (name, "") for name in _ORDER} | {"answer": "", "other": ()}
    for language in LANGUAGES:
        case = Case(id="probe", fields=fields, language=language)
        for criterion in _probes():
            messages = build(case, criterion)
            digest.update("\0".join(f"{message.role}\0{message.content}" for message in messages).encode())
    return digest.hexdigest()[:12]


def _probes() -> Iterator[Criterion]:
    """Yield criteria that together show every part of a prompt."""
    word = LocalizedText(en="en", ru="ru")
    levels = tuple(
        Level(value=value, label=LocalizedText(en=f"e{value}", ru=f"r{value}"), description=word) for value in (0, 1)
    )
    common = {"name": "probe", "title": word, "question": word}
    yield Criterion(**common, ignore=word, scale=Levels(levels=levels), not_applicable=word, risk=word)
    yield Criterion(**common, scale=Range(range=Bounds(min=0, max=1, low=word, high=word)))
    example = {"fields": {"answer": "a"}, "verdict": "yes", "explanation": word}
    yield Criterion(**common, scale=YES_NO, risk=word, examples=(example,))
