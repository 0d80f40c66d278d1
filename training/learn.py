"""Trains the tagger: one pass over the examples, with a loss per sentence and a loss per answer."""

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from judges.encoder.inputs import Window
from training.base import Weights
from training.examples import Example
from training.model import Tagger

_log = logging.getLogger(__name__)

_TOKENS_PER_BATCH = 16_384
_BATCHES_PER_BUCKET = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    learning_rate: float = 1e-4
    epochs: int = 1
    warm_up: float = 0.06
    weight_decay: float = 0.01
    answer_loss: float = 0.5
    """Weight of the loss of the whole answer, beside that of its sentences."""

    averaged: float = 0.3
    """Share of the steps, the last ones, whose weights are averaged; 0: the last weights are used."""

    soft_share: float = 0.7
    """Share of the teachers' opinion in the target, where there are teachers."""


class Batch:
    """Windows padded to one length, with the matrix that averages the tokens of each sentence."""

    def __init__(self, windows: Sequence[Window], device: torch.device) -> None:
        longest = max(len(window.ids) for window in windows)
        longest += -longest % 8
        ids, types, mask = (np.zeros((len(windows), longest), np.int64) for _ in range(3))
        most = max(len(window.spans) for window in windows)
        spans = np.zeros((len(windows), most, longest), np.float32)
        for row, window in enumerate(windows):
            ids[row, : len(window.ids)] = window.ids
            types[row, : len(window.ids)] = window.types
            mask[row, : len(window.ids)] = 1
            for place, span in enumerate(window.spans):
                spans[row, place, span.start : span.end] = 1 / max(1, span.end - span.start)
        self.ids, self.types, self.spans = (torch.from_numpy(array).to(device) for array in (ids, types, spans))
        self.mask = torch.from_numpy(mask).to(device).bool()
        self.present = self.spans.sum(-1) > 0

    def sentence_logits(self, model: Tagger) -> Tensor:
        """Return one logit per sentence; those of absent sentences are meaningless."""
        with torch.autocast(self.ids.device.type, torch.bfloat16):
            tokens = model(self.ids, self.types, self.mask)
        return torch.einsum("rst,rt->rs", self.spans, tokens.float())


def batches_of(lengths: Sequence[int], rng: random.Random | None) -> list[list[int]]:
    """Return batches of indices of about equal length; with a generator, in random order."""
    order = list(range(len(lengths)))
    if rng is None:
        return _cut(sorted(order, key=lambda index: lengths[index]), lengths)
    rng.shuffle(order)
    mean = sum(lengths) / len(lengths)
    bucket = int(_BATCHES_PER_BUCKET * _TOKENS_PER_BATCH / mean)
    batches = list[list[int]]()
    for start in range(0, len(order), bucket):
        part = sorted(order[start : start + bucket], key=lambda index: lengths[index])
        batches += _cut(part, lengths)
    rng.shuffle(batches)
    return batches


def _cut(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    batches, batch = list[list[int]](), list[int]()
    for index in order:
        if batch and (len(batch) + 1) * lengths[index] > _TOKENS_PER_BATCH:
            batches.append(batch)
            batch = []
        batch.append(index)
    return [*batches, batch] if batch else batches


class Targets:
    """The labels of a batch, or the teachers' opinion mixed with them."""

    def __init__(self, examples: Sequence[Example], batch: Batch, soft: Tensor | None, recipe: Recipe) -> None:
        device = batch.ids.device
        labels = np.zeros(tuple(batch.present.shape), np.float32)
        for row, example in enumerate(examples):
            if example.labels is not None:
                labels[row, : len(example.labels)] = example.labels
        rows = [(example.labels is not None, example.weight, example.answer_label) for example in examples]
        has_labels, weights, answers = torch.tensor(rows, dtype=torch.float32, device=device).unbind(1)
        self.sentences = torch.from_numpy(labels).to(device)
        self.answers = answers
        known = batch.present * has_labels[:, None]
        if soft is not None:
            share, opinion = recipe.soft_share, torch.sigmoid(soft)
            mixed = (1 - share) * self.sentences + share * opinion
            self.sentences = torch.where(known > 0, mixed, opinion)
            self.answers = (1 - share) * answers + share * torch.sigmoid(highest(soft, batch))
            known = batch.present.float()
        self.sentence_weights = known * weights[:, None]
        # An answer whose sentences have no labels teaches by its own label alone.
        self.answer_weights = weights * torch.where(has_labels > 0, recipe.answer_loss, 1.0)
        self.weights = weights

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        per_sentence = functional.binary_cross_entropy_with_logits(logits, self.sentences, reduction="none")
        sentence_loss = (per_sentence * self.sentence_weights).sum() / self.sentence_weights.sum().clamp(min=1)
        best = highest(logits, batch)
        per_answer = functional.binary_cross_entropy_with_logits(best, self.answers, reduction="none")
        return sentence_loss + (per_answer * self.answer_weights).sum() / self.weights.sum()


def highest(logits: Tensor, batch: Batch) -> Tensor:
    """Return the highest logit of each answer."""
    return logits.masked_fill(~batch.present, -30.0).amax(1)


def train(
    base: Weights,
    examples: Sequence[Example],
    recipe: Recipe,
    seed: int,
    soft: Sequence[npt.NDArray[np.float32]] | None = None,
) -> Weights:
    """Return the trained weights; `soft` has the teachers' mean logit for each sentence of each example."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tagger(base).to(device).train()
    lengths = [len(example.window.ids) for example in examples]
    steps = [batch for _ in range(recipe.epochs) for batch in batches_of(lengths, rng)]
    optimizer = torch.optim.AdamW(
        model.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    warm_up = max(1, int(recipe.warm_up * len(steps)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, max(0.02, (len(steps) - step) / (len(steps) - warm_up + 1)))
    )
    average = _Average(model)
    skipped = 0
    for step, indices in enumerate(steps):
        chosen = [examples[index] for index in indices]
        batch = Batch([example.window for example in chosen], device)
        opinion = None if soft is None else _padded([soft[index] for index in indices], batch)
        loss = Targets(chosen, batch, opinion, recipe).loss(batch.sentence_logits(model), batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        else:
            skipped += 1
        schedule.step()
        if step >= len(steps) * (1 - recipe.averaged):
            average.add(model)
    if skipped:
        _log.warning("%d of %d steps skipped: their gradients were not finite", skipped, len(steps))
    average.copy_to(model)
    return model.save()


class _Average:
    """The running mean of a model's weights."""

    def __init__(self, model: Tagger) -> None:
        self._count = 0
        self._mean = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def add(self, model: Tagger) -> None:
        self._count += 1
        for mean, parameter in zip(self._mean, model.parameters(), strict=True):
            mean.add_((parameter - mean) / self._count)

    @torch.no_grad()
    def copy_to(self, model: Tagger) -> None:
        if self._count:
            for mean, parameter in zip(self._mean, model.parameters(), strict=True):
                parameter.copy_(mean)


def _padded(rows: Sequence[npt.NDArray[np.float32]], batch: Batch) -> Tensor:
    padded = np.zeros(tuple(batch.present.shape), np.float32)
    for row, values in enumerate(rows):
        padded[row, : len(values)] = values
    return torch.from_numpy(padded).to(batch.ids.device)


@torch.no_grad()
def predict(weights: Weights, windows: Sequence[Window]) -> list[npt.NDArray[np.float32]]:
    """Return the logit of each sentence of each window."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tagger(weights).to(device).eval()
    results: list[npt.NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(windows)
    for indices in batches_of([len(window.ids) for window in windows], None):
        chosen = [windows[index] for index in indices]
        logits = Batch(chosen, device).sentence_logits(model).cpu().numpy()
        for row, index in enumerate(indices):
            results[index] = logits[row, : len(windows[index].spans)]
    return results
