"""Reads the weights of a BERT base into plain arrays.

The arrays have the names of the Hugging Face checkpoint. The matrix of a dense layer is named `….kernel` and has the
shape (inputs, outputs), as in an ONNX graph.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Weights = dict[str, npt.NDArray[np.float32]]

_MATMUL = re.compile(r"^/?(encoder/layer\.\d+/.+)/MatMul$")
_SAFETENSORS_TYPES = {"F32": np.float32, "F16": np.float16}


def read_base(path: Path) -> Weights:
    """Return the weights of an ONNX export, of a safetensors file or of an archive that `save_weights` wrote."""
    readers = {".onnx": _read_onnx, ".safetensors": _read_safetensors, ".npz": load_weights}
    if path.suffix not in readers:
        raise ValueError(f"{path}: the base must be one of {', '.join(sorted(readers))}")
    return readers[path.suffix](path)


def _read_onnx(path: Path) -> Weights:
    """Name each matrix by its MatMul node: the exporter renames the matrices but keeps the names of the nodes."""
    import onnx  # noqa: PLC0415 - needed for this kind of base only

    graph = onnx.load(str(path)).graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    weights = {
        name: onnx.numpy_helper.to_array(tensor).astype(np.float32)
        for name, tensor in tensors.items()
        if name.startswith(("embeddings.", "encoder.")) and not name.endswith("position_ids")
    }
    for node in graph.node:
        layer = _MATMUL.match(node.name)
        if node.op_type == "MatMul" and layer and node.input[1] in tensors:
            kernel = onnx.numpy_helper.to_array(tensors[node.input[1]]).astype(np.float32)
            weights[f"{layer[1].replace('/', '.')}.kernel"] = kernel
    return weights


def _read_safetensors(path: Path) -> Weights:
    raw = path.read_bytes()
    header_length = int.from_bytes(raw[:8], "little")
    header: dict[str, Any] = json.loads(raw[8 : 8 + header_length])
    weights: Weights = {}
    for name, entry in header.items():
        if not name.startswith(("embeddings.", "encoder.")) or entry["dtype"] not in _SAFETENSORS_TYPES:
            continue
        start, end = (8 + header_length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(raw[start:end], _SAFETENSORS_TYPES[entry["dtype"]]).reshape(entry["shape"])
        is_dense = name.endswith(".weight") and array.ndim == 2 and "embeddings" not in name
        key = name.removesuffix(".weight") + ".kernel" if is_dense else name
        weights[key] = (array.T if is_dense else array).astype(np.float32)
    return weights


def layer_count(weights: Weights) -> int:
    return 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))


def lower_layers(weights: Weights, count: int) -> Weights:
    """Return the weights without the layers above the lowest `count`."""
    if not 1 <= count <= layer_count(weights):
        raise ValueError(f"the base has {layer_count(weights)} layers, so it cannot keep {count}")
    return {
        name: array
        for name, array in weights.items()
        if not name.startswith("encoder.layer.") or int(name.split(".")[2]) < count
    }


def mean_of(models: Sequence[Weights]) -> Weights:
    """Return the mean of the weights of models that began from the same weights."""
    return {name: np.mean([model[name] for model in models], axis=0, dtype=np.float32) for name in models[0]}


def save_weights(weights: Weights, path: Path) -> None:
    """Write the weights in half precision."""
    np.savez(path, allow_pickle=False, **{name: array.astype(np.float16) for name, array in weights.items()})


def load_weights(path: Path) -> Weights:
    with np.load(path) as archive:
        return {name: archive[name].astype(np.float32) for name in archive.files}
