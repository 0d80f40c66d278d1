"""The prompt of the judge that looks for one risk: the conversation by roles, the risk, and a question of yes or no."""

from collections.abc import Mapping

from judges.criteria.criterion import Criterion
from judges.criteria.scale import LocalizedText
from judges.llm.prompts.layout import again, boundary, fenced, field_title, shown_fields, template, told
from judges.models.base import ChatMessage
from judges.values.interaction import Case, Language

_ROLES: Mapping[str, LocalizedText] = {
    "question": LocalizedText(en="user message", ru="сообщение пользователя"),
    "answer": LocalizedText(en="assistant message", ru="сообщение ассистента"),
    "contexts": LocalizedText(en="context", ru="контекст"),
    "history": LocalizedText(en="earlier message", ru="более раннее сообщение"),
}


def guardian_messages(case: Case, criterion: Criterion) -> list[ChatMessage]:
    """One message of the user and none of the system, in whose place such models expect the name of a risk."""
    assert criterion.risk is not None
    language, code = case.language, boundary(case.fields)
    user = template("guardian", language, "user").substitute(
        code=code,
        data=fenced(case, shown_fields(case, criterion), code, _role),
        risk=criterion.risk.of(language),
        target=_role(criterion.to_evaluate, language),
    )
    return [ChatMessage(role="user", content=user)]


def repair_messages(output: str | None, reason: str, criterion: Criterion, language: Language) -> list[ChatMessage]:
    """What follows the task after an output that could not be used."""
    target = _role(criterion.to_evaluate, language)
    return again(
        output,
        template("guardian", language, "repair").substitute(reason=told(reason, language), target=target),
        language,
    )


def _role(field: str, language: Language) -> str:
    return _ROLES[field].of(language) if field in _ROLES else field_title(field, language)
