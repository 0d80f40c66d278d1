"""Reads English and Russian text for the local judge.

- `text`: cleans a text and splits it into sentences
- `places`: locates the sentences of a cleaned text in the text as logged
- `sentence`: one sentence with its words, numbers, names and other properties
- `tokens`: splits a sentence into words, numbers, dates, times and codes
- `references`: takes out citations and lead-ins, and writes quarters in one way
- `citations`: finds citations, and the contexts that they point at
- `number_words`: reads numbers in words
- `stem`: reduces words to their stems
- `quantity`: compares numbers and quantities whatever their spelling
- `counts`: finds the things that a sentence counts
- `denial`: finds the words that a sentence denies
- `padding`: finds sentences that say nothing about the subject
- `phrases`: finds patterns of words, all in one pass
"""
