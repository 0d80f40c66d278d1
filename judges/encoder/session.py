"""A model in memory: checked against its description, and run on batches of inputs."""

import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.criteria.problems import Loc, Problem, path_text, unknown
from judges.encoder.description import FileSpec, ModelDescription, ModelFileError, find_description

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EXTRA = "needs the extra `encoder`: pip install 'streamjury[encoder]'"
_PACKAGES = ("onnxruntime", "tokenizers")

Logits = Any
"""A numpy array: one row per input, or one per token of each input."""


def missing_extra() -> str | None:
    """Return how to install the packages that encoder judges need; None if they are installed."""
    missing = [package for package in _PACKAGES if importlib.util.find_spec(package) is None]
    return f"{' and '.join(missing)} not installed; this judge {EXTRA}" if missing else None


class ModelSession:
    """One loaded model. Several threads may use it at the same time."""

    def __init__(self, path: Path, description: ModelDescription, *, threads: int = 1) -> None:
        """Load the model; raises ModelFileError if a file is not the described one, or the model has other inputs."""
        self._file = find_description(path)
        self._description = description
        missing = missing_extra()
        if missing is not None:
            raise ModelFileError(self._file, [Problem(path="", message=missing)])
        self._refuse(self._hash_problems())
        self.tokenizer = self._load_tokenizer()
        self._session = self._load_session(threads)
        self._refuse(self._graph_problems())
        self._inputs = {item.name: item.type for item in self._session.get_inputs()}
        self._padding = _padding_id(self.tokenizer)

    def run(self, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]]) -> Logits:
        """Return the model's output for a batch of inputs; shorter inputs are padded.

        Raises ValueError if the inputs differ in length and the model has no mask.
        """
        import numpy as np  # noqa: PLC0415 - comes with the extra

        longest = max(map(len, ids))
        if self._description.inputs.mask is None and longest != min(map(len, ids)):
            raise ValueError("a model without a mask needs inputs of one length")
        shape = (len(ids), longest)
        values = {"ids": np.full(shape, self._padding, np.int64), "mask": np.zeros(shape, np.int64)}
        values["types"] = np.zeros(shape, np.int64)
        for row, (tokens, kinds) in enumerate(zip(ids, types, strict=True)):
            values["ids"][row, : len(tokens)] = tokens
            values["mask"][row, : len(tokens)] = 1
            values["types"][row, : len(kinds)] = kinds
        names = self._description.inputs
        feed = {
            name: values[key].astype(np.int32) if "int32" in self._inputs[name] else values[key]
            for key, name in (("ids", names.ids), ("mask", names.mask), ("types", names.types))
            if name is not None
        }
        return self._session.run([self._description.output.name], feed)[0]

    def _load_tokenizer(self) -> "Tokenizer":
        from tokenizers import Tokenizer  # noqa: PLC0415 - comes with the extra

        try:
            tokenizer = Tokenizer.from_file(str(self._path_of(self._description.tokenizer)))
        except Exception as error:
            raise self._unloadable("tokenizer", error) from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def _load_session(self, threads: int) -> Any:
        import onnxruntime  # noqa: PLC0415 - comes with the extra

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Idle threads wait without using the processor, and memory is not kept for every shape of a batch.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        path = str(self._path_of(self._description.model))
        try:
            return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise self._unloadable("model", error) from error

    def _path_of(self, part: FileSpec) -> Path:
        return self._file.parent / part.file

    def _unloadable(self, key: str, error: Exception) -> ModelFileError:
        reason = " ".join(str(error).split())[:300]
        return ModelFileError(self._file, [Problem(path=f"{key}.file", message=f"cannot be loaded: {reason}")])

    def _hash_problems(self) -> Iterator[tuple[Loc, str]]:
        for key, part in (("model", self._description.model), ("tokenizer", self._description.tokenizer)):
            try:
                with self._path_of(part).open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                yield (key, "file"), f"cannot be read: {(error.strerror or 'unknown error').lower()}"
                continue
            if digest != part.sha256:
                yield (key, "sha256"), f"does not match {part.file}, whose hash is {digest}"

    def _graph_problems(self) -> Iterator[tuple[Loc, str]]:
        """Compare the names in the description with those of the graph."""
        description = self._description
        inputs = [item.name for item in self._session.get_inputs()]
        outputs = {item.name: item.shape for item in self._session.get_outputs()}
        named = {key: getattr(description.inputs, key) for key in ("ids", "mask", "types")}
        for key, name in named.items():
            if name is not None and name not in inputs:
                yield ("inputs", key), unknown("input of the model", name, inputs)
        for name in inputs:
            if name not in named.values():
                yield ("inputs",), f"the model needs another input, {name!r}"
        shape = outputs.get(description.output.name)
        if shape is None:
            yield ("output", "name"), unknown("output of the model", description.output.name, outputs)
            return
        labels = len(description.output.labels)
        per_token = description.task == "tokens"
        if per_token and len(shape) == 2 and labels == 1:
            return  # one number per token
        if isinstance(shape[-1], int) and shape[-1] != labels:
            yield ("output", "labels"), f"must have {shape[-1]} labels, as many as the model returns, not {labels}"
        if per_token and len(shape) != 3:
            yield ("task",), f"must not be tokens: the model returns {len(shape)} dimensions, not one row per token"

    def _refuse(self, found: Iterator[tuple[Loc, str]]) -> None:
        problems = [Problem(path=path_text(loc), message=message) for loc, message in found]
        if problems:
            raise ModelFileError(self._file, problems)


def _padding_id(tokenizer: "Tokenizer") -> int:
    identifiers = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((identifier for identifier in identifiers if identifier is not None), 0)
