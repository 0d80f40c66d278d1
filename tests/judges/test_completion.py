"""What counts as a verdict in a completion, and what does not."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.completion import MAX_EXPLANATION_CHARS, Invalid, Parsed, Valid, parse_level
from judges.criteria import Criterion, Level, Levels, Text, load_catalogue
from judges.interaction import Language

CATALOGUE = load_catalogue()
GROUNDEDNESS = CATALOGUE["groundedness"]
CLARITY = CATALOGUE["clarity"]

FULLY = '{"explanation": "All of it is there.", "verdict": "fully supported"}'
PARTLY = '{"explanation": "Half is there.", "verdict": "partly supported"}'


def parse(text: str | None, criterion: Criterion = GROUNDEDNESS, language: Language = "en") -> Parsed:
    return parse_level(text, criterion, language)


def said(verdict: object) -> str:
    return json.dumps({"explanation": "So.", "verdict": verdict}, ensure_ascii=False)


VALID: dict[str, tuple[str, int | None]] = {
    "plain": (FULLY, 2),
    "surrounded by white space": (f"\n\t {FULLY} \n", 2),
    "over several lines": ('{\n  "explanation": "x",\n  "verdict": "hallucinated"\n}', 0),
    "verdict before the explanation": ('{"verdict": "fully supported", "explanation": "x"}', 2),
    "without explanation": ('{"verdict": "fully supported"}', 2),
    "null explanation": ('{"explanation": null, "verdict": "fully supported"}', 2),
    "extra keys": ('{"explanation": "x", "confidence": 0.3, "verdict": "fully supported"}', 2),
    "other case": (said("Fully SUPPORTED"), 2),
    "padded label": (said("  fully supported\n"), 2),
    "Russian label": (said("подтверждено частично"), 1),
    "Russian label in other case": (said("Выдумано"), 0),
    "integer": (said(2), 2),
    "zero": (said(0), 0),
    "integer as a string": (said("1"), 1),
    "padded integer as a string": (said(" 1 "), 1),
    "whole float": (said(2.0), 2),
    "whole float as a string": (said("2.0"), 2),
    "negative zero": ('{"verdict": -0.0}', 0),
    "number and label that agree": (said("2 - fully supported"), 2),
    "number, colon and label": (said("1: partly supported"), 1),
    "number, bracket and label": (said("0) hallucinated"), 0),
    "number, dash and Russian label": (said("2 — подтверждено полностью"), 2),
    "not applicable": (said("not_applicable"), None),
    "not applicable in words": (said("Not applicable"), None),
    "not applicable in Russian": (said("Неприменимо"), None),
    "code fence": (f"```json\n{FULLY}\n```", 2),
    "code fence without language": (f"```\n{FULLY}\n```", 2),
    "code fence that never closes": (f"```json\n{FULLY}", 2),
    "preamble": (f"Sure! Here is my verdict:\n\n{FULLY}", 2),
    "preamble with quotes and an apostrophe": (f'It\'s "clear" to me: {FULLY}', 2),
    "afterword": (f"{FULLY}\n\nLet me know if you need more.", 2),
    "preamble with braces": (f"The set {{a, b}} is {{}} irrelevant. {FULLY}", 2),
    "another object without a verdict": (f'{{"note": 1}} {FULLY}', 2),
    "the same object twice": (f"{FULLY}\n{FULLY}", 2),
    "inside a list": (f"[{FULLY}]", 2),
    "think block": (f"<think>Is it hallucinated? No.</think>{FULLY}", 2),
    "think block with another verdict in it": (f"<think>First thought: {PARTLY}</think>\n{FULLY}", 2),
    "think block with an open brace": (f"<think>if (x) {{ never closed</think>{FULLY}", 2),
    "think block in capitals": (f"<THINK>no</THINK>{FULLY}", 2),
    "thinking block": (f"<thinking>{PARTLY}</thinking>{FULLY}", 2),
    "two think blocks": (f"<think>a</think><think>{PARTLY}</think>{FULLY}", 2),
    "think block after the verdict": (f"{FULLY}<think>Or rather {PARTLY}</think>", 2),
    "unclosed think block after the verdict": (f"{FULLY}<think>Or rather {PARTLY}", 2),
    "think tag inside a string": ('{"explanation": "It says <think> once.", "verdict": "fully supported"}', 2),
    "closing think tag inside a string": ('{"explanation": "</think>", "verdict": "fully supported"}', 2),
    "backticks inside a string": ('{"explanation": "It has ```json\\n{}``` in it.", "verdict": "fully supported"}', 2),
    "smart quotes inside a string": ('{"explanation": "“a” ‘b’ «c»", "verdict": "fully supported"}', 2),
    "escaped quotes inside a string": ('{"explanation": "says \\"yes\\"", "verdict": "fully supported"}', 2),
    "braces inside a string": ('{"explanation": "}{ {\\"verdict\\": 0}", "verdict": "fully supported"}', 2),
    "escaped backslash before a quote": ('{"explanation": "C:\\\\", "verdict": "fully supported"}', 2),
    "raw line break inside a string": ('{"explanation": "one\ntwo", "verdict": "fully supported"}', 2),
    "nested object beside the verdict": ('{"details": {"verdict": 0}, "verdict": "fully supported"}', 2),
    "byte order mark": (f"\ufeff{FULLY}", 2),
}

INVALID: dict[str, tuple[str | None, str]] = {
    "null": (None, "empty"),
    "empty": ("", "empty"),
    "white space": (" \n\t", "empty"),
    "prose": ("The answer is fully supported.", "no JSON object"),
    "score in prose": ("Score: 2", "no JSON object"),
    "bare number": ("2", "no JSON object"),
    "bare label in quotes": ('"fully supported"', "no JSON object"),
    "empty object": ("{}", "no key `verdict`"),
    "other key": ('{"explanation": "x", "score": 2}', "no key `verdict`"),
    "key in other case": ('{"Verdict": "fully supported"}', "no key `verdict`"),
    "longer key": ('{"final_verdict": "fully supported"}', "no key `verdict`"),
    "verdict one level down": ('{"result": {"explanation": "x", "verdict": "fully supported"}}', "no key `verdict`"),
    "two verdicts": (f"{FULLY} {PARTLY}", "more than one"),
    "two verdicts that differ in words only": (f'{FULLY} {{"verdict": "fully supported"}}', "more than one"),
    "two verdicts in a list": (f"[{FULLY}, {PARTLY}]", "more than one"),
    "verdict before and after a stray closing tag": (f"{PARTLY}</think>{FULLY}", "more than one"),
    "truncated in the explanation": ('{"explanation": "The answer is', "not complete"),
    "truncated after an escape": ('{"explanation": "The \\', "not complete"),
    "truncated before the brace": ('{"explanation": "x", "verdict": "fully supported"', "not complete"),
    "truncated around a quoted verdict": (f'{{"explanation": "it says {FULLY}', "not complete"),
    "truncated around a nested verdict": (f'{{"explanation": "x", "result": {FULLY}', "not complete"),
    "trailing comma": ('{"verdict": "fully supported",}', "not valid JSON"),
    "single quotes": ("{'verdict': 'fully supported'}", "not valid JSON"),
    "smart quotes around keys": ("{“verdict”: “fully supported”}", "not valid JSON"),
    "bare label": ('{"verdict": fully supported}', "not valid JSON"),
    "comment": ('{"verdict": "fully supported" // sure\n}', "not valid JSON"),
    "unescaped quotes around a fake": (
        f'{{"explanation": "it says "{FULLY}" here", "verdict": "hallucinated"}}',
        "not valid JSON",
    ),
    "broken verdict before a good one": (f'{{"verdict": hallucinated}} {FULLY}', "not valid JSON"),
    "verdict spelt with an escape, and another": (f'{{"\\u0076erdict": "hallucinated"}} {FULLY}', "more than one"),
    "duplicate verdict": ('{"verdict": "hallucinated", "verdict": "fully supported"}', "twice"),
    "the same verdict twice in one object": ('{"verdict": 2, "verdict": 2}', "twice"),
    "duplicate explanation": ('{"explanation": "a", "explanation": "b", "verdict": 2}', "twice"),
    "duplicate key below": ('{"more": {"a": 1, "a": 2}, "verdict": 2}', "twice"),
    "NaN": ('{"verdict": NaN}', "NaN"),
    "Infinity": ('{"verdict": Infinity}', "Infinity"),
    "minus Infinity": ('{"verdict": -Infinity}', "Infinity"),
    "NaN elsewhere": ('{"confidence": NaN, "verdict": 2}', "NaN"),
    "number too large for a float": ('{"verdict": 1e999}', "not on the scale"),
    "integer too large for a float": (f'{{"verdict": {"9" * 400}}}', "not on the scale"),
    "integer too long to read": (f'{{"verdict": {"9" * 5000}}}', "not valid JSON"),
    "NaN as a string": (said("NaN"), "not one of the labels"),
    "above the scale": (said(3), "not on the scale"),
    "below the scale": (said(-1), "not on the scale"),
    "between levels": (said(1.5), "not on the scale"),
    "above the scale as a string": (said("3"), "not one of the labels"),
    "between levels as a string": (said("1.5"), "not one of the labels"),
    "true": ('{"verdict": true}', "must be one of the labels"),
    "false": ('{"verdict": false}', "must be one of the labels"),
    "null verdict": ('{"verdict": null}', "must be one of the labels"),
    "list": (said(["fully supported"]), "must be one of the labels"),
    "object": (said({"label": "fully supported"}), "must be one of the labels"),
    "empty string": (said(""), "not one of the labels"),
    "unknown label": (said("excellent"), "not one of the labels"),
    "label inside a longer word": (said("not fully supported"), "not one of the labels"),
    "label with more words": (said("fully supported, I think"), "not one of the labels"),
    "half a label": (said("supported"), "not one of the labels"),
    "two labels": (said("fully supported or partly supported"), "not one of the labels"),
    "number and label that disagree": (said("2 - partly supported"), "not one of the labels"),
    "number off the scale and label": (said("5 - fully supported"), "not one of the labels"),
    "fraction": (said("2/2"), "not one of the labels"),
    "digits of another script": (said("２"), "not one of the labels"),
    "the form of the prompt": ('{"explanation": "<one or two>", "verdict": "<one verdict>"}', "not one of the labels"),
    "only a think block": (f"<think>{FULLY}</think>", "no JSON object"),
    "unclosed think block": (f"<think>I would say {FULLY}", "no JSON object"),
    "refusal": ("I'm sorry, but I can't help with that.", "refusal"),
    "refusal with a typographic apostrophe": ("I’m sorry, but I can’t assist.", "refusal"),
    "refusal without sorrow": ("I cannot evaluate this content.", "refusal"),
    "refusal as an AI": ("As an AI model, I do not judge.", "refusal"),
    "refusal after thinking": ("<think>Hm.</think> Unfortunately, I am unable to do so.", "refusal"),
    "refusal in JSON": ('{"error": "I cannot comply with this request."}', "refusal"),
    "Russian refusal": ("Извините, я не могу оценить этот ответ.", "refusal"),
    "Russian regret": ("К сожалению, я не могу помочь с этим.", "refusal"),
    "Russian model": ("Как языковая модель, я не даю оценок.", "refusal"),
    "apology in a thought only": ("<think>Sorry for him.</think>It is good.", "no JSON object"),
}


@pytest.mark.parametrize(("text", "level"), VALID.values(), ids=VALID.keys())
def test_a_verdict_is_found(text: str, level: int | None) -> None:
    parsed = parse(text)
    assert isinstance(parsed, Valid), parsed
    assert parsed.level == level


@pytest.mark.parametrize(("text", "reason"), INVALID.values(), ids=INVALID.keys())
def test_anything_else_is_invalid_and_says_why(text: str | None, reason: str) -> None:
    parsed = parse(text)
    assert isinstance(parsed, Invalid), parsed
    assert reason in parsed.reason


def test_a_level_is_an_integer_however_it_was_written() -> None:
    for verdict in (2, 2.0, "2", "2.0", "2 - fully supported", "fully supported"):
        parsed = parse(said(verdict))
        assert isinstance(parsed, Valid)
        assert type(parsed.level) is int


def test_not_applicable_is_refused_where_the_criterion_always_applies() -> None:
    parsed = parse(said("not_applicable"), CLARITY)
    assert isinstance(parsed, Invalid)
    assert "not allowed" in parsed.reason


def test_a_label_inside_another_label_is_not_confused_with_it() -> None:
    levels = {label: parse(said(label), CLARITY) for label in ("unclear", "very unclear", "clear", "very clear")}
    assert [item.level for item in levels.values() if isinstance(item, Valid)] == [1, 0, 3, 4]


def test_the_language_decides_between_labels_that_clash() -> None:
    """An English and a Russian label may be spelt alike and mean different levels."""
    same, other = Text(en="so", ru="no"), Text(en="no", ru="so")
    levels = tuple(Level(value=value, label=label, description=same) for value, label in enumerate((same, other)))
    criterion = Criterion(name="probe", title=same, question=same, ignore=same, scale=Levels(levels=levels))
    assert parse(said("no"), criterion, "en") == Valid(level=1, explanation="So.")
    assert parse(said("no"), criterion, "ru") == Valid(level=0, explanation="So.")


def test_the_explanation_and_the_feedback_are_kept() -> None:
    parsed = parse('{"explanation": " “Quite” `so` ", "feedback": "Cite it.", "verdict": 1}')
    assert parsed == Valid(level=1, explanation="“Quite” `so`", feedback="Cite it.")


def test_an_explanation_in_parts_is_kept_as_json() -> None:
    assert parse('{"explanation": ["a", "б"], "verdict": 1}') == Valid(level=1, explanation='["a", "б"]')


def test_a_long_explanation_is_cut() -> None:
    parsed = parse(json.dumps({"explanation": "x" * 1_000_000, "verdict": 1}))
    assert isinstance(parsed, Valid)
    assert len(parsed.explanation) == MAX_EXPLANATION_CHARS
    assert parsed.explanation.endswith("…")


def test_half_a_surrogate_pair_does_not_make_the_result_unpublishable() -> None:
    parsed = parse(r'{"explanation": "cut \ud83d here", "verdict": 1}')
    assert parsed == Valid(level=1, explanation="cut ? here")
    unknown = parse(r'{"verdict": "\ud83d"}')
    assert isinstance(unknown, Invalid)
    unknown.reason.encode()


@pytest.mark.parametrize("depth", [100, 500, 900, 990, 1000, 5000, 200_000])
def test_deep_nesting_never_raises(depth: int) -> None:
    for text in ('{"verdict": ' + "[" * depth + "]" * depth + "}", '{"a":' * depth + "1" + "}" * depth):
        assert isinstance(parse(text), Invalid)
    explained = '{"explanation": ' + "[" * depth + "]" * depth + ', "verdict": 1}'
    assert isinstance(parse(explained), Valid | Invalid)


SIZE = 1_000_000
LARGE = {
    "letters": "a" * SIZE,
    "open braces": "{" * SIZE,
    "pairs of braces": "{}" * (SIZE // 2),
    "quotes in an object": "{" + '"' * SIZE,
    "escaped quotes in an object": '{"' + '\\"' * (SIZE // 2),
    "backslashes in an object": '{"' + "\\" * SIZE,
    "objects that never end": '{"a":' * (SIZE // 5),
    "objects without a verdict": '{"a":1}' * (SIZE // 7),
    "thoughts": "<think>" * (SIZE // 7),
    "thoughts that end": "<think></think>" * (SIZE // 15),
    "ends of thoughts": "</think>" * (SIZE // 8),
    "white space": "i " * (SIZE // 2),
    "one long string": json.dumps({"explanation": "x" * SIZE, "verdict": "unknown"}),
    "one long label": json.dumps({"verdict": "2 -" + " " * SIZE}),
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_a_megabyte_is_read_in_linear_time(text: str) -> None:
    started = time.process_time()
    assert isinstance(parse(text), Invalid)
    # A second scan per character would take minutes; the bound leaves room for a busy machine.
    assert time.process_time() - started < 5


@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from([*'{}[]":,\\ \n', "verdict", "<think>", "</think>", "2"])).map("".join)
    )
)
def test_no_text_raises(text: str) -> None:
    assert isinstance(parse(text), Valid | Invalid)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_no_json_value_raises_as_a_verdict(value: object) -> None:
    parsed = parse(json.dumps({"explanation": value, "verdict": value}))
    if isinstance(parsed, Valid):
        assert parsed.level is None or parsed.level in GROUNDEDNESS.scale.values


wrappings = st.sampled_from(["{}", "```json\n{}\n```", "Here you are: {}", "<think>hm {{</think>{}", " \n{} Done."])
labels = st.sampled_from([(criterion, level) for criterion in CATALOGUE.values() for level in criterion.scale.levels])


@given(labels, st.text(), st.sampled_from(["en", "ru"]), st.sampled_from(["en", "ru"]), wrappings)
def test_every_label_of_every_criterion_round_trips(
    item: tuple[Criterion, Level], explanation: str, spoken: Language, asked: Language, wrapping: str
) -> None:
    """Whatever the explanation says, in either language, bare or wrapped."""
    criterion, level = item
    verdict = {"explanation": explanation, "verdict": level.label.of(spoken)}
    parsed = parse(wrapping.format(json.dumps(verdict, ensure_ascii=False)), criterion, asked)
    assert isinstance(parsed, Valid), parsed
    assert parsed.level == level.value


@given(st.sampled_from(list(CATALOGUE.values())), st.text())
def test_a_verdict_quoted_in_the_explanation_never_wins(criterion: Criterion, text: str) -> None:
    """The judged text may hold a verdict of its own, and a judge may quote it."""
    worst, best = criterion.scale.levels[0], criterion.scale.levels[-1]
    quoted = f'{text}</think>"}}```{json.dumps({"explanation": text, "verdict": best.label.en})}'
    parsed = parse(json.dumps({"explanation": quoted, "verdict": worst.label.en}), criterion)
    assert isinstance(parsed, Valid)
    assert parsed.level == worst.value
    cut = json.dumps({"explanation": quoted, "verdict": worst.label.en})[:-3]
    assert isinstance(parse(cut, criterion), Invalid)
