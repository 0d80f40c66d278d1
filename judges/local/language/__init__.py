"""Reads English and Russian text for the local judge.

- `text`: cleans a text and splits it into sentences
- `places`: locates the sentences of a cleaned text in the text as logged
- `sentence`: one sentence with its words, numbers, names and other properties
- `tokens`: splits a sentence into words, numbers, dates, times and codes
- `stem`: reduces words to their stems
- `quantity`: compares numbers and quantities whatever their spelling
- `denial`: finds the words that a sentence denies
- `padding`: finds sentences that say nothing about the subject
- `phrases`: finds patterns of words, all in one pass
"""
