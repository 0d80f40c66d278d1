"""The training without PyTorch: examples, figures, and the ONNX graph that it writes."""

import lzma
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from benchmarks.bench_encoder import panel_config
from judges.encoder import SHIPPED
from judges.encoder.inputs import TokenLimits
from training.base import Weights, layer_count, load_weights, lower_layers, mean_of, read_base, save_weights
from training.examples import make_examples
from training.graph import HEADS, write_models
from training.measure import auroc, measure
from training.records import Record, is_development, read_data
from training.run import Settings

WIDTH = 4 * HEADS
LAYERS = 2
EMBEDDINGS = ("word", "position", "token_type")


def record(**changes: object) -> Record:
    values = {
        "source": "made",
        "question": "how long is it",
        "contexts": ["The bridge is 2,737 metres long. It has six lanes."],
        "sentences": ["The bridge is 2,737 metres long [1].", "[2]", "It has two decks."],
        "labels": [0, 0, 1],
    }
    return Record(**{**values, **changes})  # type: ignore[arg-type]


def test_labels_stay_with_their_sentences() -> None:
    limits = [TokenLimits(window=128, answer=64)]
    (example,) = make_examples([record()], SHIPPED / "tokenizer.json", limits, seed=1, processes=1)
    assert example.labels == [0, 1]
    assert len(example.window.spans) == 2
    assert example.answer_label == 1


def test_an_answer_of_several_windows_with_one_label_for_all_is_used_only_if_supported() -> None:
    limits = [TokenLimits(window=64, answer=16)]
    long = ["The bridge is 2,737 metres long.", "It has six lanes in both directions.", "It is painted in orange."]
    labelled = [record(sentences=long, labels=None, answer_label=label) for label in (0, 1)]
    examples = make_examples(labelled, SHIPPED / "tokenizer.json", limits, seed=1, processes=1)
    assert len(examples) > 1
    assert {example.answer_label for example in examples} == {0}


def test_a_group_is_on_one_side_of_the_split() -> None:
    groups = [f"question {number}" for number in range(500)]
    kept = [group for group in groups if is_development(record(group=group))]
    assert 20 < len(kept) < 90
    assert [group for group in groups if is_development(record(group=group, source="other"))] == kept


def test_the_data_file_is_read(tmp_path: Path) -> None:
    row = '{"src":"mtrag","q":null,"ctx":["A."],"s":["A."],"l":null,"a":1,"w":1.0,"g":"x"}'
    path = tmp_path / "train.json.xz"
    path.write_bytes(lzma.compress(f'{{"records":[{row}],"documents":{{}}}}'.encode()))
    (read,), documents = read_data(path)
    assert (read.question, read.is_unsupported, documents) == ("", True, [])


def test_figures() -> None:
    figures = measure([True, True, False, False], [0.9, 0.4, 0.6, 0.1], 0.5)
    assert (figures.precision, figures.recall, figures.f1) == (0.5, 0.5, 0.5)
    assert figures.auroc == 0.75
    assert auroc([True, False], [0.5, 0.5]) == 0.5


def small_weights() -> Weights:
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return (0.3 * rng.normal(size=shape)).astype(np.float32)

    dense, norms = {"head": (WIDTH, 1)}, ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        dense |= {f"{layer}.attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        dense[f"{layer}.attention.output.dense"] = (WIDTH, WIDTH)
        dense[f"{layer}.intermediate.dense"] = (WIDTH, 96)
        dense[f"{layer}.output.dense"] = (96, WIDTH)
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    return {
        "embeddings.word_embeddings.weight": normal(100, WIDTH),
        "embeddings.position_embeddings.weight": normal(512, WIDTH),
        "embeddings.token_type_embeddings.weight": normal(2, WIDTH),
        **{f"{name}.kernel": normal(*shape) for name, shape in dense.items()},
        **{f"{name}.bias": normal(shape[1]) for name, shape in dense.items()},
        **{f"{name}.weight": 1 + normal(WIDTH) for name in norms},
        **{f"{name}.bias": normal(WIDTH) for name in norms},
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(small_weights(), folder)
    return folder


def run(path: Path, ids: list[list[int]], *, answer: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return the logits of inputs whose answers begin at this token."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    types = [[0] * answer + [1] * (len(row) - answer) for row in ids]
    inputs = {"input_ids": ids, "token_type_ids": types}
    (logits,) = session.run(None, {name: np.array(rows, np.int64) for name, rows in inputs.items()})
    return np.asarray(logits)


def compute_logits(weights: Weights, ids: list[int], *, answer: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Compute the tagger for one input, step by step as BERT is defined."""

    def dense(rows: Any, name: str) -> Any:
        return rows @ weights[f"{name}.kernel"] + weights[f"{name}.bias"]

    def normalise(rows: Any, name: str) -> Any:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True))
        return scaled * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]

    words, positions, types = (weights[f"embeddings.{kind}_embeddings.weight"] for kind in EMBEDDINGS)
    kinds = [int(place >= answer) for place in range(len(ids))]
    hidden = normalise(words[ids] + positions[: len(ids)] + types[kinds], "embeddings")
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        parts = [dense(hidden, f"{layer}.attention.self.{part}") for part in ("query", "key", "value")]
        query, key, value = (part.reshape(len(ids), HEADS, -1).transpose(1, 0, 2) for part in parts)
        shares = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1]))
        attended = shares / shares.sum(axis=-1, keepdims=True) @ value
        joined = attended.transpose(1, 0, 2).reshape(len(ids), -1)
        hidden = normalise(hidden + dense(joined, f"{layer}.attention.output.dense"), f"{layer}.attention.output")
        inner = dense(hidden, f"{layer}.intermediate.dense")
        activated = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        hidden = normalise(hidden + dense(activated, f"{layer}.output.dense"), f"{layer}.output")
    return np.asarray(dense(hidden, "head")[:, 0])


def test_the_graph_computes_the_tokens_of_the_answer(models: Path) -> None:
    ids = list(range(1, 40))
    expected = compute_logits(small_weights(), ids, answer=15)
    (logits,) = run(models / "model.fp32.onnx", [ids], answer=15)
    np.testing.assert_allclose(logits[15:], expected[15:], atol=1e-3)
    assert not logits[:15].any()


@pytest.mark.parametrize("name", ["model.fp32.onnx", "model.onnx"])
def test_another_input_in_the_batch_changes_nothing(models: Path, name: str) -> None:
    alone = run(models / name, [[5, 6, 7]])
    together = run(models / name, [[5, 6, 7], [9, 8, 7]])
    assert alone.shape == (1, 3)
    np.testing.assert_allclose(together[0], alone[0], atol=0.15 if name == "model.onnx" else 1e-4)


def test_int8_is_near_single_precision(models: Path) -> None:
    exact, rounded = (run(models / name, [list(range(1, 40))]) for name in ("model.fp32.onnx", "model.onnx"))
    assert np.corrcoef(exact[0], rounded[0])[0, 1] > 0.97


def test_weights_are_written_and_read(tmp_path: Path) -> None:
    weights = small_weights()
    save_weights(weights, tmp_path / "weights.npz")
    read = load_weights(tmp_path / "weights.npz")
    assert read.keys() == weights.keys()
    np.testing.assert_allclose(read["head.kernel"], weights["head.kernel"], atol=1e-3)


def test_a_student_keeps_the_lower_layers() -> None:
    weights = small_weights()
    lower = lower_layers(weights, 1)
    assert layer_count(lower) == 1
    upper = [name for name in weights if name.startswith("encoder.layer.1.")]
    assert upper
    assert lower.keys() == weights.keys() - set(upper)
    for count in (0, LAYERS + 1):
        with pytest.raises(ValueError, match=f"cannot keep {count}"):
            lower_layers(weights, count)


def test_the_mean_of_the_weights() -> None:
    weights = small_weights()
    tripled = {name: 3 * array for name, array in weights.items()}
    mean = mean_of([weights, tripled])
    assert mean.keys() == weights.keys()
    assert all(np.allclose(mean[name], 2 * array) for name, array in weights.items())


def test_training_fills_its_windows() -> None:
    """The judge leaves out context that covers nothing; training needs it, to learn what is beside the point."""
    limits = Settings(data=Path(), tokenizer=Path()).limits
    assert {limit.window for limit in limits} == {320, 384, 448, 512}
    sentences = [f"Number {number} of the lanes has a lamp." for number in range(20)]
    long = record(contexts=[" ".join([*record().contexts, *sentences])])
    tokenizer = SHIPPED / "tokenizer.json"
    (filled,) = make_examples([long], tokenizer, limits, seed=1, processes=1)
    (shorter,) = make_examples([long], tokenizer, [TokenLimits()], seed=1, processes=1)
    assert len(filled.window.ids) > len(shorter.window.ids)


def test_another_model_is_measured_in_a_panel_with_the_rule_of_the_default_one(tmp_path: Path) -> None:
    assert panel_config(tmp_path).combine_rule == "max"


def test_a_base_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the base must be one of \.npz, \.onnx, \.safetensors"):
        read_base(tmp_path / "base.bin")
