"""Small models in a file, as users have them, that plans are exported and run of."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Block(nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Decoder(nn.Module):
    """A chain of blocks with embedding and head, written so that parts may be missing, as torchtitan's models are."""

    def __init__(self, depth: int = 4, width: int = 16, *, tied: bool = False) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(12, width)
        self.layers = nn.ModuleList([Block(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, 12, bias=False)
        if tied:
            self.output.weight = self.tok_embeddings.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x if self.tok_embeddings is None else self.tok_embeddings(x)
        for layer in self.layers:
            h = layer(h)
        h = h if self.norm is None else self.norm(h)
        return h if self.output is None else self.output(h)


class Masked(Decoder):
    """Every block is masked by the same mask, which follows from the tokens alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (x > 3).float().unsqueeze(-1)
        h = self.tok_embeddings(x)
        for layer in self.layers:
            h = layer(h) * mask
        return self.output(self.norm(h))


class Positions(nn.Module):
    """A decoder without embedding, whose weight for positions is the model's own."""

    def __init__(self, depth: int = 4, width: int = 16) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(8, width))
        self.layers = nn.ModuleList([Block(width) for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.positions
        for layer in self.layers:
            h = layer(h)
        return h


class UNet(nn.Module):
    """Two skip connections; no list of layers."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)
        self.c = nn.Conv2d(width, width, 3, padding=1)
        self.d = nn.Conv2d(2 * width, width, 3, padding=1)
        self.e = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.relu(self.a(x))
        b = torch.relu(self.b(a))
        c = torch.relu(self.c(b))
        d = torch.relu(self.d(torch.cat([c, b], 1)))
        return self.e(torch.cat([d, a], 1))


def decoder(batch_size: int = 2) -> tuple[Any, tuple[Any, ...]]:
    """A decoder and tokens for it."""
    return Decoder(), (torch.arange(batch_size * 8).reshape(batch_size, 8) % 12,)


def tied(batch_size: int = 2) -> tuple[Any, tuple[Any, ...]]:
    """A decoder whose head is its embedding."""
    return Decoder(tied=True), (torch.arange(batch_size * 8).reshape(batch_size, 8) % 12,)


def masked(batch_size: int = 2) -> tuple[Any, tuple[Any, ...]]:
    """A decoder with a mask."""
    return Masked(), (torch.arange(batch_size * 8).reshape(batch_size, 8) % 12,)


def positions(batch_size: int = 2) -> tuple[Any, tuple[Any, ...]]:
    """A model with a weight of its own, and embedded tokens."""
    return Positions(), (torch.randn(batch_size, 8, 16),)


def unet(batch_size: int = 2) -> tuple[Any, tuple[Any, ...]]:
    """A U-Net and images for it."""
    return UNet(), (torch.randn(batch_size, 3, 8, 8),)
