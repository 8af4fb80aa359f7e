"""Models for tests of profiles, as a user's file has them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Attending(nn.Module):
    """Embedding, one block with attention, and a head tied to the embedding."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.table = nn.Embedding(20, width)
        self.blocks = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        for block in self.blocks:
            query, key, value = (part.unsqueeze(1) for part in block(x).chunk(3, dim=-1))
            x = x + functional.scaled_dot_product_attention(query, key, value, is_causal=True).squeeze(1)
        return self.norm(x) @ self.table.weight.t()


def attending(batch_size: int = 2, width: int = 16, depth: int = 2) -> tuple[nn.Module, tuple[Any, ...]]:
    """The model with tokens."""
    return Attending(width, depth), (torch.randint(20, (batch_size, 8)),)


class Fickle(nn.Module):
    """A module that does something else every third time."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.runs = 0

    def forward(self, x: Any) -> Any:
        self.runs += 1
        return self.linear(x) if self.runs % 3 else self.linear(x).tanh()


def fickle() -> tuple[nn.Module, tuple[Any, ...]]:
    """The module with its argument."""
    return Fickle(), (torch.ones(2, 4),)


class Dying(nn.Module):
    """A module that ends its process when it is run on data."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        import os
        import signal

        if not isinstance(x, torch._subclasses.FakeTensor):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.linear(x)


def dying() -> tuple[nn.Module, tuple[Any, ...]]:
    """The module with its argument."""
    return Dying(), (torch.ones(2, 4),)
