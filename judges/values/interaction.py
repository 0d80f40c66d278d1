"""The interaction: one logged exchange of a RAG service, as it is judged."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictInt,
    StrictStr,
)

from judges.values.cyrillic import is_russian

Language = Literal["en", "ru"]
FieldValue = str | tuple[str, ...]

# Values must pass through unchanged: to Python a bool is an int, and pydantic would accept "007" as a number.
TagText = Annotated[StrictStr, Field(max_length=1024)]
TagNumber = Annotated[float, Field(strict=True, allow_inf_nan=False)]
TagValue = Annotated[StrictBool | StrictInt | TagText | TagNumber | None, Field(union_mode="left_to_right")]

# Share of Cyrillic letters from which a text may count as Russian; Russian answers quote Latin names.
_CYRILLIC_SHARE = 0.3
_CYRILLIC = re.compile("[\u0400-\u0481\u048a-\u04ff]+")


CONTEXT_IDS = "context_ids"
"""The field with the ids and addresses of the contexts, one text per context; absent if no context has any.

Only criteria that name it show it, so that the prompts of the others do not depend on it.
"""

# Keys next to a context's text that hold its address, as services log it.
_ADDRESS_KEYS = ("url", "uri", "source")
_MAX_CONTEXT_ID_CHARS = 1024

# Names become labels and keys, and tags are copied to every result: a record must not bloat these.
MAX_ID_CHARS = 512
Name = Annotated[StrictStr, Field(max_length=256)]
TagName = Annotated[str, Field(max_length=128)]
_MAX_TAGS = 64


def _none_is_empty(value: object) -> object:
    """Accept null, which some services log for an empty list."""
    return () if value is None else value


def _none_is_untagged(value: object) -> object:
    return {} if value is None else value


class _Record(BaseModel):
    """The base of records: unknown fields are passed on, and values never change after reading."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Turn(_Record):
    """One message of the conversation before the question."""

    role: StrictStr = Field(description="Speaker, such as `user` or `assistant`.")
    text: StrictStr = Field(description="The message.")


class Context(_Record):
    """One passage that the retriever found."""

    text: StrictStr = Field(description="Text of the passage.")
    id: StrictStr | None = Field(default=None, description="Id of the passage in your index; null if it has none.")
    score: FiniteFloat | None = Field(
        default=None, description="Relevance according to the retriever, on its own scale; null if unknown."
    )


class Candidate(_Record):
    """Another answer to the same question, to compare with."""

    name: StrictStr = Field(description="Name of the candidate in results.")
    answer: StrictStr = Field(description="Text of the answer.")


class Interaction(_Record):
    """One question, the passages retrieved for it, and the answer of the service."""

    id: StrictStr = Field(
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="Unique id, 1 to 512 characters; the key of the Kafka record should be the same.",
    )
    question: StrictStr = Field(description="The user's question.")
    answer: StrictStr = Field(description="The answer of the service: the text that is judged.")
    timestamp: AwareDatetime | None = Field(
        default=None, description="Time of the answer, with a time zone; null if unknown."
    )
    app: Name | None = Field(
        default=None,
        description=(
            "Application that answered; scores, objectives and budgets are kept per app. Null counts as `unknown`."
        ),
    )
    tenant: Name | None = Field(default=None, description="Tenant whose user asked; null if there are no tenants.")
    model: Name | None = Field(
        default=None,
        description="Model that wrote the answer; used to exclude judges of the same family. Null if unknown.",
    )
    history: Annotated[tuple[Turn, ...], BeforeValidator(_none_is_empty)] = Field(
        default=(), description="Messages before the question, oldest first; empty at the start of a conversation."
    )
    contexts: Annotated[tuple[Context, ...], BeforeValidator(_none_is_empty)] = Field(
        default=(), description="Retrieved passages; if there are none, groundedness does not apply."
    )
    reference: StrictStr | None = Field(default=None, description="A known correct answer; null if there is none.")
    candidates: Annotated[tuple[Candidate, ...], BeforeValidator(_none_is_empty)] = Field(
        default=(), description="Other answers to the same question."
    )
    tags: Annotated[dict[TagName, TagValue], BeforeValidator(_none_is_untagged)] = Field(
        default_factory=dict,
        max_length=_MAX_TAGS,
        description="Up to 64 values to select by; passed on to the evaluation.",
    )
    traceparent: Name | None = Field(
        default=None, description="W3C trace context of the answer; null if it was not traced."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A judge's view of one interaction: named fields of text, without facts about the service.

    A field that the interaction does not have is absent; a field that is empty (`contexts: []`) is present and empty.
    Judges distinguish the two.
    """

    id: str
    fields: Mapping[str, FieldValue]
    language: Language
    author: str | None = None
    """The model that wrote the answer, so that a panel can exclude judges of its family."""

    def text(self, name: str) -> str:
        """Return the field as one text; empty if it is absent."""
        value = self.fields.get(name, "")
        return value if isinstance(value, str) else "\n".join(value)

    def items(self, name: str) -> tuple[str, ...]:
        """Return the field as a list of texts; empty if it is absent."""
        value = self.fields.get(name, ())
        return (value,) if isinstance(value, str) else value


def case_of(interaction: Interaction, language: Language | None = None) -> Case:
    """Return a judge's view of an interaction; the default language is that of the texts."""
    fields: dict[str, FieldValue] = {
        "question": interaction.question,
        "answer": interaction.answer,
        "history": tuple(f"{turn.role}: {turn.text}" for turn in interaction.history),
        "contexts": tuple(context.text for context in interaction.contexts),
    }
    if interaction.reference is not None:
        fields["reference"] = interaction.reference
    ids = tuple(map(_ids_of, interaction.contexts))
    if any(ids):
        fields[CONTEXT_IDS] = ids
    return Case(
        id=interaction.id,
        fields=fields,
        language=language or language_of(f"{interaction.question} {interaction.answer}"),
        author=interaction.model,
    )


def _ids_of(context: Context) -> str:
    """Return the id and the addresses of a context, one per line."""
    extra = context.model_extra or {}
    values = (context.id, *(extra.get(key) for key in _ADDRESS_KEYS))
    texts = (" ".join(value.split())[:_MAX_CONTEXT_ID_CHARS] for value in values if isinstance(value, str))
    return "\n".join(dict.fromkeys(filter(None, texts)))


def language_of(text: str) -> Language:
    """Return Russian if enough letters are Cyrillic and the words are not of a related language, else English."""
    if text.isascii():
        return "en"
    cyrillic = sum(map(len, _CYRILLIC.findall(text)))
    mostly_cyrillic = cyrillic and cyrillic / sum(map(str.isalpha, text)) >= _CYRILLIC_SHARE
    return "ru" if mostly_cyrillic and is_russian(text) else "en"
