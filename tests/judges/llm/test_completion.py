"""Which completions are verdicts: the table of faults, on all four scales."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.criteria.scale import Binary, Bounds, Choice, Level, Levels, LocalizedText, Option, Options, PassFail, Range
from judges.llm.completion import MAX_EXPLANATION_CHARS, Invalid, Parsed, Valid, parse_verdict
from judges.llm.methods.direct import DirectJudge
from judges.models import OpenAIModel
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case, Language
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint, chat_response


class Why(str):
    """A part of the reason for which a completion is invalid."""


Expected = str | float | Why | None
"""The English label or number that is read, or the reason why there is none; None: not applicable."""


def probe(scale: Any, **more: Any) -> Criterion:
    word = LocalizedText(en="probe", ru="проба")
    return Criterion(name="probe", title=word, question=word, scale=scale, **more)


def options(*labels: str, scores: tuple[float, ...] | None = None, **more: Any) -> Criterion:
    values = scores or (None,) * len(labels)
    listed = tuple(
        Option(label=LocalizedText(en=en, ru=en), score=score) for en, score in zip(labels, values, strict=True)
    )
    return probe(Options(options=listed), **more)


def levels(*labels: str) -> Criterion:
    listed = [
        Level(value=value, label=LocalizedText(en=en, ru=en), description=LABEL) for value, en in enumerate(labels)
    ]
    return probe(Levels(levels=tuple(listed)))


LABEL = LocalizedText(en="-", ru="-")
CATALOGUE = load_catalogue()
GROUNDEDNESS = CATALOGUE["groundedness"]
CLARITY = CATALOGUE["clarity"]
POLITE = probe(Binary(binary=PassFail(passes=LABEL, fails=LABEL)))
POLITE_OR_NOT_ASKED = POLITE.model_copy(update={"not_applicable": LABEL})
YES_NO = Criterion.of("Is the text polite?")
RUDE = Criterion.model_validate(YES_NO.model_dump() | {"name": "rude", "higher_is": "worse"})
CORRECT = options("CORRECT", "INCORRECT", "PARTIALLY CORRECT", scores=(1, 0, 0.5))
TONE = options("formal", "casual", "mixed")
STARS = options("1", "2", "4.5", scores=(2, 1, 0))
NUMBERED = levels("1", "2", "3")
TEN = probe(Range(range=Bounds(min=0, max=10)))
PERHAPS_TEN = TEN.model_copy(update={"not_applicable": LABEL})
BELOW_ZERO = probe(Range(range=Bounds(min=-1, max=-0.5)))

FULLY = '{"explanation": "All of it is there.", "verdict": "fully supported"}'
PARTLY = '{"explanation": "Half is there.", "verdict": "partly supported"}'
SEVEN = '{"explanation": "Good.", "verdict": 7}'
PAGE = (
    "<!doctype html><html><head><style>body { margin: 0 }</style></head><body><h1>502 Bad Gateway</h1>"
    "<script>window.x = {status: 502}</script></body></html>"
)
OFF_THE_LIST = Why("not one of the labels")
WRONG_TYPE = Why("must be one of the labels")
OFF_THE_SCALE = Why("not on the scale")
NO_OBJECT = Why("no JSON object")
NO_KEY = Why("no key `verdict`")
SEVERAL = Why("more than one")
CUT = Why("not complete")
NOT_JSON = Why("not valid JSON")
REFUSAL = Why("refusal")
NOT_0_TO_10 = Why("a number from 0 to 10")


def reply_with(verdict: object) -> str:
    return json.dumps({"explanation": "So.", "verdict": verdict}, ensure_ascii=False)


# Text around the object, and whether the result is valid: shown on levels, and the same for every scale.
FORM: dict[str, tuple[str | None, Expected]] = {
    "plain": (FULLY, "fully supported"),
    "surrounded by white space": (f"\n\t {FULLY} \n", "fully supported"),
    "over several lines": ('{\n  "explanation": "x",\n  "verdict": "hallucinated"\n}', "hallucinated"),
    "verdict before the explanation": ('{"verdict": "fully supported", "explanation": "x"}', "fully supported"),
    "without explanation": ('{"verdict": "fully supported"}', "fully supported"),
    "null explanation": ('{"explanation": null, "verdict": "fully supported"}', "fully supported"),
    "extra keys": ('{"explanation": "x", "confidence": 0.3, "verdict": "fully supported"}', "fully supported"),
    "byte order mark": (f"\ufeff{FULLY}", "fully supported"),
    "code fence": (f"```json\n{FULLY}\n```", "fully supported"),
    "code fence without language": (f"```\n{FULLY}\n```", "fully supported"),
    "code fence that never closes": (f"```json\n{FULLY}", "fully supported"),
    "code fence after a preamble": (f"Here it is:\n```json\n{FULLY}\n```\nDone.", "fully supported"),
    "preamble": (f"Sure! Here is my verdict:\n\n{FULLY}", "fully supported"),
    "Russian preamble": (f"Конечно! Мой вердикт:\n{FULLY}", "fully supported"),
    "preamble that names another label": (f"Not hallucinated, I would say: {FULLY}", "fully supported"),
    "preamble with quotes and an apostrophe": (f'It\'s "clear" to me: {FULLY}', "fully supported"),
    "preamble with braces": (f"The set {{a, b}} is {{}} irrelevant. {FULLY}", "fully supported"),
    "afterword": (f"{FULLY}\n\nLet me know if you need more.", "fully supported"),
    "sorry in front of a verdict": (f"Sorry for the delay. {FULLY}", "fully supported"),
    "another object without a verdict": (f'{{"note": 1}} {FULLY}', "fully supported"),
    "the same object twice": (f"{FULLY}\n{FULLY}", "fully supported"),
    "inside a list": (f"[{FULLY}]", "fully supported"),
    "think block": (f"<think>Is it hallucinated? No.</think>{FULLY}", "fully supported"),
    "think block with another verdict in it": (f"<think>First thought: {PARTLY}</think>\n{FULLY}", "fully supported"),
    "think block with an open brace": (f"<think>if (x) {{ never closed</think>{FULLY}", "fully supported"),
    "think block in capitals": (f"<THINK>no</THINK>{FULLY}", "fully supported"),
    "thinking block": (f"<thinking>{PARTLY}</thinking>{FULLY}", "fully supported"),
    "two think blocks": (f"<think>a</think><think>{PARTLY}</think>{FULLY}", "fully supported"),
    "think block after the verdict": (f"{FULLY}<think>Or rather {PARTLY}</think>", "fully supported"),
    "end of a think block that the prompt opened": (f"Is it? Yes.</think>{FULLY}", "fully supported"),
    "the same verdict before and after the end of thinking": (f"{FULLY}</think>{FULLY}", "fully supported"),
    "think tag inside a string": ('{"explanation": "It says <think> once.", "verdict": 2}', "fully supported"),
    "closing think tag inside a string": ('{"explanation": "</think>", "verdict": 2}', "fully supported"),
    "backticks inside a string": ('{"explanation": "It has ```json\\n{}``` in it.", "verdict": 2}', "fully supported"),
    "smart quotes inside a string": ('{"explanation": "“a” ‘b’ «c»", "verdict": 2}', "fully supported"),
    "escaped quotes inside a string": ('{"explanation": "says \\"yes\\"", "verdict": 2}', "fully supported"),
    "braces inside a string": ('{"explanation": "}{ {\\"verdict\\": 0}", "verdict": 2}', "fully supported"),
    "a verdict quoted inside a string": (
        '{"explanation": "it says {\\"verdict\\": 0}", "verdict": 2}',
        "fully supported",
    ),
    "escaped backslash before a quote": ('{"explanation": "C:\\\\", "verdict": 2}', "fully supported"),
    "raw line break inside a string": ('{"explanation": "one\ntwo", "verdict": 2}', "fully supported"),
    "nested object beside the verdict": ('{"details": {"verdict": 0}, "verdict": 2}', "fully supported"),
    "null": (None, Why("empty")),
    "empty": ("", Why("empty")),
    "white space": (" \n\t", Why("empty")),
    "the word null": ("null", NO_OBJECT),
    "prose": ("The answer is fully supported.", NO_OBJECT),
    "score in prose": ("Score: 2", NO_OBJECT),
    "verdict in prose": ("verdict: fully supported", NO_OBJECT),
    "bare number": ("2", NO_OBJECT),
    "bare label in quotes": ('"fully supported"', NO_OBJECT),
    "a list": ('["fully supported"]', NO_OBJECT),
    "a megabyte of prose": ("It is supported. " * 60_000, NO_OBJECT),
    "an error page": (PAGE, NO_KEY),
    "an error page without braces": ("<html><body><h1>502 Bad Gateway</h1></body></html>", NO_OBJECT),
    "XML": ("<verdict>fully supported</verdict>", NO_OBJECT),
    "YAML": ("explanation: x\nverdict: fully supported\n", NO_OBJECT),
    "empty object": ("{}", NO_KEY),
    "other key": ('{"explanation": "x", "score": 2}', NO_KEY),
    "key in other case": ('{"Verdict": "fully supported"}', NO_KEY),
    "padded key": ('{" verdict": "fully supported"}', NO_KEY),
    "longer key": ('{"final_verdict": "fully supported"}', NO_KEY),
    "verdict one level down": ('{"result": {"explanation": "x", "verdict": "fully supported"}}', NO_KEY),
    "error object of an endpoint": ('{"error": {"message": "overloaded", "code": 529}}', NO_KEY),
    "two verdicts": (f"{FULLY} {PARTLY}", SEVERAL),
    "two verdicts that differ in words only": (f'{FULLY} {{"verdict": "fully supported"}}', SEVERAL),
    "two verdicts in a list": (f"[{FULLY}, {PARTLY}]", SEVERAL),
    "two fenced verdicts": (f"```json\n{PARTLY}\n```\nOn second thoughts:\n```json\n{FULLY}\n```", SEVERAL),
    "verdict before and after a stray closing tag": (f"{PARTLY}</think>{FULLY}", SEVERAL),
    "verdict spelt with an escape, and another": (f'{{"\\u0076erdict": "hallucinated"}} {FULLY}', SEVERAL),
    "object quoted from the judged text, then the own": (f"The answer says {FULLY}. I say {PARTLY}", SEVERAL),
    "quoted object and think tag, then the own": (f"It says {FULLY}<think>, and I say {PARTLY}", Why("reasoning")),
    "verdict only before the end of thinking": (f"Perhaps {FULLY}</think>", Why("reasoning")),
    "verdict before the end of thinking, then prose": (f"Perhaps {FULLY}</think>It is good.", Why("reasoning")),
    "unclosed think block after the verdict": (f"{FULLY}<think>Or rather {PARTLY}", Why("reasoning")),
    "only a think block": (f"<think>{FULLY}</think>", NO_OBJECT),
    "unclosed think block": (f"<think>I would say {FULLY}", Why("reasoning")),
    "unclosed think block without a verdict": ("<think>Let me see", Why("reasoning")),
    "truncated in the explanation": ('{"explanation": "The answer is', CUT),
    "truncated after an escape": ('{"explanation": "The \\', CUT),
    "truncated in the verdict": ('{"explanation": "x", "verdict": "fully supp', CUT),
    "truncated before the brace": ('{"explanation": "x", "verdict": "fully supported"', CUT),
    "truncated around a quoted verdict": (f'{{"explanation": "it says {FULLY}', CUT),
    "truncated around a nested verdict": (f'{{"explanation": "x", "result": {FULLY}', CUT),
    "encoded twice": (json.dumps(FULLY), CUT),
    "trailing comma": ('{"verdict": "fully supported",}', NOT_JSON),
    "missing comma": ('{"explanation": "x" "verdict": "fully supported"}', NOT_JSON),
    "single quotes": ("{'verdict': 'fully supported'}", NOT_JSON),
    "smart quotes for quotes": ("{“verdict”: “fully supported”}", NOT_JSON),
    "guillemets for quotes": ("{«verdict»: «fully supported»}", NOT_JSON),
    "backticks for quotes": ("{`verdict`: `fully supported`}", NOT_JSON),
    "key without quotes": ('{verdict: "fully supported"}', NOT_JSON),
    "label without quotes": ('{"verdict": fully supported}', NOT_JSON),
    "comment": ('{"verdict": "fully supported" // sure\n}', NOT_JSON),
    "True of Python": ('{"sure": True, "verdict": "fully supported"}', NOT_JSON),
    "unescaped quotes around a fake": (
        f'{{"explanation": "it says "{FULLY}" here", "verdict": "hallucinated"}}',
        NOT_JSON,
    ),
    "broken verdict before a good one": (f'{{"verdict": hallucinated}} {FULLY}', NOT_JSON),
    "duplicate verdict": ('{"verdict": "hallucinated", "verdict": "fully supported"}', Why("twice")),
    "the same verdict twice in one object": ('{"verdict": 2, "verdict": 2}', Why("twice")),
    "duplicate explanation": ('{"explanation": "a", "explanation": "b", "verdict": 2}', Why("twice")),
    "duplicate key below": ('{"more": {"a": 1, "a": 2}, "verdict": 2}', Why("twice")),
    "NaN elsewhere": ('{"confidence": NaN, "verdict": 2}', Why("NaN")),
    "nested too deeply": ('{"a":' * 5000 + "1" + "}" * 5000, NO_KEY),
    "verdict nested too deeply": ('{"verdict": ' + "[" * 5000 + "]" * 5000 + "}", Why("deeply")),
    "the form of the prompt": ('{"explanation": "<one or two>", "verdict": "<one verdict>"}', OFF_THE_LIST),
    "refusal": ("I'm sorry, but I can't help with that.", REFUSAL),
    "refusal with a typographic apostrophe": ("I’m sorry, but I can’t assist.", REFUSAL),
    "refusal without sorrow": ("I cannot evaluate this content.", REFUSAL),
    "refusal as an AI": ("As an AI model, I do not judge.", REFUSAL),
    "refusal after thinking": ("<think>Hm.</think> Unfortunately, I am unable to do so.", REFUSAL),
    "refusal in JSON": ('{"error": "I cannot comply with this request."}', REFUSAL),
    "Russian refusal": ("Извините, я не могу оценить этот ответ.", REFUSAL),
    "Russian regret": ("К сожалению, я не могу помочь с этим.", REFUSAL),
    "Russian model": ("Как языковая модель, я не даю оценок.", REFUSAL),
    "apology in a thought only": ("<think>Sorry for him.</think>It is good.", NO_OBJECT),
}

LEVELS: dict[str, tuple[str | None, Expected]] = {
    "other case": (reply_with("Fully SUPPORTED"), "fully supported"),
    "padded": (reply_with("  fully supported\n"), "fully supported"),
    "Russian label": (reply_with("подтверждено частично"), "partly supported"),
    "Russian label in other case": (reply_with("Выдумано"), "hallucinated"),
    "integer": (reply_with(2), "fully supported"),
    "zero": (reply_with(0), "hallucinated"),
    "negative zero": ('{"verdict": -0.0}', "hallucinated"),
    "integer as a string": (reply_with("1"), "partly supported"),
    "padded integer as a string": (reply_with(" 1 "), "partly supported"),
    "whole float": (reply_with(2.0), "fully supported"),
    "whole float as a string": (reply_with("2.0"), "fully supported"),
    "number and label that agree": (reply_with("2 - fully supported"), "fully supported"),
    "number, colon and label": (reply_with("1: partly supported"), "partly supported"),
    "number, bracket and label": (reply_with("0) hallucinated"), "hallucinated"),
    "number, dash and Russian label": (reply_with("2 — подтверждено полностью"), "fully supported"),
    "not applicable": (reply_with("not_applicable"), None),
    "not applicable in words": (reply_with("Not applicable"), None),
    "not applicable in Russian": (reply_with("Неприменимо"), None),
    "not applicable, padded": (reply_with(" not_applicable "), None),
    "N/A": (reply_with("N/A"), OFF_THE_LIST),
    "NaN": ('{"verdict": NaN}', Why("NaN")),
    "Infinity": ('{"verdict": Infinity}', Why("Infinity")),
    "minus Infinity": ('{"verdict": -Infinity}', Why("Infinity")),
    "number too large for a float": ('{"verdict": 1e999}', OFF_THE_SCALE),
    "integer too large for a float": (f'{{"verdict": {"9" * 400}}}', OFF_THE_SCALE),
    "integer too long to read": (f'{{"verdict": {"9" * 5000}}}', NOT_JSON),
    "NaN as a string": (reply_with("NaN"), OFF_THE_LIST),
    "above the scale": (reply_with(3), OFF_THE_SCALE),
    "below the scale": (reply_with(-1), OFF_THE_SCALE),
    "between levels": (reply_with(1.5), OFF_THE_SCALE),
    "above the scale as a string": (reply_with("3"), OFF_THE_LIST),
    "between levels as a string": (reply_with("1.5"), OFF_THE_LIST),
    "true": ('{"verdict": true}', WRONG_TYPE),
    "false": ('{"verdict": false}', WRONG_TYPE),
    "null verdict": ('{"verdict": null}', WRONG_TYPE),
    "list": (reply_with(["fully supported"]), WRONG_TYPE),
    "object": (reply_with({"label": "fully supported"}), WRONG_TYPE),
    "nested verdict": (reply_with({"verdict": "fully supported"}), WRONG_TYPE),
    "empty string": (reply_with(""), OFF_THE_LIST),
    "unknown label": (reply_with("excellent"), OFF_THE_LIST),
    "label with not before it": (reply_with("not fully supported"), OFF_THE_LIST),
    "label with more words": (reply_with("fully supported, I think"), OFF_THE_LIST),
    "half a label": (reply_with("supported"), OFF_THE_LIST),
    "label in backticks": (reply_with("`fully supported`"), OFF_THE_LIST),
    "label in smart quotes": (reply_with("“fully supported”"), OFF_THE_LIST),
    "label with a full stop": (reply_with("fully supported."), OFF_THE_LIST),
    "two labels": (reply_with("fully supported or partly supported"), OFF_THE_LIST),
    "number and label that disagree": (reply_with("2 - partly supported"), OFF_THE_LIST),
    "number off the scale and label": (reply_with("5 - fully supported"), OFF_THE_LIST),
    "fraction": (reply_with("2/2"), OFF_THE_LIST),
    "number in words": (reply_with("two"), OFF_THE_LIST),
    "digits of another script": (reply_with("２"), OFF_THE_LIST),
}

BINARY: dict[str, tuple[str | None, Expected]] = {
    "pass": (reply_with("pass"), "pass"),
    "fail": (reply_with("fail"), "fail"),
    "in capitals": (reply_with("PASS"), "pass"),
    "padded": (reply_with(" fail\n"), "fail"),
    "Russian pass": (reply_with("соответствует"), "pass"),
    "Russian fail, which ends like the pass": (reply_with("не соответствует"), "fail"),
    "fenced": (f"```json\n{reply_with('fail')}\n```", "fail"),
    "true": (reply_with(True), WRONG_TYPE),
    "false": (reply_with(False), WRONG_TYPE),
    "one": (reply_with(1), OFF_THE_SCALE),
    "zero": (reply_with(0), OFF_THE_SCALE),
    "one as a string": (reply_with("1"), OFF_THE_LIST),
    "inflected": (reply_with("passed"), OFF_THE_LIST),
    "part of a word": (reply_with("passable"), OFF_THE_LIST),
    "yes": (reply_with("yes"), OFF_THE_LIST),
    "both": (reply_with("pass/fail"), OFF_THE_LIST),
    "not applicable where it always applies": (reply_with("not_applicable"), Why("not allowed")),
    "null verdict": (reply_with(None), WRONG_TYPE),
    "infinity": ('{"verdict": 1e999}', OFF_THE_SCALE),
}

OPTIONS: dict[str, tuple[Criterion, str | None, Expected]] = {
    "yes": (YES_NO, reply_with("Yes"), "Yes"),
    "yes in other case": (YES_NO, reply_with("yes"), "Yes"),
    "no, padded": (YES_NO, reply_with(" NO "), "No"),
    "Russian yes": (YES_NO, reply_with("да"), "Yes"),
    "Russian no": (YES_NO, reply_with("Нет"), "No"),
    "yes where yes is bad": (RUDE, reply_with("yes"), "Yes"),
    "no where yes is bad": (RUDE, reply_with("no"), "No"),
    "yes with more words": (YES_NO, reply_with("Yes, mostly"), OFF_THE_LIST),
    "yes with a full stop": (YES_NO, reply_with("Yes."), OFF_THE_LIST),
    "the score of yes": (YES_NO, reply_with(1), OFF_THE_SCALE),
    "the score of no as a string": (YES_NO, reply_with("0"), OFF_THE_LIST),
    "true for yes": (YES_NO, reply_with(True), WRONG_TYPE),
    "neither": (YES_NO, reply_with("unsure"), OFF_THE_LIST),
    "not applicable where it always applies": (YES_NO, reply_with("not applicable"), Why("not allowed")),
    "a label that stands in another": (CORRECT, reply_with("CORRECT"), "CORRECT"),
    "the other around it": (CORRECT, reply_with("INCORRECT"), "INCORRECT"),
    "the third around it": (CORRECT, reply_with("partially correct"), "PARTIALLY CORRECT"),
    "a word that only ends like a label": (CORRECT, reply_with("UNCORRECT"), OFF_THE_LIST),
    "a label spelt apart": (CORRECT, reply_with("IN CORRECT"), OFF_THE_LIST),
    "a denied label": (CORRECT, reply_with("not correct"), OFF_THE_LIST),
    "INCORRECT in prose": (CORRECT, "The answer is INCORRECT.", NO_OBJECT),
    "option without score": (TONE, reply_with("Casual"), "casual"),
    "a number for one without score": (TONE, reply_with(1), OFF_THE_SCALE),
    "unknown one without score": (TONE, reply_with("playful"), OFF_THE_LIST),
    "label that is a number": (STARS, reply_with("2"), "2"),
    "label that is a number, as a number": (STARS, reply_with(2), "2"),
    "label that is a number, as a float": (STARS, reply_with(1.0), "1"),
    "label that is a fraction, as a number": (STARS, reply_with(4.5), "4.5"),
    "a score that is no label": (STARS, reply_with(0), OFF_THE_SCALE),
    "infinity among numbers": (STARS, '{"verdict": -1e999}', OFF_THE_SCALE),
    "an integer that no float can hold": (STARS, f'{{"verdict": {"9" * 400}}}', OFF_THE_SCALE),
    "levels called by numbers, as a string": (NUMBERED, reply_with("2"), "2"),
    "levels called by numbers, as a number": (NUMBERED, reply_with(2), "2"),
    "the value of a level called by a number": (NUMBERED, reply_with(0), OFF_THE_SCALE),
    "two levels called by numbers": (NUMBERED, reply_with("2 - 3"), OFF_THE_LIST),
    "not applicable where the aspect allows it": (POLITE_OR_NOT_ASKED, reply_with("not_applicable"), None),
    "a label within a longer one": (CLARITY, reply_with("clear"), "clear"),
    "the longer one": (CLARITY, reply_with("very unclear"), "very unclear"),
    "not applicable where a dimension always applies": (CLARITY, reply_with("not_applicable"), Why("not allowed")),
}

RANGE: dict[str, tuple[Criterion, str | None, Expected]] = {
    "integer": (TEN, SEVEN, 7.0),
    "float": (TEN, reply_with(7.25), 7.25),
    "lower bound": (TEN, reply_with(0), 0.0),
    "upper bound": (TEN, reply_with(10), 10.0),
    "number as a string": (TEN, reply_with("7.5"), 7.5),
    "padded number as a string": (TEN, reply_with(" 7 "), 7.0),
    "signed number as a string": (TEN, reply_with("+7"), 7.0),
    "exponent": (TEN, '{"verdict": 1e1}', 10.0),
    "fenced after thinking": (TEN, f"<think>8? {reply_with(8)}</think>```json\n{SEVEN}\n```", 7.0),
    "not applicable where it may be": (PERHAPS_TEN, reply_with("not_applicable"), None),
    "negative": (BELOW_ZERO, reply_with(-0.75), -0.75),
    "not applicable where it always applies": (TEN, reply_with("not_applicable"), Why("not allowed")),
    "above": (TEN, reply_with(11), NOT_0_TO_10),
    "a little above": (TEN, reply_with(10.000001), NOT_0_TO_10),
    "below": (TEN, reply_with(-1), NOT_0_TO_10),
    "above, as a string": (TEN, reply_with("100"), NOT_0_TO_10),
    "outside a range below zero": (BELOW_ZERO, reply_with(0), Why("from -1 to -0.5")),
    "NaN": (TEN, '{"verdict": NaN}', Why("NaN")),
    "NaN as a string": (TEN, reply_with("nan"), NOT_0_TO_10),
    "Infinity": (TEN, '{"verdict": Infinity}', Why("Infinity")),
    "infinity as an exponent": (TEN, '{"verdict": 1e999}', NOT_0_TO_10),
    "minus infinity as an exponent": (TEN, '{"verdict": -1e999}', NOT_0_TO_10),
    "infinity as a string": (TEN, reply_with("inf"), NOT_0_TO_10),
    "an integer that no float can hold": (TEN, f'{{"verdict": {"9" * 400}}}', NOT_0_TO_10),
    "fraction": (TEN, reply_with("7/10"), NOT_0_TO_10),
    "fraction in words": (TEN, reply_with("7 out of 10"), NOT_0_TO_10),
    "bare fraction": (TEN, '{"verdict": 7/10}', NOT_JSON),
    "percent": (TEN, reply_with("70%"), NOT_0_TO_10),
    "unit": (TEN, reply_with("7 points"), NOT_0_TO_10),
    "decimal comma": (TEN, reply_with("7,5"), NOT_0_TO_10),
    "exponent as a string": (TEN, reply_with("1e1"), NOT_0_TO_10),
    "hexadecimal": (TEN, reply_with("0x7"), NOT_0_TO_10),
    "underscore": (TEN, reply_with("1_0"), NOT_0_TO_10),
    "digits of another script": (TEN, reply_with("７"), NOT_0_TO_10),
    "number in words": (TEN, reply_with("seven"), NOT_0_TO_10),
    "two numbers": (TEN, reply_with("7 or 8"), NOT_0_TO_10),
    "span": (TEN, reply_with("7-8"), NOT_0_TO_10),
    "list": (TEN, reply_with([7]), NOT_0_TO_10),
    "object": (TEN, reply_with({"score": 7}), NOT_0_TO_10),
    "true": (TEN, reply_with(True), NOT_0_TO_10),
    "null verdict": (TEN, reply_with(None), NOT_0_TO_10),
    "empty string": (TEN, reply_with(""), NOT_0_TO_10),
    "two objects": (TEN, f"{SEVEN} {reply_with(8)}", SEVERAL),
    "number in prose": (TEN, "I give it 7.", NO_OBJECT),
    "the form of the prompt": (TEN, '{"explanation": "<one or two>", "verdict": <number>}', NOT_JSON),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    criterion: Criterion
    text: str | None
    expected: Expected


ROWS: dict[str, Row] = {
    **{f"form: {name}": Row(criterion=GROUNDEDNESS, text=row[0], expected=row[1]) for name, row in FORM.items()},
    **{f"levels: {name}": Row(criterion=GROUNDEDNESS, text=row[0], expected=row[1]) for name, row in LEVELS.items()},
    **{f"binary: {name}": Row(criterion=POLITE, text=row[0], expected=row[1]) for name, row in BINARY.items()},
    **{f"options: {name}": Row(criterion=row[0], text=row[1], expected=row[2]) for name, row in OPTIONS.items()},
    **{f"range: {name}": Row(criterion=row[0], text=row[1], expected=row[2]) for name, row in RANGE.items()},
}
FAULTY = {name: row for name, row in ROWS.items() if isinstance(row.expected, Why)}


def parse(text: str | None, criterion: Criterion = GROUNDEDNESS, language: Language = "en") -> Parsed:
    return parse_verdict(text, criterion, language)


def choice(criterion: Criterion, label: str) -> Choice:
    return next(candidate for candidate in criterion.scale.choices if candidate.label.en == label)


def test_the_table_is_large_and_mostly_faults_on_every_scale() -> None:
    assert len(FAULTY) >= 120
    assert {row.criterion.scale.kind for row in FAULTY.values()} == {"levels", "binary", "options", "range"}
    assert len(ROWS) - len(FAULTY) >= 60


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_completion_is_read_as_the_table_says(row: Row) -> None:
    parsed = parse(row.text, row.criterion)
    if isinstance(row.expected, Why):
        assert isinstance(parsed, Invalid), parsed
        assert row.expected in parsed.reason
        assert len(parsed.reason) < 200
    else:
        assert isinstance(parsed, Valid), parsed
        expected_choice = choice(row.criterion, row.expected) if isinstance(row.expected, str) else None
        value = expected_choice.value if expected_choice else row.expected
        assert (parsed.choice, parsed.value, parsed.applies) == (expected_choice, value, row.expected is not None)


CASE = Case(id="1", fields={"question": "Why?", "answer": "So.", "contexts": ("It is so.",)}, language="en")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint() as endpoint:
        yield endpoint


def judge_row(endpoint: JudgeEndpoint, row: Row) -> JudgeVerdict:
    endpoint.respond = lambda _: chat_response(row.text)

    async def once() -> JudgeVerdict:
        judge = DirectJudge(OpenAIModel("tiny", base_url=endpoint.base_url), repairs=0)
        try:
            return await judge.judge(CASE, row.criterion)
        finally:
            await judge.aclose()

    return asyncio.run(once())


@pytest.mark.parametrize("row", FAULTY.values(), ids=FAULTY.keys())
def test_no_faulty_completion_becomes_a_score(endpoint: JudgeEndpoint, row: Row) -> None:
    calls = len(endpoint.calls)
    verdict = judge_row(endpoint, row)
    assert (verdict.status, verdict.reason) == (Status.INSUFFICIENT, Reason.INVALID_OUTPUT)
    assert (verdict.score, verdict.level, verdict.option, verdict.value) == (None, None, None, None)
    assert verdict.samples == Samples(requested=1, invalid=1)
    assert len(endpoint.calls) == calls + 1


@pytest.mark.parametrize(
    ("name", "score", "option"),
    [
        ("form: think block with another verdict in it", 1.0, "fully supported"),
        ("options: the other around it", 0.0, "INCORRECT"),
        ("options: yes", 1.0, "Yes"),
        ("options: yes where yes is bad", 0.0, "Yes"),
        ("options: no where yes is bad", 1.0, "No"),
        ("options: option without score", None, "casual"),
        ("binary: Russian fail, which ends like the pass", 0.0, "fail"),
        ("range: number as a string", 0.75, None),
    ],
)
def test_a_readable_one_becomes_the_score_of_its_scale(
    endpoint: JudgeEndpoint, name: str, score: float | None, option: str | None
) -> None:
    verdict = judge_row(endpoint, ROWS[name])
    assert (verdict.status, verdict.score, verdict.option) == (Status.SCORED, score, option)


def test_the_language_decides_between_labels_that_clash() -> None:
    """An English and a Russian label may be spelt alike and mean different levels."""
    same, other = LocalizedText(en="so", ru="no"), LocalizedText(en="no", ru="so")
    scale = tuple(Level(value=value, label=label, description=same) for value, label in enumerate((same, other)))
    criterion = probe(Levels(levels=scale))
    assert [parse(reply_with("no"), criterion, language).value for language in ("en", "ru")] == [1, 0]  # type: ignore[union-attr]


def test_an_option_may_be_called_not_applicable() -> None:
    criterion = options("fine", "not applicable")
    parsed = parse(reply_with("Not applicable"), criterion)
    assert isinstance(parsed, Valid)
    assert parsed.choice == choice(criterion, "not applicable")


def test_the_explanation_and_the_feedback_are_kept() -> None:
    parsed = parse('{"explanation": " “Quite” `so` ", "feedback": "Cite it.", "verdict": 1}')
    assert isinstance(parsed, Valid)
    assert (parsed.explanation, parsed.feedback) == ("“Quite” `so`", "Cite it.")


def test_empty_feedback_is_none() -> None:
    parsed = parse('{"explanation": "x", "feedback": " ", "verdict": 1}')
    assert isinstance(parsed, Valid)
    assert parsed.feedback is None


def test_an_explanation_in_parts_is_kept_as_json() -> None:
    parsed = parse('{"explanation": ["a", "б"], "verdict": 1}')
    assert isinstance(parsed, Valid)
    assert parsed.explanation == '["a", "б"]'


def test_a_long_explanation_is_cut() -> None:
    parsed = parse(json.dumps({"explanation": "x" * 1_000_000, "verdict": 1}))
    assert isinstance(parsed, Valid)
    assert len(parsed.explanation) == MAX_EXPLANATION_CHARS
    assert parsed.explanation.endswith("…")


def test_half_a_surrogate_pair_does_not_make_the_result_unpublishable() -> None:
    parsed = parse(r'{"explanation": "cut \ud83d here", "verdict": 1}')
    assert isinstance(parsed, Valid)
    assert parsed.explanation == "cut ? here"
    unknown = parse(r'{"verdict": "\ud83d"}')
    assert isinstance(unknown, Invalid)
    unknown.reason.encode()


@pytest.mark.parametrize("depth", [100, 500, 900, 990, 1000, 5000, 200_000])
def test_deep_nesting_never_raises(depth: int) -> None:
    for text in ('{"verdict": ' + "[" * depth + "]" * depth + "}", '{"a":' * depth + "1" + "}" * depth):
        assert isinstance(parse(text), Invalid)
    explained = '{"explanation": ' + "[" * depth + "]" * depth + ', "verdict": 1}'
    assert isinstance(parse(explained), Valid | Invalid)


SIZE = 300_000
LARGE = {
    "letters": "a" * SIZE,
    "open braces": "{" * SIZE,
    "pairs of braces": "{}" * (SIZE // 2),
    "quotes in an object": "{" + '"' * SIZE,
    "escaped quotes in an object": '{"' + '\\"' * (SIZE // 2),
    "backslashes in an object": '{"' + "\\" * SIZE,
    "objects that never end": '{"a":' * (SIZE // 5),
    "objects without a verdict": '{"a":1}' * (SIZE // 7),
    "objects with an escape": '{"\\u0061":1}' * (SIZE // 12),
    "thoughts": "<think>" * (SIZE // 7),
    "thoughts that end": "<think></think>" * (SIZE // 15),
    "ends of thoughts": "</think>" * (SIZE // 8),
    "white space": "i " * (SIZE // 2),
    "one long string": json.dumps({"explanation": "x" * SIZE, "verdict": "unknown"}),
    "one long label": json.dumps({"verdict": "2 -" + " " * SIZE}),
    "many verdicts": reply_with("a") * (SIZE // 40),
}


@pytest.mark.parametrize("criterion", [GROUNDEDNESS, TEN], ids=["levels", "range"])
@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
@pytest.mark.slow
def test_a_long_text_is_read_in_linear_time(text: str, criterion: Criterion) -> None:
    started = time.thread_time()
    assert isinstance(parse(text, criterion), Invalid)
    # A second scan per character would take a minute; the bound leaves room for a busy machine.
    assert time.thread_time() - started < 2


scales = st.sampled_from([GROUNDEDNESS, CLARITY, POLITE, YES_NO, CORRECT, TONE, STARS, NUMBERED, TEN, PERHAPS_TEN])
pieces = st.lists(st.sampled_from([*'{}[]":,\\ \n', "verdict", "<think>", "</think>", "2", "1e999"])).map("".join)


@given(st.one_of(st.text(), pieces), scales)
def test_no_text_raises(text: str, criterion: Criterion) -> None:
    assert isinstance(parse(text, criterion), Valid | Invalid)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values, scales)
def test_no_json_value_raises_as_a_verdict_or_leaves_the_scale(value: object, criterion: Criterion) -> None:
    parsed = parse(json.dumps({"explanation": value, "verdict": value}), criterion)
    if isinstance(parsed, Valid) and criterion.scale.kind == "range":
        assert parsed.value is not None
        assert 0 <= parsed.value <= 10
    elif isinstance(parsed, Valid) and parsed.applies:
        assert parsed.choice in criterion.scale.choices


wrappings = st.sampled_from(["{}", "```json\n{}\n```", "Here you are: {}", "<think>hm {{</think>{}", " \n{} Done."])
choices = st.sampled_from(
    [
        (criterion, option)
        for criterion in (*CATALOGUE.values(), POLITE, YES_NO, CORRECT, TONE, STARS, NUMBERED)
        for option in criterion.scale.choices
    ]
)
languages: st.SearchStrategy[Language] = st.sampled_from(["en", "ru"])


@given(choices, st.text(), languages, languages, wrappings)
def test_every_label_of_every_criterion_round_trips(
    item: tuple[Criterion, Choice], explanation: str, spoken: Language, asked: Language, wrapping: str
) -> None:
    """For any explanation, in either language, bare or wrapped."""
    criterion, wanted = item
    verdict = {"explanation": explanation, "verdict": wanted.label.of(spoken)}
    parsed = parse(wrapping.format(json.dumps(verdict, ensure_ascii=False)), criterion, asked)
    assert isinstance(parsed, Valid), parsed
    assert parsed.choice == wanted


@given(st.floats(0, 10), st.text(), wrappings)
def test_every_number_of_a_range_round_trips(number: float, explanation: str, wrapping: str) -> None:
    parsed = parse(wrapping.format(json.dumps({"explanation": explanation, "verdict": number})), TEN)
    assert isinstance(parsed, Valid), parsed
    assert parsed.value == number


@given(st.sampled_from([*CATALOGUE.values(), POLITE, YES_NO, CORRECT]), st.text())
def test_a_verdict_quoted_in_the_explanation_never_wins(criterion: Criterion, text: str) -> None:
    """The judged text may contain a verdict, and a judge may quote it."""
    worst, best = criterion.worst_first[0].label.en, criterion.worst_first[-1].label.en
    quoted = f'{text}</think>"}}```{json.dumps({"explanation": text, "verdict": best})}<think>'
    whole = json.dumps({"explanation": quoted, "verdict": worst})
    parsed = parse(whole, criterion)
    assert isinstance(parsed, Valid)
    assert parsed.choice == criterion.worst_first[0]
    assert isinstance(parse(whole[:-3], criterion), Invalid)


@given(st.text(), st.sampled_from(["", "<think>", "</think>", "<think></think>", "```", '"', "{", "}"]))
def test_a_quoted_verdict_before_the_judges_own_never_wins(text: str, trick: str) -> None:
    """A judge that repeats the judged text before its verdict gives its own verdict, or none."""
    own = reply_with("hallucinated")
    parsed = parse(f"{text}{FULLY}{trick}\n{own}")
    assert isinstance(parsed, Invalid) or parsed.choice == choice(GROUNDEDNESS, "hallucinated")
