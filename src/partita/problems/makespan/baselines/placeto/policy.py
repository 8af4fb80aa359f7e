"""A small graph network that gives a group of operators a device: Placeto's policy."""

from __future__ import annotations

import math
from typing import Any

import torch

#: Width of an embedding, and rounds of messages in each direction.
_WIDTH, _ROUNDS = 16, 3

Tensor = Any


class Policy:
    """Scores of the devices for one group at a time.

    Messages pass along the edges, ``_ROUNDS`` times, once downwards and once upwards with weights of their own; the
    embeddings of the group's ancestors, its descendants and all others are averaged, and with its own embedding they
    give a score to each device.

    Source: Addanki et al., "Placeto: Learning Generalizable Device Placement Algorithms for Distributed Machine
    Learning" (2019): message passing, pooling and policy network.

    Parameters
    ----------
    features
        Numbers that describe a group.
    reads
        (G, G) 1 where the group of the row reads what the group of the column makes.
    devices
        How many there are.
    generator
        Draws the first weights.
    """

    def __init__(self, features: int, reads: Tensor, devices: int, generator: Any) -> None:
        count = reads.shape[0]
        self.ways = [_averages(reads), _averages(reads.T)]
        before = _reach(reads)
        others = 1.0 - torch.clamp(before + before.T + torch.eye(count), max=1.0)
        self.pools = torch.stack([_averages(before), _averages(before.T), _averages(others)], dim=1)
        self.weights: dict[str, Tensor] = {}

        def layer(name: str, inputs: int, outputs: int, scale: float = 1.0) -> None:
            drawn = torch.randn(inputs, outputs, generator=generator) * (scale / math.sqrt(inputs))
            self.weights[name] = drawn.requires_grad_()
            self.weights[f"{name} bias"] = torch.zeros(outputs, requires_grad=True)

        layer("enter", features, _WIDTH)
        for way in ("down", "up"):
            layer(f"{way} message", _WIDTH, _WIDTH)
            layer(f"{way} update", _WIDTH, _WIDTH)
        layer("pool", 2 * _WIDTH, _WIDTH)
        layer("hidden", 5 * _WIDTH, 2 * _WIDTH)
        # Small, so that the first choices are nearly uniform.
        layer("leave", 2 * _WIDTH, devices, 0.1)

    def parameters(self) -> list[Tensor]:
        """What is trained."""
        return list(self.weights.values())

    def _layer(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weights[name] + self.weights[f"{name} bias"]

    def scores(self, x: Tensor, group: int) -> Tensor:
        """(B, devices) scores of one group's devices, from the features (B, G, features) of all groups."""
        entered = torch.relu(self._layer("enter", x))
        embedded = []
        for way, average in zip(("down", "up"), self.ways, strict=True):
            h = entered
            for _ in range(_ROUNDS):
                heard = average @ torch.relu(self._layer(f"{way} message", h))
                h = entered + torch.relu(self._layer(f"{way} update", heard))
            embedded.append(h)
        both = torch.cat(embedded, dim=-1)
        pooled = torch.relu(self._layer("pool", self.pools[group] @ both))
        seen = torch.cat([both[:, group], pooled.flatten(1)], dim=-1)
        return self._layer("leave", torch.relu(self._layer("hidden", seen)))


def _averages(rows: Tensor) -> Tensor:
    """Rows divided by their sums; those of zeros stay."""
    return rows / rows.sum(dim=1, keepdim=True).clamp(min=1.0)


def _reach(reads: Tensor) -> Tensor:
    """1 where a path leads from the column's group to the row's, by squaring."""
    found = reads
    for _ in range(max(1, reads.shape[0]).bit_length()):
        found = torch.clamp(found + found @ found, max=1.0)
    return found
