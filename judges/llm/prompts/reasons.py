"""Reasons for invalid outputs in the language of the prompt: a repair request must not switch languages.

Reasons are written in English, for logs and results. A Russian prompt gets the same reason in Russian, or a general
sentence if there is no translation.
"""

import re

from judges.values.interaction import Language

_ANY = r"(.+)"
# The finish reason from the endpoint follows the reason.
_PARTS = re.compile(r"; (?=it was cut off|the endpoint's|the model refused)")
_GENERAL = "ответ не соответствует заданию"

_RUSSIAN: tuple[tuple[str, str], ...] = (
    (r"the output is empty", "ответ пуст"),
    (r"the output is a refusal", "это отказ"),
    (r"the assessment is empty", "разбор пуст"),
    (r"the assessment was withheld", "разбор не был выдан"),
    (
        r"it repeats instructions from the judged text",
        "ответ повторяет указания из оцениваемого текста",
    ),
    (r"the output is not valid JSON", "это не корректный JSON"),
    (r"the output has no JSON object", "нет объекта JSON"),
    (r"the output has more than one JSON object with a verdict", "в ответе больше одного объекта JSON с вердиктом"),
    (r"the output has a verdict only inside its reasoning", "вердикт есть только в рассуждениях"),
    (r"the output ends inside its reasoning", "ответ обрывается на рассуждениях"),
    (r"the JSON object is not complete", "объект JSON не завершён"),
    (r"the JSON object is nested too deeply", "объект JSON слишком глубоко вложен"),
    (r"the JSON object has no key `(\w+)`", r"в объекте JSON нет ключа `\1`"),
    (r'the key "(\w+)" must contain an object with the sentences', r'в ключе "\1" должен быть объект с предложениями'),
    (rf"there is no sentence {_ANY}", r"предложения \1 нет"),
    (r"sentence (\d+) has no `verdict`", r"у предложения \1 нет `verdict`"),
    (
        rf"the verdict {_ANY} on sentence (\d+) is not one of the verdicts",
        r"вердикта \1 о предложении \2 нет среди указанных",
    ),
    (
        r"the contexts of sentence (\d+) must be a list of numbers",
        r"контексты предложения \1 должны быть списком номеров",
    ),
    (rf"there is no context {_ANY}, which sentence (\d+) names", r"контекста \1 нет, а предложение \2 его называет"),
    (r"the JSON object has none of the criteria", "в объекте JSON нет ни одного критерия"),
    (r"(\w[\w.]*) has no `verdict` in the JSON object", r"в объекте JSON нет `verdict` для \1"),
    (
        r"the JSON object has no `feedback`, and the verdict is not the best one",
        "в объекте JSON нет `feedback`, а вердикт не лучший",
    ),
    (r"a key of the JSON object occurs twice", "ключ объекта JSON повторяется"),
    (r"(-?\w+) is not a verdict", r"\1 — не вердикт"),
    (r"the verdict not_applicable is not allowed for this criterion", "вердикт not_applicable здесь недопустим"),
    (rf"the verdict {_ANY} is not on the scale", r"вердикта \1 нет на шкале"),
    (rf"the verdict must be one of the labels, not {_ANY}", r"вердикт должен быть одним из указанных, а не \1"),
    (
        rf"the verdict must be a number from (\S+) to (\S+), not {_ANY}",
        r"вердикт должен быть числом от \1 до \2, а не \3",
    ),
    (
        rf"the verdict must be an object with true or false for each number, not {_ANY}",
        r"вердикт должен быть объектом с true или false для каждого номера, а не \1",
    ),
    (
        r"the verdict must have the numbers 1 to (\d+), each once",
        r"в вердикте должны быть номера от 1 до \1, каждый один раз",
    ),
    (
        rf"the verdict on each number must be true or false, not {_ANY}",
        r"вердикт по каждому номеру должен быть true или false, а не \1",
    ),
    (rf"the verdict {_ANY} is not one of the labels", r"вердикта \1 нет среди указанных"),
    (rf"the verdict {_ANY} is not a number from (\S+) to (\S+)", r"вердикт \1 — не число от \2 до \3"),
    (
        r"the verdict may be copied from the judged text, where it stands too",
        "вердикт мог быть списан с оцениваемого текста, где он тоже есть",
    ),
    (r"a tie is not allowed: one must be named", "ничья недопустима, назовите один"),
    (
        rf"the output must be one word, yes or no, not {_ANY}",
        r"ответ должен быть одним словом, «Да» или «Нет», а не \1",
    ),
    (r"the output ends with different results", "в конце ответа стоят разные результаты"),
    (
        rf"\[RESULT\] must be followed by an integer from (\d+) to (\d+)(?: and nothing else)?, not by {_ANY}",
        r"после [RESULT] должно стоять только целое число от \1 до \2, а не \3",
    ),
    (
        rf"\[RESULT\] must be followed by A or B(?: and nothing else)?, not by {_ANY}",
        r"после [RESULT] должно стоять только A или B, а не \1",
    ),
    (r"the \[RESULT\] is a quotation", "[RESULT] стоит в кавычках"),
    (r"the output has no \[RESULT\]", "в ответе нет [RESULT]"),
    (r"it was cut off at the token limit", "ответ оборвался на пределе длины"),
    (r"the endpoint's content filter stopped it", "ответ остановил фильтр содержимого"),
    (r"the model refused", "модель отказалась отвечать"),
)
_PATTERNS = tuple((re.compile(english, re.DOTALL), russian) for english, russian in _RUSSIAN)


def in_language(reason: str, language: Language) -> str:
    """Return the reason in the language of the prompt."""
    return reason if language == "en" else "; ".join(map(_translate, _PARTS.split(reason)))


def _translate(reason: str) -> str:
    for pattern, russian in _PATTERNS:
        match = pattern.fullmatch(reason)
        if match:
            return match.expand(russian)
    return _GENERAL
