"""Encodes many texts with one tokenizer, and keeps the tokens of the words it has seen.

A BERT tokenizer splits a text at spaces before anything else, so that the tokens of a text are those of its words. Most
words of a text have been seen before, and looking them up takes a small part of the time of the tokenizer.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

# Bound the memory: the words are dropped when there are more, and a longer one is not kept.
_MOST_WORDS = 50_000
_LONGEST_WORD = 40
# Parts of a tokenizer that treat the words between spaces one by one, whatever stands around them.
_WORD_NORMALIZERS = frozenset({"BertNormalizer", "Lowercase", "NoneType"})
_WORD_SPLITTERS = frozenset({"BertPreTokenizer", "Whitespace", "WhitespaceSplit"})


class TextEncoder:
    """Encodes texts without special tokens. Several threads may use it at the same time."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._tokens = dict[str, list[int]]()
        self.encodes_by_word = (
            type(tokenizer.normalizer).__name__ in _WORD_NORMALIZERS
            and type(tokenizer.pre_tokenizer).__name__ in _WORD_SPLITTERS
            and not any(_spans_words(token) for token in tokenizer.get_added_tokens_decoder().values())
        )

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        if not self.encodes_by_word:
            return self._encode(texts)
        split = [text.split(" ") for text in texts]
        tokens = self._look_up(frozenset(word for words in split for word in words))
        return [[token for word in words for token in tokens[word]] for words in split]

    def _look_up(self, words: frozenset[str]) -> dict[str, list[int]]:
        """Return the tokens of each word, and keep those of new words."""
        kept = self._tokens
        tokens = {word: kept[word] for word in words if word in kept}
        new = [word for word in words if word not in tokens]
        encoded = dict(zip(new, self._encode(new), strict=True))
        if len(kept) + len(encoded) > _MOST_WORDS:
            kept = self._tokens = {}
        if len(encoded) <= _MOST_WORDS:
            kept.update({word: ids for word, ids in encoded.items() if len(word) <= _LONGEST_WORD})
        return tokens | encoded

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def _spans_words(token: "AddedToken") -> bool:
    """Return whether a token of its own, such as `[SEP]`, can reach beyond one word."""
    return token.lstrip or token.rstrip or " " in token.content
