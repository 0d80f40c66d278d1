"""The shipped catalogues, finding a criterion in them, and files of the user's own criteria."""

import re
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.criteria.catalogue import (
    CATALOGUES,
    CriteriaError,
    UnknownCriterionError,
    criteria_of,
    criterion_of,
    dump_criteria,
    find_criterion,
    load_catalogue,
    load_criteria,
)
from judges.criteria.criterion import Criterion
from judges.criteria.problems import Problem
from judges.criteria.scale import LANGUAGES, PASS_FAIL, Bounds, Level, Levels, Option, Options, PassFail
from judges.llm.prompts.direct import direct_messages
from judges.llm.prompts.layout import visible_fields
from judges.scripted import ScriptedJudge
from judges.values.interaction import Case, FieldValue, Interaction, Language, case_of

NAMES = {
    "rag": "answer_relevance clarity completeness conciseness groundedness harmfulness",
    "aspects": "harmlessness conciseness coherence completeness factuality",
    "answer": "context_relevance correctness instruction_following refusal reasoning_quality confidence_fit "
    "actionability false_premise",
    "retrieval": "context_noise context_agreement citation_accuracy source_naming abstention recency "
    "context_sufficiency context_precision context_recall",
    "safety": "toxicity social_bias violence profanity unethical_behaviour jailbreak self_harm sexual_content "
    "personal_data cyber_harm unqualified_advice manipulation instruction_leak",
    "writing": "coherence fluency consistency professional_tone empathy translation_quality plain_language directness "
    "formatting",
    "summary": "informativeness relevance fluency coherence faithfulness compression neutrality",
    "dialogue": "memory clarification language_match no_repetition steadfastness no_contradiction",
    "agent": "tool_choice tool_arguments result_use goal_reached needless_calls confirmed_action",
    "code": "task_fit readability security error_handling",
}
EXAMPLES = yaml.load(Path(__file__).with_name("catalogue_examples.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
OTHER_TEXTS = {"summary", "translation", "source", "calls", "results", "tools"}
"""Fields of texts that a RAG service does not log."""

SHIPPED = {f"{source}.{name}": criterion for source in CATALOGUES for name, criterion in load_catalogue(source).items()}

every_criterion = pytest.mark.parametrize("criterion", SHIPPED.values(), ids=SHIPPED.keys())
every_risk = pytest.mark.parametrize("criterion", load_catalogue("safety").values(), ids=load_catalogue("safety"))


# What ships


def test_the_catalogues_have_the_published_criteria_in_order() -> None:
    assert {name: " ".join(load_catalogue(name)) for name in CATALOGUES} == NAMES
    assert tuple(NAMES) == CATALOGUES


def test_every_catalogue_in_the_package_is_listed() -> None:
    files = [file.name for file in resources.files("judges.criteria.catalogue").iterdir()]
    assert {name.removesuffix(".yaml") for name in files if name.endswith(".yaml")} == {*CATALOGUES}


def test_a_catalogue_is_read_once_and_cannot_be_changed() -> None:
    rag = load_catalogue("rag")
    assert load_catalogue("rag") is rag
    with pytest.raises(TypeError):
        rag["clarity"] = rag["groundedness"]  # type: ignore[index]


def test_an_unknown_catalogue_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"unknown catalogue 'no-such'; expected one of rag, aspects, answer, retrieval, safety"
    ):
        load_catalogue("no-such")


def wordings(value: object) -> list[dict[str, str]]:
    """Return every text of a dumped criterion, at any depth; the fields of an example are in one language only."""
    if isinstance(value, dict):
        if value.keys() == {"en", "ru"}:
            return [value]
        return [wording for key, part in value.items() if key != "fields" for wording in wordings(part)]
    return [wording for part in value for wording in wordings(part)] if isinstance(value, list) else []


@every_criterion
def test_every_wording_is_in_english_and_in_russian(criterion: Criterion) -> None:
    texts = wordings(criterion.model_dump(mode="json"))
    assert len(texts) >= 5
    for wording in texts:
        assert wording["en"].isascii()
        assert re.search("[а-яё]", wording["ru"].lower()), wording
        assert not re.search("[a-z]", wording["ru"].lower()), wording


@every_criterion
def test_prompts_stay_short(criterion: Criterion) -> None:
    """A model reads all of this for every record."""
    for wording in wordings(criterion.model_dump(mode="json")):
        assert max(map(len, wording.values())) <= 130, wording


@every_criterion
def test_every_criterion_says_what_to_ignore_and_asks_one_question(criterion: Criterion) -> None:
    assert criterion.ignore is not None
    assert criterion.ignore.en.startswith("Ignore ")
    assert criterion.ignore.ru.startswith("Не учитывайте")
    for asked in (criterion.question.en, criterion.question.ru):
        assert asked.endswith("?")
        assert asked.count("?") == 1


@every_criterion
def test_every_scale_runs_from_0_to_1(criterion: Criterion) -> None:
    if criterion.ranked:
        assert criterion.scale.bounds == (0.0, 1.0)
        return
    scores = [criterion.score(choice) for choice in criterion.worst_first]
    assert len(scores) == len(criterion.scale.choices) >= 2
    assert (scores[0], scores[-1]) == (0.0, 1.0)


@every_criterion
def test_an_interaction_with_a_reference_has_the_fields_that_are_shown(criterion: Criterion) -> None:
    whole = Interaction.model_validate(
        {
            "id": "i1",
            "question": "q",
            "answer": "a",
            "reference": "r",
            "contexts": [{"text": "c"}],
            "history": [{"role": "user", "text": "h"}],
        }
    )
    of_other_texts = OTHER_TEXTS & {criterion.to_evaluate, *(criterion.context or ())}
    assert set(criterion.missing(case_of(whole))) == of_other_texts
    assert set(criterion.unmet(case_of(whole))) <= of_other_texts


def test_aspects_pass_or_fail() -> None:
    assert {criterion.scale.kind for criterion in load_catalogue("aspects").values()} == {"binary"}


@every_risk
def test_for_a_risk_yes_is_the_worst_and_it_is_worded_as_a_statement(criterion: Criterion) -> None:
    yes, no = (criterion.scale.find(label, "en") for label in ("Yes", "No"))
    assert yes is not None
    assert no is not None
    assert (criterion.score(yes), criterion.score(no)) == (0.0, 1.0)
    assert (criterion.scale.find("да", "ru"), criterion.scale.find("нет", "ru")) == (yes, no)
    assert criterion.risk is not None
    assert criterion.risk.en.endswith(".")


def test_harm_is_worded_as_a_risk_wherever_it_is_judged() -> None:
    assert {name for name, criterion in SHIPPED.items() if criterion.risk} == {
        "rag.harmfulness",
        "aspects.harmlessness",
        "answer.context_relevance",
        *(f"safety.{name}" for name in load_catalogue("safety")),
    }


def test_some_criteria_have_the_five_levels_that_rubric_judges_need() -> None:
    five = [
        name
        for name, criterion in SHIPPED.items()
        if isinstance(criterion.scale, Levels) and len(criterion.scale.levels) == 5
    ]
    assert five == ["rag.clarity", "answer.reasoning_quality", "writing.translation_quality", "summary.informativeness"]


def test_complying_is_scored_above_refusing() -> None:
    refusal = find_criterion("refusal")
    assert [(choice.label.en, refusal.score(choice)) for choice in refusal.worst_first] == [
        ("refusal", 0.0),
        ("compliance", 1.0),
    ]


@pytest.mark.parametrize(
    ("name", "to_evaluate", "context", "needs"),
    [
        ("context_relevance", "contexts", ("question",), ("contexts",)),
        ("correctness", "answer", ("question", "reference"), ("reference",)),
        ("jailbreak", "question", (), ()),
        ("translation_quality", "translation", ("source",), ()),
        ("informativeness", "summary", ("source",), ()),
        ("factuality", "answer", None, ()),
    ],
)
def test_criteria_about_other_fields_than_the_answer_show_the_right_ones(
    name: str, to_evaluate: str, context: tuple[str, ...] | None, needs: tuple[str, ...]
) -> None:
    criterion = find_criterion(name)
    assert (criterion.to_evaluate, criterion.context, criterion.needs) == (to_evaluate, context, needs)


def test_some_criteria_have_examples_with_verdicts_on_both_sides() -> None:
    verdicts = {
        name: [criterion.scale.find(str(example.verdict), "en") for example in criterion.examples]
        for name, criterion in SHIPPED.items()
        if len(criterion.examples) > 1
    }
    assert set(verdicts) == {"answer.refusal", "safety.social_bias", "safety.jailbreak"}
    for name, choices in verdicts.items():
        assert {SHIPPED[name].score(choice) for choice in choices if choice} == {0.0, 1.0}


# A good and a bad example of each


def example_of(name: str, side: str, language: Language) -> tuple[Case, str]:
    example = EXAMPLES[name]
    fields = {field: as_field(value) for field, value in {**example["shown"], **example[side]["fields"]}.items()}
    return Case(id=f"{name} {side}", fields=fields, language=language), example[side]["verdict"]


def as_field(value: str | list[str]) -> FieldValue:
    return value if isinstance(value, str) else tuple(value)


def test_every_shipped_criterion_has_examples_and_no_other_has() -> None:
    assert EXAMPLES.keys() == SHIPPED.keys()
    assert len(SHIPPED) >= 63


@pytest.mark.parametrize("name", SHIPPED)
def test_a_good_example_has_the_best_verdict_and_a_bad_one_a_worse(name: str) -> None:
    criterion, scores = SHIPPED[name], {}
    for side in ("good", "bad"):
        case, verdict = example_of(name, side, "en")
        assert not criterion.missing(case)
        assert not criterion.unmet(case)
        [result] = ScriptedJudge({criterion.name: verdict}).evaluate([case], criterion)
        assert result.status == "scored", result.detail
        scores[side] = result.score
    assert scores["good"] == 1.0 > (scores["bad"] or 0.0)
    good, bad = (example_of(name, side, "en")[0].fields for side in ("good", "bad"))
    assert good != bad


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", SHIPPED)
def test_the_prompt_for_an_example_builds_in_both_languages_and_shows_it_whole(name: str, language: Language) -> None:
    criterion = SHIPPED[name]
    for side in ("good", "bad"):
        case, _verdict = example_of(name, side, language)
        _system, user = direct_messages(case, criterion)
        assert criterion.question.of(language) in user.content
        assert all(choice.label.of(language) in user.content for choice in criterion.scale.choices)
        assert all(text in user.content for field in visible_fields(case, criterion) for text in case.items(field))


# Finding one


@pytest.mark.parametrize("name", SHIPPED)
def test_a_qualified_name_finds_its_criterion(name: str) -> None:
    assert find_criterion(name) is SHIPPED[name]


def test_a_bare_name_is_enough_if_only_one_catalogue_has_it() -> None:
    assert find_criterion("toxicity") is SHIPPED["safety.toxicity"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("coherence", "in several catalogues; choose one of aspects.coherence, writing.coherence, summary.coherence"),
        ("completeness", "in several catalogues; choose one of rag.completeness, aspects.completeness"),
        ("toxcity", "unknown criterion 'toxcity'; did you mean safety.toxicity?"),
        ("rag.claritty", "did you mean rag.clarity?"),
        ("rag.toxicity", "did you mean safety.toxicity"),
        ("Toxicity", "did you mean safety.toxicity?"),
        ("zzz", "unknown criterion 'zzz'; expected one of rag.answer_relevance, rag.clarity, "),
        ("", "expected one of rag.answer_relevance"),
    ],
)
def test_an_unknown_or_ambiguous_name_is_an_error_with_suggestions(name: str, problem: str) -> None:
    with pytest.raises(UnknownCriterionError, match=re.escape(problem)):
        find_criterion(name)


# Values accepted as a criterion


@pytest.mark.parametrize("written", ["safety.toxicity", "toxicity", " toxicity "])
def test_a_name_is_the_shipped_criterion(written: str) -> None:
    assert criterion_of(written) is SHIPPED["safety.toxicity"]


@pytest.mark.parametrize("written", ["Is it polite?", "Polite?", "polite.", "Toxicity", "so-so", "вежливо"])
def test_anything_else_is_a_question_on_the_given_scale(written: str) -> None:
    assert criterion_of(written) == Criterion.of(written)
    assert criterion_of(written, PASS_FAIL) == Criterion.pass_fail(written)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("toxcity", "aspect: write a question in words, or the name of a criterion: .*did you mean safety.toxicity?"),
        ("rag.claritty", "did you mean rag.clarity?"),
        ("completeness", "in several catalogues; choose one of rag.completeness, aspects.completeness"),
        ("rag", r"'rag' is a catalogue; pass load_catalogue\('rag'\)"),
    ],
)
def test_an_unknown_name_is_never_asked_as_a_question(written: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        criterion_of(written, argument="aspect")


@pytest.mark.parametrize("value", [5, None, ["Is it so?"], SHIPPED])
def test_a_value_that_is_not_a_criterion_is_refused_by_its_argument(value: Any) -> None:
    with pytest.raises(TypeError, match="aspect must be a Criterion, a question in words or the name of a built-in"):
        criterion_of(value, argument="aspect")


def test_a_mapping_of_criteria_means_its_values() -> None:
    assert criteria_of({"any": "toxicity", "key": "Is it so?"}) == criteria_of(["safety.toxicity", "Is it so?"])
    assert criteria_of(load_catalogue("rag")) == list(load_catalogue("rag").values())


@pytest.mark.parametrize("values", [5, None, "rag.clarity", SHIPPED["rag.clarity"], b"clarity"])
def test_several_criteria_are_a_list_or_a_mapping(values: Any) -> None:
    with pytest.raises(TypeError, match=r"criterion must be a Criterion, .* or a list or mapping of these"):
        criteria_of(values)


# Custom files

Read = Callable[[Any], Mapping[str, Criterion]]

LEVELS = {"levels": [{"value": value, "label": f"l{value}", "description": f"d{value}"} for value in range(3)]}
MINE: dict[str, Any] = {"name": "mine", "title": "Mine", "question": "Is it mine?", "scale": LEVELS}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Load a text, bytes or data as a file."""
    path = tmp_path_factory.mktemp("criteria") / "my.yaml"

    def load_content(content: Any) -> Mapping[str, Criterion]:
        if not isinstance(content, bytes):
            content = (content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True)).encode()
        path.write_bytes(content)
        return load_criteria(path)

    return load_content


def problems(read: Read, content: Any) -> list[str]:
    """Return the reported problems of a content, without the name of the file."""
    with pytest.raises(CriteriaError) as caught:
        read(content)
    assert str(caught.value).splitlines() == [f"{caught.value.file}: {problem}" for problem in caught.value.problems]
    return [str(problem) for problem in caught.value.problems]


def with_scale(scale: Any, **more: Any) -> dict[str, Any]:
    return {"criteria": [{**MINE, "scale": scale, **more}]}


def test_a_file_gives_its_criteria_by_name_in_their_order(read: Read) -> None:
    criteria = read({"criteria": [{**MINE, "name": "zeta"}, {**MINE, "name": "alpha", "higher_is": "worse"}]})
    assert list(criteria) == ["zeta", "alpha"]
    assert criteria["alpha"] == Criterion.model_validate({**MINE, "name": "alpha", "higher_is": "worse"})
    with pytest.raises(TypeError):
        criteria["zeta"] = criteria["alpha"]  # type: ignore[index]


def test_a_label_that_older_yaml_reads_as_a_boolean_is_text(read: Read) -> None:
    text = """
criteria:
  - name: polite
    title: Polite
    question: Is it polite?
    scale:
      options:
        - {label: yes, score: 1}
        - {label: no, score: 0}
    examples:
      - {fields: {answer: Thank you}, verdict: yes}
"""
    assert [choice.label.ru for choice in read(text)["polite"].scale.choices] == ["yes", "no"]


@every_criterion
def test_a_criterion_written_to_a_file_is_read_back_as_the_same(read: Read, criterion: Criterion) -> None:
    assert read(dump_criteria([criterion])) == {criterion.name: criterion}


def test_fields_of_an_example_are_written_as_they_are(read: Read) -> None:
    fields = {"answer": "a", "en": "x", "ru": "x", "needs": "", "scale": ["1", "no"]}
    [criterion] = read(with_scale(LEVELS, examples=[{"fields": fields, "verdict": "l1"}])).values()
    assert read(dump_criteria([criterion])) == {"mine": criterion}


ROOT_PROBLEMS = [
    ("", ["criteria: is required"]),
    ("# nothing", ["criteria: is required"]),
    ("[]", ["must be a mapping, not a list"]),
    ("5", ["must be a mapping, not a single value"]),
    ("criteria:", ["criteria: must be a list, not empty"]),
    ("criteria: []", ["criteria: must not be empty"]),
    ("criteria: {}", ["criteria: must be a list, not a mapping"]),
    ("criteria: [5]", ["criteria[0]: must be a mapping, not a single value"]),
    (
        {"criteria": [MINE], "criterias": []},
        ["criterias: unknown key; did you mean 'criteria'?"],
    ),
    (
        "a: [",
        ["line 1, column 5: is not valid YAML: while parsing a flow node that starts in line 1: expected the node"],
    ),
    ("a: *b", ["line 1, column 4: is not valid YAML: found undefined alias"]),
    (b"a: \xff", ["line 1: is not UTF-8 text"]),
    ("a: \x00", ["line 1, column 4: has a character that YAML does not allow"]),
    ("#" * 300_000, ["is larger than 262144 bytes"]),
    ("a: 1\n" * 10_100, ["has more than 10000 values"]),
    ("[" * 40 + "]" * 40, ["is nested deeper than 32 levels"]),
]


@pytest.mark.parametrize(("content", "expected"), ROOT_PROBLEMS)
def test_a_file_that_is_not_a_list_of_criteria_is_reported(read: Read, content: Any, expected: list[str]) -> None:
    reported = problems(read, content)
    assert len(reported) == len(expected)
    for problem, begun in zip(reported, expected, strict=True):
        assert problem.startswith(begun)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(CriteriaError, match=r"none\.yaml: cannot be read: no such file or directory"):
        load_criteria(tmp_path / "none.yaml")
    with pytest.raises(CriteriaError, match="cannot be read: is a directory"):
        load_criteria(tmp_path)


CRITERION_PROBLEMS = [
    ({"name": "My Own"}, "name: must be 1 to 64 lower-case letters, digits and '_', starting with a letter"),
    ({"name": 5}, "name: must be text, not 5; put it in quotes"),
    ({"title": None}, "title: must be text, or a mapping with the keys en and ru, not empty"),
    ({"title": 5}, "title: must be text, or a mapping with the keys en and ru, not 5; put it in quotes"),
    ({"title": ["a"]}, "title: must be text, or a mapping with the keys en and ru, not a list"),
    ({"title": {"en": "a"}}, "title.ru: is required"),
    ({"title": {"en": "a", "ru": "б", "de": "c"}}, "title.de: unknown key; expected one of: en, ru"),
    ({"title": {"en": "a", "ru": 5}}, "title.ru: must be text, not 5; put it in quotes"),
    ({"question": "  "}, "question: must not be empty"),
    ({"ignore": ""}, "ignore: must not be empty"),
    ({"to_evaluate": ""}, "to_evaluate: must not be empty"),
    ({"context": "question"}, "context: must be a list, not text"),
    ({"context": ["a", 5]}, "context[1]: must be text, not 5; put it in quotes"),
    ({"context": ["answer"]}, "context: must not repeat 'answer', the field under evaluation"),
    ({"context": ["a", "a"]}, "context: must name each field once"),
    ({"higher_is": "bigger"}, "higher_is: must be 'better' or 'worse', not 'bigger'"),
    ({"higer_is": "worse"}, "higer_is: unknown key; did you mean 'higher_is'?"),
    (
        {"colour": "red"},
        "colour: unknown key; expected one of: name, title, question, ignore, scale, to_evaluate, context",
    ),
    (
        {
            "not_applicable": "Where it claims nothing.",
            "scale": {"options": [{"label": "a"}, {"label": "Not applicable"}]},
        },
        "scale.options[1].label: must not be 'Not applicable', which `not_applicable` reserves",
    ),
    ({"examples": [{"fields": {}, "verdict": "l0"}]}, "examples[0].fields: must have 'answer', the field under eval"),
    (
        {"examples": [{"fields": {"answer": "a"}, "verdict": "l9"}]},
        "examples[0].verdict: must be one of the labels 'l0', 'l1', 'l2', not 'l9'",
    ),
    ({"examples": [{"fields": {"answer": "a"}}]}, "examples[0].verdict: is required"),
    (
        {"examples": [{"fields": {"answer": "a"}, "verdict": [1]}]},
        "examples[0].verdict: must be a label or a number, not a list",
    ),
    (
        {"examples": [{"fields": {"answer": 5}, "verdict": "l0"}]},
        "examples[0].fields.answer: must be text or a list of texts, not 5",
    ),
    (
        {"examples": [{"fields": {"answer": {"str": "a"}}, "verdict": "l0"}]},
        "examples[0].fields.answer: must be text or a list of texts, not a mapping",
    ),
    (
        {"examples": [{"fields": {"answer": ["a", 5]}, "verdict": "l0"}]},
        "examples[0].fields.answer[1]: must be text, not 5; put it in quotes",
    ),
    (
        {"examples": [{"fields": {"answer": "a"}, "verdict": "l0", "why": "b"}]},
        "examples[0].why: unknown key; expected ",
    ),
]


@pytest.mark.parametrize(("changes", "problem"), CRITERION_PROBLEMS)
def test_a_problem_of_a_criterion_is_reported_at_its_key(read: Read, changes: dict[str, Any], problem: str) -> None:
    [problem_text] = problems(read, {"criteria": [{**MINE, "name": "first"}, {**MINE, **changes}]})
    assert problem_text.startswith(f"criteria[1].{problem}")


def levels(*items: dict[str, Any]) -> dict[str, Any]:
    return {
        "levels": [
            {"value": index, "label": f"l{index}", "description": "d", **item} for index, item in enumerate(items)
        ]
    }


SCALE_PROBLEMS = [
    (levels({}, {}, {"label": ""}), ".levels[2].label: must not be empty"),
    (levels({}, {}, {"label": 3}), ".levels[2].label: must be text, or a mapping with the keys en and ru, not 3; put"),
    (levels({}, {}, {"label": "L0"}), ".levels[2].label: must be distinct; 'l0' is listed twice"),
    (levels({}, {"value": "one"}), ".levels[1].value: must be a whole number, not 'one'"),
    (levels({}, {"value": 0.5}), ".levels[1].value: must be a whole number, not 0.5"),
    (levels({}, {"value": 0}), ".levels: must have distinct values in rising order, not [0, 0]"),
    (levels({}, {"descripton": "d"}), ".levels[1].descripton: unknown key; did you mean 'description'?"),
    (levels({}), ".levels: must have at least 2 items"),
    ({"levels": {}}, ".levels: must be a list, not a mapping"),
    ({"levels": ["bad", {"value": 1, "label": "a", "description": "d"}]}, ".levels[0]: must be a mapping, not text"),
    ({"binary": "good"}, ".binary: must be a mapping, not text"),
    ({"binary": {"passes": "a"}}, ".binary.fails: is required"),
    ({"range": {"min": 1, "max": 1}}, ".range: min must be below max, not 1 and 1"),
    ({"range": {"min": "low", "max": 1}}, ".range.min: must be a number, not 'low'"),
    ({"range": {"min": 0, "max": float("inf")}}, ".range.max: must be a finite number, not inf"),
    ({"range": {"min": 0, "max": 1, "step": 1}}, ".range.step: unknown key; expected one of: min, max, low, high"),
    ({"options": [{"label": "a", "score": 1}, {"label": "b"}]}, ".options: must either all have a score, or none"),
    (
        {"options": [{"label": "a", "score": 1}, {"label": "b", "score": 1}]},
        ".options: must not all have the same score (1)",
    ),
    ({"options": [{"label": "a"}, {"label": "b", "score": True}]}, ".options[1].score: must be a number, not true"),
    (
        {"option": []},
        ": must have exactly one of the keys levels, binary, range and options; did you mean 'options' instead of",
    ),
    ({"rnge": {"min": 0, "max": 1}}, ": must have exactly one of the keys levels, binary, range and options; did you"),
    ({"stars": 5}, ": must have exactly one of the keys levels, binary, range and options"),
    ({**levels({}, {}), "range": {"min": 0, "max": 1}}, ": must have exactly one of the keys levels, binary, range"),
    ({**levels({}, {}), "max": 1}, ".max: unknown key; expected one of: levels"),
    ({**levels({}, {}), "kind": "options"}, ".kind: must be 'levels', not 'options'"),
    ("levels", ": must have exactly one of the keys levels, binary, range and options"),
]


@pytest.mark.parametrize(("scale", "problem"), SCALE_PROBLEMS)
def test_a_problem_of_a_scale_is_reported_at_its_key(read: Read, scale: Any, problem: str) -> None:
    [problem_text] = problems(read, with_scale(scale))
    assert problem_text.startswith(f"criteria[0].scale{problem}")


def test_two_criteria_of_one_name_are_refused(read: Read) -> None:
    assert problems(read, {"criteria": [MINE, {**MINE, "name": "other"}, MINE]}) == [
        "criteria[2].name: must be distinct; criteria[0] is also named 'mine'"
    ]


def test_a_repeated_key_is_refused_with_its_lines(read: Read) -> None:
    text = dump_criteria([Criterion.model_validate(MINE)])
    assert problems(read, text.replace("  title: Mine\n", "  title: Mine\n  title: Yours\n")) == [
        "criteria[0].title: is listed twice, in lines 3 and 4"
    ]


def test_a_tag_is_refused_without_further_errors_about_its_value(read: Read) -> None:
    text = dump_criteria([Criterion.model_validate(MINE)])
    assert problems(read, text.replace("title: Mine", "title: !!python/name:os.system ''")) == [
        "criteria[0].title: has a YAML tag (a word that starts with !), and tags are not allowed here; "
        "remove it, or put the value in quotes"
    ]


def test_all_problems_are_reported_together_by_criterion(read: Read) -> None:
    content = {
        "version": 2,
        "criteria": [
            {**MINE, "name": "One", "scale": levels({}, {"value": "x"})},
            {**MINE, "higher_is": "worse", "context": ["answer"], "scale": {"binary": {"passes": "a", "fails": "b"}}},
            {**MINE, "weight": 1, "scale": {"range": {"min": 1, "max": 1, "step": 1}}},
            {"name": "empty"},
        ],
    }
    reported = problems(read, content)
    assert [problem.partition(":")[0] for problem in reported] == [
        "version",
        "criteria[0].name",
        "criteria[0].scale.levels[1].value",
        "criteria[1].context",
        "criteria[1].higher_is",
        "criteria[2].name",
        "criteria[2].scale.range.step",
        "criteria[2].weight",
        "criteria[2].scale.range",
        "criteria[3].title",
        "criteria[3].question",
        "criteria[3].scale",
    ]


NOISE = re.compile(r"pydantic|https?://|Value error|Input should|\[type=|tagged-union|function-|tuple\[|constrained")

KEYS = {
    *("criteria", "kind", "str", "en", "ru", "verdict", "fields"),
    *(
        name
        for section in (Criterion, Level, Levels, PassFail, Bounds, Option, Options)
        for name in section.model_fields
    ),
}
keys = st.sampled_from(sorted(KEYS))
texts = st.sampled_from(["", " ", "levels", "worse", "answer"])
values = st.none() | st.booleans() | st.integers() | st.floats() | texts
trees = st.recursive(
    values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@settings(deadline=None, max_examples=80)
@given(st.dictionaries(keys, trees, max_size=6), st.dictionaries(keys, trees, max_size=3))
def test_any_tree_gives_criteria_or_problems_in_plain_words(
    read: Read, changes: dict[str, Any], scale: dict[str, Any]
) -> None:
    content = {"criteria": [{**MINE, **changes}, {**MINE, "name": "other", "scale": {**LEVELS, **scale}}]}
    for problem in reported_problems(read, content):
        assert problem.path.startswith("criteria[")
        assert not NOISE.search(str(problem))
        assert "\n" not in str(problem)
        assert "is not valid" not in problem.message


def reported_problems(read: Read, content: Any) -> tuple[Problem, ...]:
    """Return the problems of a content; every other exception fails the test."""
    try:
        read(content)
    except CriteriaError as error:
        return error.problems
    return ()
