"""Small models that are hard to split."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Tied(nn.Module):
    """An embedding that is also the head, dropout, and a value that is read late."""

    def __init__(self, width: int = 16, words: int = 31) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        first = x = self.embed(ids)
        for layer in self.layers:
            x = x + functional.dropout(torch.relu(layer(x)), 0.2, self.training)
        return self.head(self.norm(x + first))


def tied(batch_size: int = 2):
    return Tied(), (torch.randint(31, (batch_size, 5)),)


class Tricky(nn.Module):
    """Writes in place, also into views; slices; running statistics; constants; a part without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 24)
        self.norm = nn.BatchNorm1d(8)
        self.outer = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.ones(8))
        self.table = torch.linspace(0, 1, 8)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        a, b, c = self.inner(x).chunk(3, dim=-1)
        y = torch.zeros_like(a)
        y[:, ::2] = a[:, ::2] * self.scale[::2]
        y[:, 1::2] = b[:, 1::2]
        y.mul_(2.0)
        z = self.norm(y + c.detach() * self.table)
        z.add_(torch.arange(8.0)).mul_(0.5)
        with torch.no_grad():
            shift = z.mean(dim=0, keepdim=True)
        y.add_(z)
        out = self.outer(y - shift).t().contiguous().view(-1)
        return {"out": out.view(8, -1), "shift": shift.expand(2, 8), "noise": out * torch.rand_like(out)}


def tricky(batch_size: int = 4):
    return Tricky(), (torch.randn(batch_size, 8),)


class UNet(nn.Module):
    """Down and up again, with skips between."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.deep = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.SiLU())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = nn.Conv2d(2 * width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = functional.silu(self.enter(x))
        x = self.deep(functional.silu(self.down(skip)))
        return self.leave(torch.cat([self.up(x), skip], dim=1))


def unet(batch_size: int = 2):
    return UNet(), (torch.randn(batch_size, 3, 8, 8),)


class Recurrent(nn.Module):
    """A recurrent layer in both directions, and attention with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.3)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.gru(x)
        return y + self.attention(y, y, y, need_weights=False)[0]


def recurrent(batch_size: int = 2):
    return Recurrent(), (torch.randn(batch_size, 5, 6),)


class Noisy(nn.Module):
    """Every function that draws random numbers, beside attention that draws none; a layer that may be dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(19))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layer, on = iter(self.layers), self.training
        heads = next(layer)(x)[:, None]
        x = functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)[:, 0]
        x = functional.dropout(next(layer)(x), 0.3, on)
        x = functional.dropout(next(layer)(x), 0.3, on, inplace=True)
        x = functional.alpha_dropout(next(layer)(x), 0.3, on)
        x = functional.feature_alpha_dropout(next(layer)(x), 0.3, on)
        x = functional.dropout1d(next(layer)(x), 0.3, on)
        x = functional.dropout2d(next(layer)(x)[:, :, None], 0.3, on)[:, :, 0]
        x = functional.dropout3d(next(layer)(x)[None, None], 0.2, on)[0, 0]
        x = functional.rrelu(next(layer)(x), training=on)
        x = functional.gumbel_softmax(next(layer)(x))
        x = next(layer)(x) * torch.bernoulli(torch.full_like(x, 0.5))
        x = next(layer)(x) + torch.randn_like(x) + torch.rand(x.shape) + torch.randint(0, 3, x.shape)
        x = next(layer)(x) + torch.empty_like(x).normal_() + torch.normal(x, 0.1)
        x = torch.dropout(next(layer)(x), 0.2, on) + torch.feature_dropout(next(layer)(x), 0.2, on)
        heads = next(layer)(x)[:, None]
        x = functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.2 if on else 0.0)[:, 0]
        x = next(layer)(x)[:, torch.randperm(4)]
        if torch.rand(()) < 0.5:
            return x
        return next(layer)(x) * torch.rand(()) + torch.multinomial(x.detach().softmax(-1)[0], 8)


def noisy(batch_size: int = 2):
    return Noisy(), (torch.randn(batch_size, 4, 8),)


class Shifted(nn.Module):
    """Writes a literal into what it is given, as models that shift their labels do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.head = nn.Linear(8, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        shifted = ids.new_zeros(ids.shape)
        shifted[:, 1:] = ids[:, :-1].clone()
        shifted[:, 0] = torch.tensor(5)
        return self.head(self.embed(shifted))


def shifted(batch_size: int = 2):
    return Shifted(), (torch.randint(7, (batch_size, 5)),)


def beyond(batch_size: int = 2):
    """Looks up a row that is not there, which nobody sees before it runs."""
    return Tied(), (torch.full((batch_size, 5), 31),)
