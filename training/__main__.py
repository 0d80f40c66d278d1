"""The command line of the training: teachers, then one student per seed, and the mean of the students' weights.

Each is written as ONNX with its figures.

python -m training --data DATA --tokenizer tokenizer.json --student minilm.safetensors --teacher bge.onnx --out OUT
"""

import argparse
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from judges.encoder.inputs import TokenLimits
from training.base import Weights, layer_count, lower_layers, mean_of, read_base, save_weights
from training.graph import write_models
from training.learn import Recipe, predict, train
from training.run import (
    HUMAN_COPIES,
    SYNTHETIC_RECORDS,
    Answers,
    Settings,
    development_answers,
    figures_of,
    ragtruth_answers,
    training_examples,
)

_log = logging.getLogger("training")

THRESHOLD = 0.5
STUDENT_EPOCHS = 2
TEACHER = Recipe()


def main() -> None:
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    arguments.out.mkdir(parents=True, exist_ok=True)
    data, tokenizer = arguments.data / "train.json.xz", arguments.tokenizer
    settings = Settings(
        data=data,
        tokenizer=tokenizer,
        processes=arguments.processes,
        synthetic=arguments.synthetic,
        human_copies=arguments.human_copies,
    )
    examples = training_examples(settings)
    _log.info("%d examples", len(examples))
    windows = [example.window for example in examples]
    opinions = []
    for seed, path in enumerate(arguments.teacher, start=1):
        _log.info("teacher %s, seed %d", path, seed)
        opinions.append(predict(train(read_base(path), examples, TEACHER, seed), windows))
    soft = [np.mean(rows, axis=0) for rows in zip(*opinions, strict=True)] if opinions else None
    answers = {
        "ragtruth-qa-dev": ragtruth_answers(arguments.data / "ragtruth-qa-dev.jsonl", tokenizer, TokenLimits()),
        **development_answers(data, tokenizer, TokenLimits()),
    }
    base = read_base(arguments.student)
    base = lower_layers(base, arguments.layers or layer_count(base))
    students = list[Weights]()
    for seed in arguments.seeds:
        students.append(train(base, examples, Recipe(epochs=arguments.epochs), seed, soft))
        _write(students[-1], answers, arguments.out / f"seed-{seed}")
    _write(mean_of(students), answers, arguments.out / "mean")


def _write(weights: Weights, answers: Mapping[str, Answers], folder: Path) -> None:
    """Write a student as ONNX, with its figures."""
    logits = {name: predict(weights, group.windows) for name, group in answers.items()}
    figures = figures_of(answers, logits, THRESHOLD)
    _log.info("student, %s: %s", folder.name, figures["ragtruth-qa-dev"])
    write_models(weights, folder)
    save_weights(weights, folder / "weights.npz")
    table = {name: row._asdict() for name, row in figures.items()}
    (folder / "figures.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training", description="Train the groundedness tagger.")
    parser.add_argument("--data", type=Path, required=True, help="folder of train.json.xz and ragtruth-qa-dev.jsonl")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json, the same for all bases")
    parser.add_argument("--student", type=Path, required=True, help="base of the student: .safetensors, .onnx or .npz")
    parser.add_argument("--teacher", type=Path, action="append", default=[], help="base of a teacher; repeatable")
    parser.add_argument("--out", type=Path, required=True, help="folder for the models and their figures")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="one student per seed")
    parser.add_argument("--layers", type=int, help="layers of the student: the lowest of its base; without it, all")
    parser.add_argument("--epochs", type=int, default=STUDENT_EPOCHS, help="epochs of the student")
    parser.add_argument("--synthetic", type=int, default=SYNTHETIC_RECORDS, help="synthetic records")
    parser.add_argument("--human-copies", type=int, default=HUMAN_COPIES, help="times the labelled records")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes that prepare the data")
    return parser


if __name__ == "__main__":
    main()
