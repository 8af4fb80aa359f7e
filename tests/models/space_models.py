"""Models for tests of strategy spaces: a transformer layer as in Megatron-LM, and what the papers say about it."""

from __future__ import annotations

import math
from typing import Any

import pytest

import partita as pt
from partita.nouns.graph import Graph

torch = pytest.importorskip("torch", reason="spaces are made from traced models")
nn = torch.nn


class Attention(nn.Module):
    """Fused projection of query, key and value; scores, softmax and dropout one after the other."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.softmax = nn.Softmax(dim=-1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        s, b, h = x.shape
        d = h // self.heads
        q, k, v = self.qkv(x).view(s, b, self.heads, 3 * d).split(d, dim=-1)
        q, k, v = (t.reshape(s, b * self.heads, d).transpose(0, 1) for t in (q, k, v))
        empty = torch.empty(b * self.heads, s, s, dtype=x.dtype)
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0.0, alpha=1 / math.sqrt(d))
        mask = torch.ones(s, s, dtype=torch.bool).triu(1)
        weights = self.drop(self.softmax(scores.view(b, self.heads, s, s).masked_fill(mask, -1e4)))
        context = torch.bmm(weights.view(b * self.heads, s, s), v)
        return self.dense(context.transpose(0, 1).reshape(s, b, h))


class Layer(nn.Module):
    """LayerNorm, attention, dropout, residual; LayerNorm, two products with GeLU between, dropout, residual."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads)
        self.drop = nn.Dropout(0.1)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.drop2 = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        x = x + self.drop(self.attention(self.norm(x)))
        return x + self.drop2(self.down(nn.functional.gelu(self.up(self.norm2(x)))))


class Megatron(nn.Module):
    """Embeddings, layers, final norm, and the loss over the vocabulary with the tied table."""

    def __init__(self, layers: int, hidden: int, heads: int, vocabulary: int, sequence: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(sequence, hidden)
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens: Any, labels: Any) -> Any:
        places = torch.arange(tokens.shape[0])[:, None].expand_as(tokens)
        x = self.drop(self.words(tokens) + self.positions(places))
        for layer in self.layers:
            x = layer(x)
        logits = nn.functional.linear(self.norm(x), self.words.weight)
        return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def megatron(
    *, layers: int = 3, hidden: int = 1024, heads: int = 16, sequence: int = 512, batch: int = 2, vocabulary: int = 5120
) -> Graph:
    """The model above, traced in half precision; s = sequence, b = batch, h = hidden, a = heads."""
    with torch.device("meta"):
        model = Megatron(layers, hidden, heads, vocabulary, sequence).half().train()
        tokens = torch.zeros(sequence, batch, dtype=torch.int64)
    return pt.trace(model, (tokens, tokens), training=True)
