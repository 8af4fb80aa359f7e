"""Models that benchmarks run, small enough for two processor cores: ``python`` callables as users write them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """A block of a decoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        parts = self.into(self.before(x)).chunk(3, dim=-1)
        query, key, value = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.behind(x))))


class Decoder(nn.Module):
    """Blocks of given widths, with projections between, an embedding and a head; tied if the widths allow."""

    def __init__(self, widths: list[int], words: int, tied: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(words, widths[0])
        self.blocks = nn.ModuleList()
        for width, after in zip(widths, [*widths[1:], widths[-1]], strict=True):
            block = [Attention(width, max(1, width // 64))]
            self.blocks.append(nn.Sequential(*block, *([] if after == width else [nn.Linear(width, after)])))
        self.head = nn.Linear(widths[-1], words, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class Residual(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.around = nn.Conv2d(before, after, 1, stride) if (before, stride) != (after, 1) else nn.Identity()

    def forward(self, x: Any) -> Any:
        out = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(out)) + self.around(x))


class Convolutions(nn.Module):
    """Residual blocks of given channels; a negative number halves the image."""

    def __init__(self, channels: list[int]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, abs(channels[0]), 3, padding=1)
        self.blocks = nn.ModuleList()
        before = abs(channels[0])
        for entry in channels:
            self.blocks.append(Residual(before, abs(entry), 2 if entry < 0 else 1))
            before = abs(entry)
        self.head = nn.Linear(before, 100)

    def forward(self, images: Any, labels: Any) -> Any:
        x = self.stem(images)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x.mean(dim=(2, 3))), labels)


class Layers(nn.Module):
    """Linear layers of given widths."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = functional.gelu(layer(x))
        return x.square().mean()


def _tokens(words: int, batch_size: int, length: int) -> tuple[Any, ...]:
    return (torch.randint(words, (batch_size, length)),)


def _images(batch_size: int, side: int) -> tuple[Any, ...]:
    return torch.randn(batch_size, 3, side, side), torch.randint(100, (batch_size,))


def decoder() -> tuple[nn.Module, tuple[Any, ...]]:
    """Eight equal blocks."""
    return Decoder([256] * 8, 2000, tied=False), _tokens(2000, 2, 128)


def residual() -> tuple[nn.Module, tuple[Any, ...]]:
    """A residual network whose blocks differ."""
    return Convolutions([32, 32, 32, -64, 64, 64, -128, 128]), _images(8, 32)


def layers() -> tuple[nn.Module, tuple[Any, ...]]:
    """Sixteen equal layers."""
    return Layers([768] * 17), (torch.randn(256, 768),)


def wide_table() -> tuple[nn.Module, tuple[Any, ...]]:
    """Most parameters and much of the work at the end: a head over many words."""
    return Decoder([192] * 8, 12000, tied=False), _tokens(12000, 2, 96)


def narrowing() -> tuple[nn.Module, tuple[Any, ...]]:
    """Blocks that become narrower."""
    return Decoder([448, 384, 320, 256, 192, 128, 128, 128], 1000, tied=False), _tokens(1000, 2, 128)


def large_images() -> tuple[nn.Module, tuple[Any, ...]]:
    """Most work at the beginning, where images are large, and most parameters at the end."""
    return Convolutions([32, 32, -64, 64, -128, 128, -256, 256]), _images(4, 48)


def hourglass() -> tuple[nn.Module, tuple[Any, ...]]:
    """Wide layers at both ends and narrow ones between."""
    return Layers([1536, 1024, 768, 512, 384, 256, 256, 256, 384, 512, 1536, 1536, 1536]), (torch.randn(256, 1536),)


def one_giant() -> tuple[nn.Module, tuple[Any, ...]]:
    """Layers of one size, and two that are much larger at one end."""
    return Layers([512] * 13 + [2560, 2048]), (torch.randn(256, 512),)
