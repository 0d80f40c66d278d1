"""The passages that synthetic records are made from, with their siblings of the same topic."""

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judges.encoder.inputs import words_of
from judges.local.lexicon import Lexicon

_SENTENCE_CHARACTERS = range(25, 400)
_LETTERS = re.compile(r"[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    source: str
    topic: str
    """A question, a title, a claim or an identifier: documents of one topic are siblings."""

    sentences: tuple[str, ...]

    @property
    def question(self) -> str:
        return self.topic if self.topic.endswith("?") else ""


class Library:
    """All documents, findable by topic and by the words of a sentence."""

    def __init__(self, documents: Sequence[Document], lexicon: Lexicon) -> None:
        self.documents = documents
        self.lexicon = lexicon
        self._by_topic = defaultdict[tuple[str, str], list[int]](list)
        self._by_word = defaultdict[str, list[tuple[int, int]]](list)
        for index, document in enumerate(documents):
            self._by_topic[document.source, document.topic].append(index)
            for place, sentence in enumerate(document.sentences):
                for word in words_of(sentence, lexicon):
                    self._by_word[word].append((index, place))

    def siblings(self, index: int) -> list[int]:
        """Return the other documents of the same topic."""
        document = self.documents[index]
        return [other for other in self._by_topic[document.source, document.topic] if other != index]

    def near_sentence(self, sentence: str, excluded: set[int], rng: random.Random) -> str | None:
        """Return a sentence of another document that shares two rare words with this one."""
        words = sorted(words_of(sentence, self.lexicon), key=lambda word: (len(self._by_word[word]), word))
        rare = [word for word in words if 2 <= len(self._by_word[word]) <= 400][:6]
        if len(rare) < 2:
            return None
        first, second = rng.sample(rare, 2)
        common = set(self._by_word[first]) & set(self._by_word[second])
        places = sorted(place for place in common if place[0] not in excluded)
        if not places:
            return None
        index, place = rng.choice(places)
        return self.documents[index].sentences[place]

    def random_sentence(self, source: str, rng: random.Random) -> str:
        while True:
            document = rng.choice(self.documents)
            if document.source == source or rng.random() < 0.1:
                return rng.choice(document.sentences)


def read_documents(raw: Mapping[str, Sequence[Sequence[object]]]) -> list[Document]:
    """Return the documents of the data file that have at least three usable sentences."""
    documents = list[Document]()
    for source in sorted(raw):
        for topic, sentences in raw[source]:
            assert isinstance(sentences, list)
            usable = tuple(sentence.strip() for sentence in sentences if _is_usable(sentence))
            if len(usable) >= 3:
                documents.append(Document(source=source, topic=str(topic), sentences=usable))
    return documents


def _is_usable(sentence: str) -> bool:
    return len(sentence) in _SENTENCE_CHARACTERS and 2 * len(_LETTERS.findall(sentence)) > len(sentence)
