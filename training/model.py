"""The tagger in PyTorch: a BERT encoder with one logit per token."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from training.base import Weights, layer_count

HEADS = 12
_EPSILON = 1e-12
_DROPOUT = 0.1


class Layer(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.attended_norm = nn.LayerNorm(width, _EPSILON)
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.outer_norm = nn.LayerNorm(width, _EPSILON)
        self.dropout = nn.Dropout(_DROPOUT)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        records, tokens, width = hidden.shape
        qkv = self.qkv(hidden).view(records, tokens, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        dropout = _DROPOUT if self.training else 0.0
        # In single precision: in half precision, some gradients of e5-small are not finite.
        query, key, value = qkv.float()
        with torch.autocast(hidden.device.type, enabled=False):
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        mixed = mixed.transpose(1, 2).reshape(records, tokens, width)
        hidden = self.attended_norm(hidden + self.dropout(self.attended(mixed)))
        return self.outer_norm(hidden + self.dropout(self.outer(functional.gelu(self.inner(hidden)))))


class Tagger(nn.Module):
    def __init__(self, weights: Weights) -> None:
        super().__init__()
        vocabulary, width = weights["embeddings.word_embeddings.weight"].shape
        inner = weights["encoder.layer.0.intermediate.dense.kernel"].shape[1]
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(512, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, _EPSILON)
        self.dropout = nn.Dropout(_DROPOUT)
        self.layers = nn.ModuleList(Layer(width, inner) for _ in range(layer_count(weights)))
        self.head = nn.Linear(width, 1)
        # All seeds start from the same point, so that their weights can be averaged.
        nn.init.normal_(self.head.weight, std=0.05, generator=torch.Generator().manual_seed(0))
        nn.init.zeros_(self.head.bias)
        self.load(weights)

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        positions = self.positions.weight[: ids.shape[1]]
        hidden = self.dropout(self.norm(self.words(ids) + self.types(types) + positions))
        for layer in self.layers:
            hidden = layer(hidden, mask[:, None, None, :])
        logits: Tensor = self.head(self.dropout(hidden)).squeeze(-1)
        return logits

    def _parts(self) -> dict[str, nn.Parameter]:
        """Return the parameters by their names in `Weights`; the merged projections are not among them."""
        parts = {
            "embeddings.word_embeddings.weight": self.words.weight,
            "embeddings.position_embeddings.weight": self.positions.weight,
            "embeddings.token_type_embeddings.weight": self.types.weight,
            **_named("embeddings.LayerNorm", self.norm),
            **_named("head", self.head),
        }
        for number, layer in enumerate(self.layers):
            name = f"encoder.layer.{number}"
            parts |= _named(f"{name}.attention.output.dense", layer.attended)
            parts |= _named(f"{name}.attention.output.LayerNorm", layer.attended_norm)
            parts |= _named(f"{name}.intermediate.dense", layer.inner)
            parts |= _named(f"{name}.output.dense", layer.outer)
            parts |= _named(f"{name}.output.LayerNorm", layer.outer_norm)
        return parts

    @torch.no_grad()
    def load(self, weights: Weights) -> None:
        for name, parameter in self._parts().items():
            if name in weights:  # A base has no head.
                array = torch.from_numpy(weights[name])
                parameter.copy_(array.T if name.endswith(".kernel") else array)
        for number, layer in enumerate(self.layers):
            parts = [f"encoder.layer.{number}.attention.self.{part}" for part in ("query", "key", "value")]
            layer.qkv.weight.copy_(torch.cat([torch.from_numpy(weights[f"{part}.kernel"]).T for part in parts]))
            layer.qkv.bias.copy_(torch.cat([torch.from_numpy(weights[f"{part}.bias"]) for part in parts]))

    @torch.no_grad()
    def save(self) -> Weights:
        weights = {
            name: np.ascontiguousarray((part.T if name.endswith(".kernel") else part).float().cpu().numpy())
            for name, part in self._parts().items()
        }
        for number, layer in enumerate(self.layers):
            parts = zip(("query", "key", "value"), layer.qkv.weight.chunk(3), layer.qkv.bias.chunk(3), strict=True)
            for part, kernel, bias in parts:
                name = f"encoder.layer.{number}.attention.self.{part}"
                weights[f"{name}.kernel"] = np.ascontiguousarray(kernel.T.float().cpu().numpy())
                weights[f"{name}.bias"] = bias.float().cpu().numpy().copy()
        return weights


def _named(name: str, module: nn.Module) -> dict[str, nn.Parameter]:
    matrix = "kernel" if isinstance(module, nn.Linear) else "weight"
    return {f"{name}.{matrix}": module.weight, f"{name}.bias": module.bias}  # type: ignore[dict-item]
