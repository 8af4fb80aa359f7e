"""Placements as the users of other systems get them: by greedy covering, in equal parts, or on machines of one kind.

Sources: Petals (Borzunov et al., "Distributed Inference and Fine-tuning of Large Language Models Over the Internet",
2023; ``block_selection.py``), SWARM (Ryabinin et al., "SWARM Parallelism", ICML 2023), and what Helix (§6.2) compares
with: both of these and separate pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.options import Outcome, Solver
from partita.problems.layer_placement.problem import LayerPlacementProblem

#: Intervals by machine.
Held = Mapping[int, tuple[int, int]]
Rule = Callable[[LayerInstance], Held]


class LayerPlacementBaseline(Solver):
    """The intervals of a rule, with a largest flow; it makes none where no tokens flow."""

    name = summary = ""

    def __init__(self, name: str, summary: str, rule: Rule) -> None:
        self.name, self.summary, self.rule = name, summary, rule

    def solve(self, problem: LayerPlacementProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        instance = LayerInstance(problem)
        held = self.rule(instance)
        if not held:
            return Outcome(None, reason="it finds no machines that hold all layers")
        if instance.flow(held) == 0:
            return Outcome(
                None, reason="no tokens flow: its machines do not begin where others end, or no link joins them"
            )
        return Outcome(instance.plan(held))


def _fit(instance: LayerInstance) -> list[int]:
    """The most layers that every machine holds, by its table: as many as its memory has room for, anywhere."""
    sizes = np.arange(instance.rate.shape[1])
    anywhere = np.minimum(instance.rate, np.minimum(instance.first_rate, instance.last_rate))
    return [int(k) for k in np.where(anywhere > 0, sizes, 0).max(axis=1)]


def petals(instance: LayerInstance) -> Held:
    """Machines join in turn, each with as many layers as it has room for, where the least tokens pass so far.

    That is where the rates of the layers in its window, sorted, come first in the dictionary.
    """
    passed = np.zeros(instance.layers)
    held: dict[int, tuple[int, int]] = {}
    for i, k in enumerate(_fit(instance)):
        if k:
            first = min(range(instance.layers - k + 1), key=lambda a: (sorted(passed[a : a + k].tolist()), a))
            passed[first : first + k] += instance.rate[i, k]
            held[i] = (first, first + k)
    return held


def swarm(instance: LayerInstance) -> Held:
    """As few equal stages as the smallest machine has room for; machines go, fastest first, where the least pass."""
    room = [k for k in _fit(instance) if k]
    stages = -(-instance.layers // min(room)) if room else 0
    cuts = [instance.layers * s // max(1, stages) for s in range(stages + 1)]
    passed = [0.0] * stages
    held: dict[int, tuple[int, int]] = {}
    longest = -(-instance.layers // max(1, stages))
    usual = np.array([row[min(longest, len(row) - 1)] for row in instance.rate])
    for i in np.argsort(-usual, kind="stable").tolist():
        s = min(range(stages), key=lambda s: (passed[s], s), default=None)
        if s is not None and (rate := float(instance.rate[i, cuts[s + 1] - cuts[s]])):
            passed[s] += rate
            held[i] = (cuts[s], cuts[s + 1])
    return held


def equal_layers(instance: LayerInstance) -> Held:
    """All machines in a row, in the order of the file, with as equal numbers of layers as can be."""
    used = min(instance.count, instance.layers)
    return {i: (instance.layers * i // used, instance.layers * (i + 1) // used) for i in range(used)}


def _pipelines(instance: LayerInstance, members: Sequence[int]) -> tuple[float, Held]:
    """Machines of one kind as the best number of equal pipelines, each with equal layers; what these pass."""
    best: tuple[float, Held] = (0.0, {})
    table = instance.rate[members[0]]
    for pipelines in range(1, len(members) + 1):
        length = min(len(members) // pipelines, instance.layers)
        cuts = [instance.layers * s // length for s in range(length + 1)]
        longest = max(b - a for a, b in pairwise(cuts))
        if longest >= len(table):
            continue
        rate = pipelines * min(float(table[b - a]) for a, b in pairwise(cuts))
        if rate > best[0]:
            best = (
                rate,
                {members[p * length + s]: (cuts[s], cuts[s + 1]) for p in range(pipelines) for s in range(length)},
            )
    return best


def one_kind(instance: LayerInstance) -> Held:
    """The kind whose pipelines pass the most; the other machines hold nothing."""
    return max((_pipelines(instance, members) for members in instance.kinds), key=lambda one: one[0])[1]


def separate_pipelines(instance: LayerInstance) -> Held:
    """Every kind its own pipelines, beside each other."""
    return {i: layers for members in instance.kinds for i, layers in _pipelines(instance, members)[1].items()}


#: What the rules say of themselves.
_RULES: tuple[tuple[str, str, Rule], ...] = (
    ("petals", "machines join where the least tokens pass so far, with all layers they have room for", petals),
    ("swarm", "equal stages that the smallest machine has room for, machines where the least tokens pass", swarm),
    ("equal layers", "all machines in a row with equal numbers of layers", equal_layers),
    ("one kind", "equal pipelines on the one kind of machine that passes most; the others idle", one_kind),
    ("separate pipelines", "equal pipelines on every kind of machine by itself", separate_pipelines),
)

RULES: tuple[LayerPlacementBaseline, ...] = tuple(LayerPlacementBaseline(*one) for one in _RULES)
