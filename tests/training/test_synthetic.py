"""The synthetic records: the same for the same seed, with labels that fit their sentences."""

import random

import pytest

from judges.local.lexicon import Lexicon
from training.synthetic import changes, rewrites
from training.synthetic.changes import Scene
from training.synthetic.documents import Document, Library, read_documents
from training.synthetic.records import make_records

PASSAGES = [
    "The Golden Gate Bridge was designed by Joseph Strauss in 1937.",
    "It is painted in a colour called International Orange, which makes it visible in fog.",
    "The bridge is 2,737 metres long and has six lanes.",
    "However, the toll is higher for trucks (with three axles or more).",
    "In 2015, about 40 million vehicles crossed the bridge.",
]
OTHERS = [
    "The Akashi Kaikyo Bridge in Japan has the longest suspended span of all bridges.",
    "Engineers built it because storms often stopped the ferries between Kobe and Awaji.",
    "Its central span measures 1,991 metres after the Kobe earthquake moved the towers.",
    "Construction workers finished the deck of the Akashi crossing in September.",
]


@pytest.fixture(scope="module")
def library() -> Library:
    documents = [
        Document(source="wiki", topic="How long is the bridge?", sentences=tuple(PASSAGES)),
        Document(source="wiki", topic="How long is the bridge?", sentences=tuple(OTHERS)),
    ]
    return Library(documents, Lexicon.load())


@pytest.fixture
def scene(library: Library) -> Scene:
    return Scene(
        passages=PASSAGES, siblings=OTHERS, topic="bridge", library=library, source="wiki", excluded=frozenset({0})
    )


def test_the_same_seed_gives_the_same_records(library: Library) -> None:
    assert list(make_records(library, 20, 7)) == list(make_records(library, 20, 7))
    assert list(make_records(library, 20, 7)) != list(make_records(library, 20, 8))


def test_every_sentence_has_a_label_and_about_half_of_the_answers_are_faithful(library: Library) -> None:
    records = list(make_records(library, 300, 1))
    assert all(record.labels is not None and len(record.sentences) == len(record.labels) for record in records)
    assert all(all(sentence.strip() for sentence in record.sentences) for record in records)
    unsupported = sum(record.is_unsupported for record in records)
    assert 0.35 < unsupported / len(records) < 0.65


@pytest.mark.parametrize(
    ("rule", "sentence", "rewritten"),
    [
        (rewrites.drop_opener, PASSAGES[3], "The toll is higher for trucks (with three axles or more)."),
        (rewrites.drop_parentheses, PASSAGES[3], "However, the toll is higher for trucks."),
        (rewrites.move_time, PASSAGES[4], "About 40 million vehicles crossed the bridge in 2015."),
        (rewrites.respell_numbers, "It has six lanes.", "It has 6 lanes."),
        (rewrites.respell_numbers, "Sales rose by 5% there.", "Sales rose by 5 percent there."),
        (rewrites.use_contractions, "The toll is not high.", "The toll isn't high."),
        (rewrites.make_active, "The bridge was designed by Strauss.", "Strauss designed the bridge."),
        (rewrites.drop_opener, PASSAGES[0], None),
    ],
)
def test_a_rewrite_keeps_the_meaning(rule: rewrites.Rule, sentence: str, rewritten: str | None) -> None:
    assert rule(sentence, random.Random(1)) == rewritten


def test_a_negation_is_added_or_removed(scene: Scene) -> None:
    rng = random.Random(1)
    assert changes.negate("The toll is high.", scene, rng) == "The toll is not high."
    assert changes.negate("The toll is not high.", scene, rng) == "The toll is high."


def test_two_names_change_their_roles(scene: Scene) -> None:
    sentence = "Joseph Strauss paid the workers of Charles Ellis."
    assert changes.swap_roles(sentence, scene, random.Random(1)) == "Charles Ellis paid the workers of Joseph Strauss."
    assert changes.swap_roles("Joseph Strauss and Charles Ellis met.", scene, random.Random(1)) is None


@pytest.mark.parametrize("rule", [rule for rule, _ in changes.RULES])
def test_a_changed_sentence_differs_from_every_passage(rule: changes.Rule, scene: Scene) -> None:
    for seed in range(30):
        for sentence in PASSAGES:
            changed = rule(sentence, scene, random.Random(seed))
            assert changed is None or changed not in PASSAGES


def test_numbers_are_always_changed(scene: Scene) -> None:
    for seed in range(50):
        changed = changes.change_number(PASSAGES[2], scene, random.Random(seed))
        assert changed
        assert changed != PASSAGES[2]


def test_documents_of_few_usable_sentences_are_left_out() -> None:
    raw = {"wiki": [["a", PASSAGES], ["b", PASSAGES[:2]], ["c", ["12 34 56 78 90 12 34 56 78 90", *PASSAGES[:2]]]]}
    assert [document.topic for document in read_documents(raw)] == ["a"]
