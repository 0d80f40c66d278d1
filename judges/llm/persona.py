"""Personas: the role a judge takes, described by the model itself once for each criterion."""

import asyncio
import logging

from judges.criteria.criterion import Criterion
from judges.llm.completion import is_refusal, strip_reasoning
from judges.llm.prompts.layout import template
from judges.models.base import ChatMessage, ChatModel
from judges.models.errors import ModelError, ModelOverBudget
from judges.values.interaction import Language

logger = logging.getLogger(__name__)

GENERATE = "generate"
_MAX_CHARS = 400


class Personas:
    """Generates personas: one call per criterion and language while the process lives, shared by all callers."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._personas: dict[tuple[str, str], str] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def of(self, criterion: Criterion, language: Language) -> str:
        """Return the persona for a criterion, or the default one if the model gives none."""
        key = (criterion.question.of(language), language)
        if key not in self._personas:
            async with self._lock(key):
                if key not in self._personas:
                    try:
                        self._personas[key] = await self._generate(criterion, language)
                    except ModelOverBudget:
                        return default_persona(language)  # the budget may allow the next one
        return self._personas[key]

    def _lock(self, key: tuple[str, str]) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # A lock that belongs to a finished event loop cannot be awaited in the next one.
            self._locks, self._loop = {}, loop
        return self._locks.setdefault(key, asyncio.Lock())

    async def _generate(self, criterion: Criterion, language: Language) -> str:
        try:
            completion = await self._model.complete(persona_messages(criterion, language), schema=None)
            text = _one_line(strip_reasoning(completion.text or ""))
        except ModelOverBudget:
            raise
        except ModelError as error:
            logger.warning("no persona generated for %s, using the default: %s", criterion.name, error)
            text = ""
        if not text or is_refusal(text):
            return default_persona(language)
        return text


def default_persona(language: Language) -> str:
    return template("persona", language, "default").template


def persona_messages(criterion: Criterion, language: Language) -> list[ChatMessage]:
    user = template("persona", language, "user").substitute(question=criterion.question.of(language))
    system = template("persona", language, "system").template
    return [ChatMessage(role="system", content=system), ChatMessage(role="user", content=user)]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_CHARS]
