"""Language models as published training runs had them, for ``partita plan examples/language_models.py:NAME``.

``megatron_gpt`` is the GPT of Megatron-LM before fused attention kernels: sequence first, biases, dropout, the score
matrix in memory. ``flash_gpt`` is the GPT of MosaicML's llm-foundry (MPT): fused attention, no biases, no dropout.
``llama`` is Llama: norms without mean, rotary positions, gated MLP, shared heads of keys and values.

Each takes the model's size, ``batch_size`` and ``sequence_length``, and gives a module whose output is the loss.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


def megatron_gpt(
    layers: int = 24,
    hidden: int = 2304,
    heads: int = 24,
    vocabulary: int = 51200,
    batch_size: int = 1,
    sequence_length: int = 2048,
) -> tuple[nn.Module, tuple[Any, ...]]:
    """A GPT with attention in single operators, as Megatron-LM ran it until 2023."""
    block = lambda: _Block(hidden, _ScoreAttention(hidden, heads), bias=True, dropout=0.1)  # noqa: E731
    model = _Gpt(layers, hidden, vocabulary, sequence_length, block, bias=True, dropout=0.1)
    tokens = torch.zeros(sequence_length, batch_size, dtype=torch.int64)
    return model, (tokens, tokens)


def flash_gpt(
    layers: int = 32,
    hidden: int = 4096,
    heads: int = 32,
    vocabulary: int = 50368,
    batch_size: int = 1,
    sequence_length: int = 2048,
) -> tuple[nn.Module, tuple[Any, ...]]:
    """A GPT with fused attention, without biases and dropout."""
    block = lambda: _Block(hidden, _FusedAttention(hidden, heads), bias=False, dropout=0.0)  # noqa: E731
    model = _Gpt(layers, hidden, vocabulary, sequence_length, block, bias=False, dropout=0.0)
    tokens = torch.zeros(batch_size, sequence_length, dtype=torch.int64)
    return model, (tokens, tokens)


def llama(
    layers: int = 32,
    hidden: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    intermediate: int = 14336,
    vocabulary: int = 128256,
    tied: bool = False,
    batch_size: int = 1,
    sequence_length: int = 2048,
) -> tuple[nn.Module, tuple[Any, ...]]:
    """A Llama."""
    model = _Llama(layers, hidden, heads, kv_heads, intermediate, vocabulary, tied)
    tokens = torch.zeros(batch_size, sequence_length, dtype=torch.int64)
    return model, (tokens, tokens)


class _ScoreAttention(nn.Module):
    """Product, mask, softmax, dropout and product, one after the other; sequence first."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        s, b, h = x.shape
        d = h // self.heads
        q, k, v = self.qkv(x).view(s, b, self.heads, 3 * d).split(d, dim=-1)
        q, k, v = (t.reshape(s, b * self.heads, d).transpose(0, 1) for t in (q, k, v))
        # Megatron-LM scales and masks the scores inside the kernels of the product and of the softmax.
        weights = self.drop(torch.bmm(q, k.transpose(1, 2)).softmax(dim=-1))
        context = torch.bmm(weights, v)
        return self.dense(context.transpose(0, 1).reshape(s, b, h))


class _FusedAttention(nn.Module):
    """Causal attention in one kernel; batch first."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.dense = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Any) -> Any:
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dense(out.transpose(1, 2).reshape(b, s, h))


class _Block(nn.Module):
    """Norm and attention, norm and two products with GeLU between, each with dropout beside a residual."""

    def __init__(self, hidden: int, attention: nn.Module, *, bias: bool, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden, bias=bias)
        self.attention = attention
        self.norm2 = nn.LayerNorm(hidden, bias=bias)
        self.up = nn.Linear(hidden, 4 * hidden, bias=bias)
        self.down = nn.Linear(4 * hidden, hidden, bias=bias)
        self.drop = nn.Dropout(dropout)
        self.drop2 = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        x = x + self.drop(self.attention(self.norm(x)))
        return x + self.drop2(self.down(functional.gelu(self.up(self.norm2(x)))))


class _Gpt(nn.Module):
    """Embeddings, blocks, final norm, and the loss over the vocabulary with the tied table."""

    def __init__(
        self, layers: int, hidden: int, vocabulary: int, sequence: int, block: Any, *, bias: bool, dropout: float
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(sequence, hidden)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList(block() for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, bias=bias)
        self.batch_first = dropout == 0.0

    def forward(self, tokens: Any, labels: Any) -> Any:
        places = torch.arange(tokens.shape[1 if self.batch_first else 0])
        if not self.batch_first:
            places = places[:, None]
        x = self.drop(self.words(tokens) + self.positions(places.expand_as(tokens)))
        for layer in self.layers:
            x = layer(x)
        return _loss(functional.linear(self.norm(x), self.words.weight), labels)


class _RmsNorm(nn.Module):
    """x over the root of its mean square, computed in float32."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Any) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class _LlamaBlock(nn.Module):
    """Norm and attention, norm and gated MLP, each beside a residual."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, intermediate: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, hidden // heads
        self.norm = _RmsNorm(hidden)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.value = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.dense = nn.Linear(hidden, hidden, bias=False)
        self.norm2 = _RmsNorm(hidden)
        self.gate = nn.Linear(hidden, intermediate, bias=False)
        self.up = nn.Linear(hidden, intermediate, bias=False)
        self.down = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        b, s, _ = x.shape
        y = self.norm(x)
        q = _rotate(self.query(y).view(b, s, self.heads, self.width).transpose(1, 2), cos, sin)
        k = _rotate(self.key(y).view(b, s, self.kv_heads, self.width).transpose(1, 2), cos, sin)
        v = self.value(y).view(b, s, self.kv_heads, self.width).transpose(1, 2)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.dense(out.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class _Llama(nn.Module):
    """Embedding, blocks, final norm, and the loss over the vocabulary."""

    def __init__(
        self, layers: int, hidden: int, heads: int, kv_heads: int, intermediate: int, vocabulary: int, tied: bool
    ) -> None:
        super().__init__()
        self.width = hidden // heads
        self.words = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(_LlamaBlock(hidden, heads, kv_heads, intermediate) for _ in range(layers))
        self.norm = _RmsNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = self.words(tokens)
        rates = 500000.0 ** (-torch.arange(0, self.width, 2, dtype=torch.float32) / self.width)
        angles = torch.outer(torch.arange(tokens.shape[1], dtype=torch.float32), rates).repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return _loss(self.head(self.norm(x)), labels)


def _rotate(x: Any, cos: Any, sin: Any) -> Any:
    """Rotary positions: the two halves of each head as the parts of complex numbers."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def _loss(logits: Any, labels: Any) -> Any:
    """Mean cross-entropy in float32."""
    return functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.reshape(-1))
