"""Trained ONNX classifiers as judges; they need the extra `encoder`.

- `judge`: the judge: from an interaction to a verdict with its unsupported sentences
- `description`: the YAML file that describes a model: inputs, labels, aggregation, thresholds, licence, hash
- `inputs`: the model inputs for one answer: its sentences, the nearest context sentences, and their token ids
- `tokens`: the token ids of many texts, with those of known words kept
- `layouts`: the inputs of each kind of model, and the probability of each sentence from its outputs
- `session`: a model in memory, checked against its description
- `batches`: runs the records that wait at the same time in batches, in threads outside the event loop
- `reading`: the sentences of an answer, with their places, and which of them the model need not see
- `groundedness`: the shipped model
"""

from judges.encoder.description import ModelDescription, ModelFileError, read_description
from judges.encoder.judge import SHIPPED, EncoderJudge

__all__ = ["SHIPPED", "EncoderJudge", "ModelDescription", "ModelFileError", "read_description"]
