"""Placeto's policy, a small graph network, and REINFORCE: its episodes, and the gradient of what they gain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.baselines.placeto.world import World

#: Episodes side by side: one step of the optimiser.
_BATCH = 8
#: Size of a step; weight of the policy's entropy in the first, which falls to none in the last.
_RATE, _ENTROPY = 0.02, 0.05
#: What a reward one step later counts.
_DISCOUNT = 0.97
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

    So many ``features`` describe a group; ``reads`` (G, G) is 1 where the group of the row reads what the group of the
    column makes, and the generator draws the first weights.
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


def train(world: World, first: Ints, *, episodes: int, seed: int, monitor: Monitor) -> list[float]:
    """Train a policy on a problem; ``world`` keeps the best placement.

    An episode starts from ``first`` and visits the groups in their order; the policy gives each a device with room for
    it beside those visited before, and the reward of the step is by how much the makespan falls; overfull devices make
    it longer. An update follows the gradient of the log probabilities times the discounted sum of later rewards, less
    its mean over the batch at the same step.

    Source: Placeto (2019) for states, actions and rewards; Williams, "Simple statistical gradient-following algorithms
    for connectionist reinforcement learning" (1992).

    ``first`` (G,) is the device of every group at the start; it fits. The number of episodes is rounded up to whole
    updates; same seed and number, same run. Training stops when the monitor does, which gets a report of every better
    makespan. What comes back is, for every update, the mean makespan at the end of its episodes.
    """
    generator = torch.Generator().manual_seed(seed % 2**63)
    features = torch.tensor(world.features(), dtype=torch.float32)
    reads = torch.tensor(world.reads(), dtype=torch.float32)
    devices = world.instance.devices
    policy = Policy(features.shape[1] + devices + 2, reads, devices, generator)
    optimiser = torch.optim.Adam(policy.weights.values(), lr=_RATE)
    means: list[float] = []
    threads = torch.get_num_threads()
    # The network is so small that threads would only wait for each other.
    torch.set_num_threads(1)
    try:
        updates = math.ceil(episodes / _BATCH)
        for update in range(updates):
            batch = _play(policy, world, features, first, generator, monitor)
            if batch is None:
                break
            weight = _ENTROPY * (1 - update / updates)
            values, chances, entropy = batch
            gain = torch.tensor(_advantages(values), dtype=torch.float32)
            loss = -(chances * gain).mean() - weight * entropy
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            means.append(float(values[-1].mean()))
    finally:
        torch.set_num_threads(threads)
    return means


def _play(
    policy: Policy, world: World, features: Any, first: Ints, generator: Any, monitor: Monitor
) -> tuple[Floats, Tensor, Tensor] | None:
    """A batch of episodes from one placement; None if the monitor stops first.

    (G + 1, B) makespans before the first step and after each, (G, B) log probabilities of what was chosen, and the mean
    entropy of the choices.
    """
    count = world.groups.count
    device = np.tile(first, (_BATCH, 1))
    values = np.full((count + 1, _BATCH), world.meet(first, monitor))
    chances, entropies = [], []
    for group in range(count):
        if monitor.stopping:
            return None
        scores = policy.scores(_seen(features, device, group, world.instance.devices), group)
        mask = torch.from_numpy(world.allowed(device, group))
        # Not infinite: that times a probability of 0 is no number.
        chosen = torch.log_softmax(scores.masked_fill(~mask, -1e9), dim=1)
        picks = torch.multinomial(chosen.detach().exp(), 1, generator=generator)
        chances.append(chosen.gather(1, picks)[:, 0])
        entropies.append(-(chosen.exp() * chosen).sum(dim=1).mean())
        for row, d in enumerate(picks[:, 0].tolist()):
            changed = d != device[row, group]
            device[row, group] = d
            values[group + 1, row] = world.meet(device[row], monitor) if changed else values[group, row]
    return values, torch.stack(chances), torch.stack(entropies).mean()


def _seen(features: Any, device: Ints, group: int, devices: int) -> Any:
    """(B, G, features + D + 2) Features, current device, whether it is the group's turn, and whether it was before."""
    batch, count = device.shape
    place = torch.arange(count)
    turn = torch.stack([place == group, place < group], dim=1).float()
    current = torch.nn.functional.one_hot(torch.from_numpy(device).long(), devices).float()
    return torch.cat([features.expand(batch, -1, -1), current, turn.expand(batch, -1, -1)], dim=-1)


def _advantages(values: Floats) -> Floats:
    """(G, B) Discounted later rewards less their mean over the batch, in standard deviations."""
    rewards = values[:-1] - values[1:]
    returns = np.zeros_like(rewards)
    later = np.zeros(rewards.shape[1])
    for step in reversed(range(len(rewards))):
        later = rewards[step] + _DISCOUNT * later
        returns[step] = later
    returns -= returns.mean(axis=1, keepdims=True)
    spread = float(returns.std())
    return returns / spread if spread > 0 else returns
