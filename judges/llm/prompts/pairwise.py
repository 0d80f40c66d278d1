"""The prompt that compares answers: first the context, then the answers by letters, then the task."""

from collections.abc import Iterator, Sequence

from judges.criteria.criterion import Criterion
from judges.criteria.scale import YES_NO, LocalizedText, Option, Options
from judges.llm.prompts.direct import describe_choice
from judges.llm.prompts.layout import (
    blocks,
    boundary,
    field_title,
    reason_for_model,
    retry_messages,
    template,
    visible_fields,
)
from judges.models.base import ChatMessage
from judges.values.interaction import Case, Language

TIE = LocalizedText(en="tie", ru="ничья")


def pairwise_messages(case: Case, texts: Sequence[str], criterion: Criterion, *, ties: bool) -> list[ChatMessage]:
    """Return the messages that ask for the best of several texts; the case holds the context and all texts.

    The texts are named by letters, so that the names of their authors cannot influence the verdict.
    """
    language, code = case.language, boundary(case.fields)
    titles = [answer_title(letter, criterion, language) for letter in letters(len(texts))]
    answers = Case(id=case.id, fields=dict(zip(titles, texts, strict=True)), language=language)
    data = [blocks(case, context_fields(case, criterion), code), blocks(answers, titles, code)]
    user = template("pairwise", language, "user").substitute(
        code=code,
        data="\n".join(filter(None, data)),
        task="\n".join(_task(titles, criterion, language)),
        verdicts="\n".join(f"- {verdict}" for verdict in _verdicts(titles, language, ties=ties)),
        reply=template("pairwise", language, "reply").template,
    )
    system = template("pairwise", language, "system").template
    return [ChatMessage(role="system", content=system), ChatMessage(role="user", content=user)]


def repair_messages(output: str | None, reason: str, verdicts: Options, language: Language) -> list[ChatMessage]:
    """Return the messages that follow the task after an invalid output."""
    labels = ", ".join(f'"{choice.label.of(language)}"' for choice in verdicts.choices)
    return retry_messages(
        output,
        template("pairwise", language, "repair").substitute(reason=reason_for_model(reason, language), labels=labels),
        language,
    )


def verdicts_on(count: int, *, ties: bool) -> Options:
    """Return the possible verdicts on `count` answers."""
    labels = [LocalizedText(en=letter, ru=letter) for letter in letters(count)]
    return Options(options=tuple(Option(label=label) for label in ([*labels, TIE] if ties else labels)))


def letters(count: int) -> list[str]:
    """Return A to Z, then AA to AZ, and so on."""
    return [_letter(number) for number in range(count)]


def _letter(number: int) -> str:
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def answer_title(letter: str, criterion: Criterion, language: Language) -> str:
    return f"{field_title(criterion.to_evaluate, language)} {letter}"


def context_fields(case: Case, criterion: Criterion) -> list[str]:
    """Return the fields that are shown next to the texts under evaluation."""
    return [name for name in visible_fields(case, criterion) if name != criterion.to_evaluate]


def question_lines(criterion: Criterion, language: Language) -> Iterator[str]:
    """Yield the basis of the comparison: the question, the ends of the scale, and what to ignore."""
    title, question = criterion.title.of(language), criterion.question.of(language)
    yield question if title == question else f"{title}: {question}"
    ends = _ends(criterion, language)
    if ends is not None:
        yield template("pairwise", language, "ends").substitute(worst=ends[0], best=ends[1])
    if criterion.ignore is not None:
        yield criterion.ignore.of(language)


def _task(titles: Sequence[str], criterion: Criterion, language: Language) -> Iterator[str]:
    question, *more = question_lines(criterion, language)
    targets = ", ".join(f'"{title}"' for title in titles)
    yield template("pairwise", language, "task").substitute(targets=targets, question=question)
    yield from more
    yield template("pairwise", language, "order").template


def _verdicts(titles: Sequence[str], language: Language, *, ties: bool) -> Iterator[str]:
    for letter, title in zip(letters(len(titles)), titles, strict=True):
        yield template("pairwise", language, "choice").substitute(letter=letter, target=title)
    if ties:
        yield template("pairwise", language, "tie").substitute(label=TIE.of(language))


def _ends(criterion: Criterion, language: Language) -> tuple[str, str] | None:
    """Return the worst and the best of the scale; without them a model could take "more" for "better"."""
    if criterion.scale == YES_NO and criterion.higher_is == "better":
        # A question in plain words may ask "which": yes and no would not answer it.
        return None
    if criterion.worst_first:
        worst, best = criterion.worst_first[0], criterion.worst_first[-1]
        return describe_choice(worst, language), describe_choice(best, language)
    if criterion.scale.kind != "range":
        return None
    bounds = criterion.scale.range
    low, high = _end(bounds.min, bounds.low, language), _end(bounds.max, bounds.high, language)
    return (low, high) if criterion.higher_is == "better" else (high, low)


def _end(number: float, meaning: LocalizedText | None, language: Language) -> str:
    return f"{number:g}" if meaning is None else f"{number:g}: {meaning.of(language)}"
