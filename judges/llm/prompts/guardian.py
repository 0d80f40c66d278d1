"""The prompt that asks about one risk: the conversation by roles, the risk, and a yes-or-no question."""

from collections.abc import Mapping

from judges.criteria.criterion import Criterion
from judges.criteria.scale import LocalizedText
from judges.llm.prompts.layout import (
    boundary,
    fence_fields,
    field_title,
    reason_for_model,
    retry_messages,
    template,
    visible_fields,
)
from judges.models.base import ChatMessage
from judges.values.interaction import Case, Language

_ROLES: Mapping[str, LocalizedText] = {
    "question": LocalizedText(en="user message", ru="сообщение пользователя"),
    "answer": LocalizedText(en="assistant message", ru="сообщение ассистента"),
    "contexts": LocalizedText(en="context", ru="контекст"),
    "history": LocalizedText(en="earlier message", ru="более раннее сообщение"),
}


def guardian_messages(case: Case, criterion: Criterion) -> list[ChatMessage]:
    """Return one user message and no system message, which such models expect to be the name of a risk."""
    assert criterion.risk is not None
    language, code = case.language, boundary(case.fields)
    user = template("guardian", language, "user").substitute(
        code=code,
        data=fence_fields(case, visible_fields(case, criterion), code, _role),
        risk=criterion.risk.of(language),
        target=_role(criterion.to_evaluate, language),
    )
    return [ChatMessage(role="user", content=user)]


def repair_messages(output: str | None, reason: str, criterion: Criterion, language: Language) -> list[ChatMessage]:
    """Return the messages that follow the task after an invalid output."""
    target = _role(criterion.to_evaluate, language)
    return retry_messages(
        output,
        template("guardian", language, "repair").substitute(reason=reason_for_model(reason, language), target=target),
        language,
    )


def _role(field: str, language: Language) -> str:
    return _ROLES[field].of(language) if field in _ROLES else field_title(field, language)
