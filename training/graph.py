"""Writes a trained tagger as an ONNX graph, in single precision and in int8.

The graph is built by hand from those operators of onnxruntime that are fastest on a CPU:

- MultiHeadAttention without a mask, which onnxruntime computes in blocks that stay in the cache. So the graph has no
  `attention_mask`, and a batch must hold inputs of one length.
- DynamicQuantizeMatMul with its bias, then Add and LayerNormalization, instead of the slower SkipLayerNormalization.
- The last layer is computed for the tokens of the answers only; nothing reads the others.

Inputs are `input_ids` and `token_type_ids` (1 for the answer). The output `logits` has one number per token, the logit
that the token is unsupported; it is 0 before the answer.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from training.base import Weights, layer_count

HEADS = 12
_EPSILON = 1e-12
_FUSED = "com.microsoft"
_INPUTS = ("input_ids", "token_type_ids")
# Seven bits for the weights: eight can overflow 16-bit sums on processors without VNNI.
_LARGEST_WEIGHT = 64
_PARTS = ("query", "key", "value")


class _Graph:
    def __init__(self, weights: Weights, *, is_int8: bool) -> None:
        self.weights = weights
        self.is_int8 = is_int8
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        self.tensors[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def integers(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name].astype(np.float32))

    def add(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        node = helper.make_node(operator, inputs, [output], name=f"node/{output}", domain=domain, **attributes)
        self.nodes.append(node)
        return output

    def fused(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        return self.add(operator, inputs, output, domain=_FUSED, **attributes)

    def split(self, joined: str, outputs: list[str], width: int) -> list[str]:
        """Cut the last axis into parts of this width."""
        sizes = self.integers(f"{joined}.widths", *[width] * len(outputs))
        self.nodes.append(helper.make_node("Split", [joined, sizes], outputs, name=f"node/{joined}.split", axis=-1))
        return outputs

    def dense(self, inputs: str, layers: list[str], output: str) -> str:
        """Apply dense layers that read the same inputs; their outputs are joined."""
        kernel = np.concatenate([self.weights[f"{layer}.kernel"] for layer in layers], axis=1).astype(np.float32)
        bias = np.concatenate([self.weights[f"{layer}.bias"] for layer in layers]).astype(np.float32)
        bias_name = self.constant(f"{output}.bias", bias)
        if not self.is_int8:
            product = self.add("MatMul", [inputs, self.constant(f"{output}.kernel", kernel)], f"{output}.product")
            return self.add("Add", [product, bias_name], output)
        rounded, scales = _round(kernel, _LARGEST_WEIGHT, axis=0)
        kernel_name = self.constant(f"{output}.kernel_quantized", rounded)
        scale_name = self.constant(f"{output}.kernel_scale", scales[0])
        return self.fused("DynamicQuantizeMatMul", [inputs, kernel_name, scale_name, "", bias_name], output)


def _round(
    array: npt.NDArray[np.float32], largest: int, *, axis: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return whole numbers up to `largest`, and the scales along the other axis that turn them back."""
    scales = np.maximum(np.abs(array).max(axis=axis, keepdims=True), 1e-8) / largest
    return np.rint(array / scales).astype(np.int8), scales.astype(np.float32)


def build_graph(weights: Weights, *, is_int8: bool) -> onnx.ModelProto:
    graph = _Graph(weights, is_int8=is_int8)
    first = _first_of_answer(graph)
    hidden = _embeddings(graph)
    last = layer_count(weights) - 1
    for layer in range(last):
        hidden = _layer(graph, f"encoder.layer.{layer}", hidden, hidden)
    answer = graph.add("Slice", [hidden, first, graph.integers("end", np.iinfo(np.int64).max), "one"], "answer.hidden")
    hidden = _layer(graph, f"encoder.layer.{last}", answer, hidden)
    _head(graph, hidden, first)
    shape = ["records", "tokens"]
    proto = helper.make_graph(
        graph.nodes,
        "groundedness",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in _INPUTS],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)],
        list(graph.tensors.values()),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)]
    return helper.make_model(proto, opset_imports=opsets, ir_version=9, producer_name="streamjury")


def _first_of_answer(graph: _Graph) -> str:
    """Return where the earliest answer of the batch begins; 0 if an input has none."""
    graph.add("ArgMax", ["token_type_ids"], "answer.starts", axis=1, keepdims=0)
    return graph.add("ReduceMin", ["answer.starts"], "answer.start", keepdims=1)


def _embeddings(graph: _Graph) -> str:
    words = _int8_words(graph) if graph.is_int8 else _words(graph)
    types = graph.add("Gather", [graph.weight("embeddings.token_type_embeddings.weight"), "token_type_ids"], "types")
    # Positions 0 … tokens - 1: a slice of the table, which is added to every record.
    zero, one = graph.integers("zero", 0), graph.integers("one", 1)
    graph.add("Shape", ["input_ids"], "shape")
    graph.add("Slice", ["shape", one, graph.integers("two", 2)], "tokens_in_record")
    table = graph.weight("embeddings.position_embeddings.weight")
    positions = graph.add("Slice", [table, zero, "tokens_in_record", zero], "positions")
    total = graph.add("Add", [graph.add("Add", [words, types], "words_and_types"), positions], "embedded")
    return _normalise(graph, "embeddings", total)


def _words(graph: _Graph) -> str:
    return graph.add("Gather", [graph.weight("embeddings.word_embeddings.weight"), "input_ids"], "words")


def _int8_words(graph: _Graph) -> str:
    """Look up words of eight bits, with one scale per word."""
    rounded, scales = _round(graph.weights["embeddings.word_embeddings.weight"], 127, axis=1)
    graph.add("Gather", [graph.constant("words.int8", rounded), "input_ids"], "words.rounded")
    graph.add("Cast", ["words.rounded"], "words.float", to=TensorProto.FLOAT)
    graph.add("Gather", [graph.constant("words.scales", scales), "input_ids"], "words.scale")
    return graph.add("Mul", ["words.float", "words.scale"], "words")


def _layer(graph: _Graph, layer: str, hidden: str, attended: str) -> str:
    """Compute one layer for `hidden`, whose tokens attend to those of `attended`."""
    query, key, value = (f"{layer}.attention.self.{part}" for part in _PARTS)
    width = graph.weights[f"{query}.kernel"].shape[1]
    if hidden == attended:
        joined = graph.dense(hidden, [query, key, value], f"{layer}.qkv")
        projections = graph.split(joined, [f"{layer}.{part}" for part in _PARTS], width)
    else:
        joined = graph.dense(attended, [key, value], f"{layer}.kv")
        projections = [graph.dense(hidden, [query], f"{layer}.query")]
        projections += graph.split(joined, [f"{layer}.{part}" for part in _PARTS[1:]], width)
    found = graph.fused("MultiHeadAttention", projections, f"{layer}.attended", num_heads=HEADS)
    hidden = _add_and_normalise(graph, f"{layer}.attention.output", found, hidden)
    inner = graph.dense(hidden, [f"{layer}.intermediate.dense"], f"{layer}.intermediate")
    activated = graph.fused("Gelu", [inner], f"{layer}.activated")
    return _add_and_normalise(graph, f"{layer}.output", activated, hidden)


def _add_and_normalise(graph: _Graph, name: str, inputs: str, skip: str) -> str:
    product = graph.dense(inputs, [f"{name}.dense"], f"{name}.dense")
    return _normalise(graph, name, graph.add("Add", [product, skip], f"{name}.sum"))


def _normalise(graph: _Graph, name: str, inputs: str) -> str:
    parts = [graph.weight(f"{name}.LayerNorm.{part}") for part in ("weight", "bias")]
    return graph.add("LayerNormalization", [inputs, *parts], f"{name}.normalised", epsilon=_EPSILON, axis=-1)


def _head(graph: _Graph, hidden: str, first: str) -> None:
    """Write one logit per token of the answer, and zeros before it."""
    scores = graph.add("MatMul", [hidden, graph.weight("head.kernel")], "head.product")
    scores = graph.add("Add", [scores, graph.weight("head.bias")], "head.sum")
    graph.add("Squeeze", [scores, graph.integers("last_axis", -1)], "answer.logits")
    graph.add("Concat", ["zero", first, graph.integers("two_zeros", 0, 0)], "head.padding", axis=0)
    graph.add("Pad", ["answer.logits", "head.padding"], "logits")


def write_models(weights: Weights, folder: Path) -> None:
    """Write `model.fp32.onnx` and `model.onnx` (int8) into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(build_graph(weights, is_int8=False), str(folder / "model.fp32.onnx"))
    onnx.save(build_graph(weights, is_int8=True), str(folder / "model.onnx"))
