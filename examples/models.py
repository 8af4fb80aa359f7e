"""Models for ``partita plan examples/models.py:NAME`` and ``partita run``: small, and each hard to split in its way."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions with batch normalisation."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class UNet(nn.Module):
    """Ronneberger et al. (2015): down and up again, with a skip connection at every level."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(levels + 1)]
        self.enter = Block(3, width)
        self.down = nn.ModuleList(Block(a, b) for a, b in itertools.pairwise(sizes))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in itertools.pairwise(sizes))
        self.up = nn.ModuleList(Block(2 * a, a) for a in sizes[:-1])
        self.leave = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = [self.enter(x)]
        for block in self.down:
            skips.append(block(functional.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for widen, block in zip(reversed(self.widen), reversed(self.up), strict=True):
            x = block(torch.cat([widen(x), skips.pop()], dim=1))
        return self.leave(x)


def unet(batch_size: int = 2, width: int = 8, levels: int = 2, side: int = 32):
    return UNet(width, levels), (torch.randn(batch_size, 3, side, side),)


class TiedModel(nn.Module):
    """A language model whose head is its embedding: with both ends on different stages, the weight is on two."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def tied(batch_size: int = 2, sequence_length: int = 16, words: int = 101, width: int = 32, layers: int = 4):
    tokens, labels = torch.randint(words, (2, batch_size, sequence_length))
    return TiedModel(words, width, layers), (tokens, labels)


class Layers(nn.Module):
    """Residual layers that are all alike, so that halves of them are balanced."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def layers(batch_size: int = 64, width: int = 256, layers: int = 8):
    return Layers(width, layers), (torch.randn(batch_size, width),)
