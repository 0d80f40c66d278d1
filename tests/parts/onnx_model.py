"""Small ONNX models for tests of encoder judges: every word has fixed logits, and a real session runs them."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
Reduction = Literal["tokens", "flat", "max"]


def write_model(
    folder: Path,
    words: Mapping[str, Sequence[float]],
    *,
    default: Sequence[float] = (-4.0,),
    reduction: Reduction = "tokens",
    graph_inputs: Sequence[str] = ("input_ids", "attention_mask"),
    **description: Any,
) -> Path:
    """Write a model, its tokenizer and its description; returns the folder.

    The logits of a word are those in `words`, or else `default`. With the reduction `flat` the model has one number per
    token, and with `max` one row per input, the largest logits of its words. `description` overrides keys of
    the description.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(folder / "tokenizer.json", list(words))
    _write_graph(folder / "model.onnx", words, default, reduction, graph_inputs)
    task = "pairs" if reduction == "max" else "tokens"
    data: dict[str, Any] = {
        "name": "tests/words",
        "version": "1",
        "licence": "Apache-2.0",
        "task": task,
        "model": {"file": "model.onnx", "sha256": digest(folder / "model.onnx")},
        "tokenizer": {"file": "tokenizer.json", "sha256": digest(folder / "tokenizer.json")},
        "inputs": {"window": 64, "answer": 24, "question": 8},
        "output": {"labels": ["unsupported"], "activation": "sigmoid", "failing": ["unsupported"]},
        "aggregation": {"tokens": "max"},
        "thresholds": [0.9, 0.5],
    }
    data.update(description)
    (folder / "model.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return folder


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_tokenizer(path: Path, words: Sequence[str]) -> None:
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.save(str(path))


def _write_graph(
    path: Path,
    words: Mapping[str, Sequence[float]],
    default: Sequence[float],
    reduction: Reduction,
    names: Sequence[str],
) -> None:
    table = np.array([*([default] * len(SPECIAL)), *words.values()], np.float32)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in names]
    width = len(default)
    nodes = [helper.make_node("Gather", ["table", names[0]], ["rows"])]
    if reduction == "tokens":
        nodes.append(helper.make_node("Identity", ["rows"], ["logits"]))
        shape: list[str | int] = ["batch", "tokens", width]
    elif reduction == "flat":
        nodes.append(helper.make_node("ReduceMax", ["rows", "axis"], ["logits"], keepdims=0))
        shape = ["batch", "tokens"]
    else:
        nodes.append(helper.make_node("ReduceMax", ["rows", "axis"], ["logits"], keepdims=0))
        shape = ["batch", width]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    tensors = [numpy_helper.from_array(table, "table")]
    if reduction != "tokens":
        tensors.append(numpy_helper.from_array(np.array([2 if reduction == "flat" else 1], np.int64), "axis"))
    graph = helper.make_graph(nodes, "words", inputs, [output], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    onnx.save(model, str(path))
