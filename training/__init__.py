"""Trains the shipped groundedness tagger: see README.md.

- `records`: labelled records, and the data file that they are read from
- `synthetic`: makes labelled records from plain passages
- `examples`: turns records into windows of token ids, by the code that the judge uses
- `base`: reads the weights of a BERT base
- `model`: the tagger in PyTorch
- `learn`: the training loop, with teachers or without
- `graph`: writes the trained tagger as an ONNX graph, in single precision and in int8
- `measure`: area under the ROC curve, precision, recall and F1
- `run`: the steps of a training run
"""
