"""Puts passages, a question and an answer together into labelled records."""

import random
import re
from collections.abc import Iterator

from training.records import Record
from training.synthetic.changes import Scene, change
from training.synthetic.documents import Document, Library
from training.synthetic.phrases import phrases
from training.synthetic.rewrites import content_words, frame, fuse, rewrite, upper_first

# Half of the answers are faithful; in the others, this share of the sentences is changed, and at least one.
FAITHFUL = 0.5
CHANGED = 0.3
REFUSALS = 0.04
QUESTION_NAMES = 0.06
NEUTRAL_SENTENCES = 0.25

_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+){0,2}")
_QUESTIONS = (
    "what is {}",
    "how does {} work",
    "tell me about {}",
    "what are the facts about {}",
    "why is {} important",
)


def make_records(library: Library, count: int, seed: int) -> Iterator[Record]:
    """Yield `count` records; the same seed gives the same records."""
    rng = random.Random(seed)
    for _ in range(count):
        yield _make_record(library, rng)


def _make_record(library: Library, rng: random.Random) -> Record:
    index = rng.randrange(len(library.documents))
    document = library.documents[index]
    shown, hidden = _divide(library.siblings(index), rng)
    main = _excerpt(document, rng)
    groups = [main, *(_excerpt(library.documents[other], rng) for other in shown)]
    if rng.random() < 0.2:
        groups.append(_excerpt(rng.choice(library.documents), rng))
    passages = [sentence for group in groups for sentence in group]
    left_out = [sentence for sentence in document.sentences if sentence not in main]
    siblings = [*left_out, *(sentence for other in hidden for sentence in library.documents[other].sentences)]
    scene = Scene(
        passages=passages,
        siblings=siblings,
        topic=_topic(main, rng),
        library=library,
        source=document.source,
        excluded=frozenset({index, *shown}),
    )
    sentences, labels = _answer(scene, main, rng)
    question = document.question or rng.choice(_QUESTIONS).format(scene.topic)
    if rng.random() < QUESTION_NAMES:
        question, sentences, labels = _ask_about_another(question, sentences, labels, scene, rng)
    rng.shuffle(groups)
    return Record(
        source="synthetic",
        question=question if rng.random() < 0.85 else "",
        contexts=[" ".join(group) for group in groups],
        sentences=sentences,
        labels=labels,
    )


def _divide(siblings: list[int], rng: random.Random) -> tuple[list[int], list[int]]:
    """Return up to three siblings for the contexts, and the others."""
    shuffled = rng.sample(siblings, len(siblings))
    shown = min(rng.choice([0, 1, 2, 2, 3]), len(shuffled) // 2 + len(shuffled) % 2)
    return shuffled[:shown], shuffled[shown : shown + 6]


def _excerpt(document: Document, rng: random.Random) -> list[str]:
    """Return three to twelve neighbouring sentences."""
    length = rng.randint(3, 12)
    start = rng.randrange(max(1, len(document.sentences) - length + 1))
    return list(document.sentences[start : start + length])


def _topic(sentences: list[str], rng: random.Random) -> str:
    words = content_words(rng.choice(sentences)) or ["this"]
    start = rng.randrange(len(words))
    return " ".join(words[start : start + rng.randint(1, 2)]).lower()


def _answer(scene: Scene, main: list[str], rng: random.Random) -> tuple[list[str], list[int]]:
    if rng.random() < REFUSALS:
        return [_fill(rng.choice(phrases("refusals")), scene, rng)], [0]
    is_faithful = rng.random() < FAITHFUL
    sentences, labels = _body(scene, main, is_faithful, rng)
    if not is_faithful and 1 not in labels:
        sentences[-1], labels[-1] = rng.choice(phrases("baseless")).replace("{topic}", scene.topic), 1
    if rng.random() < NEUTRAL_SENTENCES:
        place = rng.choice([0, len(sentences)])
        sentences.insert(place, _fill(rng.choice(phrases("neutral")), scene, rng))
        labels.insert(place, 0)
    return sentences, labels


def _body(scene: Scene, main: list[str], is_faithful: bool, rng: random.Random) -> tuple[list[str], list[int]]:
    pool = main if rng.random() < 0.5 else list(scene.passages)
    count = min(len(pool), rng.choice([1, 2, 3, 3, 4, 4, 5, 6, 7, 8]))
    picked = [pool[place] for place in sorted(rng.sample(range(len(pool)), count))]
    share = rng.choice([0.2, 1.0, 1.0, 1.6])
    sentences, labels = list[str](), list[int]()
    while picked:
        sentence = rewrite(picked.pop(0), rng, share=share)
        if picked and rng.random() < 0.15:
            sentence = fuse(sentence, rewrite(picked.pop(0), rng, share=share), rng)
        changed = change(sentence, scene, rng) if not is_faithful and rng.random() < CHANGED else None
        sentences.append(upper_first(frame(rewrite(changed, rng, share=0.3) if changed else sentence, rng)))
        labels.append(int(changed is not None))
    return sentences, labels


def _fill(template: str, scene: Scene, rng: random.Random) -> str:
    """Fill a template; {other} becomes two words that no passage has."""
    known = scene.text.lower()
    for _ in range(20):
        words = content_words(scene.library.random_sentence(scene.source, rng))
        other = " ".join(words[:2]).lower()
        if other and other not in known:
            break
    return template.replace("{topic}", scene.topic).replace("{other}", other)


def _ask_about_another(
    question: str, sentences: list[str], labels: list[int], scene: Scene, rng: random.Random
) -> tuple[str, list[str], list[int]]:
    """Ask about a name that no passage has, and let the answer make a claim of the passages about it."""
    names = [(place, match[0]) for place, text in enumerate(sentences) for match in _NAME.finditer(text)]
    others = _NAME.findall(" ".join(scene.library.random_sentence(scene.source, rng) for _ in range(8)))
    new = [name for name in others if name not in scene.text]
    if not names or not new:
        return question, sentences, labels
    (place, name), other = rng.choice(names), rng.choice(new)
    sentences[place], labels[place] = sentences[place].replace(name, other), 1
    return rng.choice(_QUESTIONS).format(other), sentences, labels
