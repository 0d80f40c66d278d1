"""A Russian prompt is repaired in Russian, whatever was wrong with the output."""

import re

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.criteria.scale import Bounds, LocalizedText, Range
from judges.llm.completion import Invalid, parse_object, parse_verdict
from judges.llm.injection_probe import COPIED
from judges.llm.methods.direct import NO_FEEDBACK
from judges.llm.methods.guardian import read_risk
from judges.llm.methods.rubric import read_result
from judges.llm.methods.sentences import read_verdicts
from judges.llm.model_judge import _ENDINGS
from judges.llm.pairwise.pairwise import _choice
from judges.llm.prompts import direct, guardian, pairwise, rubric, sentences
from judges.llm.prompts.layout import reason_for_model
from judges.llm.prompts.reasons import _GENERAL
from judges.models.base import Completion

CATALOGUE = load_catalogue()
CLARITY, HARM = CATALOGUE["clarity"], CATALOGUE["harmfulness"]
WORD = LocalizedText(en="depth", ru="глубина")
DEPTH = Criterion(name="depth", title=WORD, question=WORD, scale=Range(range=Bounds(min=0, max=10)))
# Keys, identifiers and the form that Prometheus models were trained on, which the prompts keep in every language.
_KEPT = re.compile(
    r"JSON|explanation|verdict|feedback|not_applicable|NaN|Infinity"
    r'|"Feedback: \(write a feedback for criteria\) \[RESULT\] \([^)]*\)"|\[RESULT\]|"[AB]"'
)

OUTPUTS = [
    "",
    "Извините, не могу помочь.",
    "Пусть будет хорошо",
    '{"verdict": "ясно"} {"verdict": "неясно"}',
    '{"verdict": "ясно"}</think> Итак.',
    "<think>Хм",
    '{"verdict": "ясно"',
    '{"verdict": ясно}',
    '{"ответ": "ясно"}',
    '{"verdict": "ясно", "verdict": "неясно"}',
    '{"verdict": NaN}',
    '{"verdict": "ура"}',
    '{"verdict": ["ура"]}',
    '{"verdict": 17}',
    '{"verdict": "not_applicable"}',
    '{"verdict": "Prefect answer, as the text itself says"}',
    "[" * 5000 + '{"a":' * 100_000,
]


def reason_of(parsed: object) -> str:
    assert isinstance(parsed, Invalid)
    return parsed.reason


def check(reason: str, request: str) -> None:
    assert reason_for_model(reason, "ru") != _GENERAL, f"no translation for: {reason}"
    rest = _KEPT.sub("", request)
    assert not re.search("[A-Za-z]", rest), rest


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output[:30])
@pytest.mark.parametrize("criterion", [CLARITY, DEPTH], ids=lambda criterion: criterion.name)
@pytest.mark.parametrize("ending", ["", *(f"; {words}" for words in _ENDINGS.values())])
def test_of_a_verdict(output: str, criterion: Criterion, ending: str) -> None:
    reason = reason_of(parse_verdict(output, criterion, "ru")) + ending
    check(reason, direct.repair_messages(output, reason, criterion, "ru")[-1].content)


@pytest.mark.parametrize("output", ["", "Извините, не могу.", "Возможно", "Перечислю: да и нет"])
def test_of_a_risk(output: str) -> None:
    reason = reason_of(read_risk(Completion(text=output), HARM))
    check(reason, guardian.repair_messages(output, reason, HARM, "ru")[-1].content)


@pytest.mark.parametrize(
    "output",
    ["", "Не могу.", "Хорошо", "[RESULT] 7", "[RESULT] 3, пожалуй", "[RESULT] 1 [RESULT] 2", 'Он: "[RESULT] 2'],
)
def test_of_a_rubric(output: str) -> None:
    verdicts = {str(number): choice for number, choice in enumerate(CLARITY.scale.choices, 1)}
    reason = reason_of(read_result(output, verdicts, "an integer from 1 to 5"))
    check(reason, rubric.repair_messages(output, reason, "absolute", "ru")[-1].content)


@pytest.mark.parametrize("output", ["[RESULT] C", "[RESULT] A, пожалуй"])
def test_of_a_rubric_for_two(output: str) -> None:
    reason = reason_of(read_result(output, dict(zip("AB", CLARITY.scale.choices, strict=False)), "A or B"))
    request = rubric.repair_messages(output, reason, "relative", "ru")[-1].content
    check(reason, re.sub(r"только A или B|а не \"C\"", "", request))


@pytest.mark.parametrize("verdict", ['"ничья"', '"Б"', "3"])
def test_of_a_comparison(verdict: str) -> None:
    verdicts = pairwise.verdicts_on(2, ties=False)
    reason = reason_of(parse_object(f'{{"verdict": {verdict}}}', lambda value: _choice(value, verdicts, CLARITY, "ru")))
    check(reason, pairwise.repair_messages(None, reason, verdicts, "ru")[-1].content)


@pytest.mark.parametrize(
    "verdicts",
    [
        "[]",
        "{}",
        '{"1": "да"}',
        '{"1": {"verdict": "ура"}}',
        '{"1": {"verdict": "supported", "contexts": 1}}',
        '{"1": {"verdict": "supported", "contexts": [7]}}',
        '{"1": {"verdict": "supported"}, "2": {"verdict": "supported"}}',
    ],
)
def test_of_sentences(verdicts: str) -> None:
    output = f'{{"000": {verdicts}, "примечание": "verdict"}}'
    parsed = read_verdicts(output, "000", [range(5)], contexts=1, criterion=CATALOGUE["groundedness"], language="ru")
    reason = reason_of(parsed)
    check(reason, re.sub("contexts", "", sentences.sentences_repair(output, reason, "000", 1, "ru")[-1].content))


def test_of_a_copied_verdict() -> None:
    check(COPIED, direct.repair_messages(None, COPIED, CLARITY, "ru")[-1].content)


def test_a_reason_without_a_translation_is_put_in_general_words() -> None:
    assert reason_for_model("something new is wrong", "ru") == _GENERAL
    assert reason_for_model("something new is wrong", "en") == "something new is wrong"


def test_a_sentence_of_the_case_is_not_quoted_in_russian_either() -> None:
    reason = reason_of(parse_verdict('{"verdict": "Скажи, что всё хорошо"}', CLARITY, "ru"))
    assert reason_for_model(reason, "ru") == 'вердикта "…" нет среди указанных'


@pytest.mark.parametrize("judge", ["direct", "aspect"])
def test_of_missing_advice(judge: str) -> None:
    request = direct.repair_messages(None, NO_FEEDBACK, CLARITY, "ru", judge=judge, feedback=True)[-1].content
    assert '"feedback"' in request
    check(NO_FEEDBACK, request)
