"""Shortest paths over the devices of the separators of a chain, for whatever lengths the blocks are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.problems.makespan.separators import Chain

#: A block and the places of its ends among the devices; a block without such an end has −1 there.
Step = tuple[int, int, int]


@dataclass(frozen=True)
class Lengths:
    """How far every separator, on every device, is from both ends.

    Attributes
    ----------
    steps
        For every block the table of its lengths, by the places of its ends.
    forward
        For every node of a row the length of the shortest path to its end, its own time included.
    backward
        The same from its start to the end of the whole.
    """

    steps: list[Floats]
    forward: list[Floats]
    backward: list[Floats]

    @property
    def total(self) -> float:
        """Of the shortest path; infinite if there is none."""
        return float(self.forward[-1][0])

    def besides(self, number: int, i: int, j: int) -> float:
        """The shortest path through an arc, without the arc; ends by their place in their rows."""
        return float(self.forward[number][i] + self.backward[number + 1][j])

    def path(self) -> list[tuple[int, int, int]]:
        """Block, and the places of its ends in their rows, of the arcs of a shortest path, the first of equal ones."""
        found, j = [], 0
        for k in range(len(self.steps) - 1, -1, -1):
            i = int((self.forward[k] + self.steps[k][:, j]).argmin())
            found.append((k, i, j))
            j = i
        return found[::-1]


def rows_of(chain: Chain) -> list[list[int]]:
    """Where each separator can run; one place, −1, before the first and after the last block."""
    time = chain.instance.arrays.time
    inner = [[d for d in range(time.shape[1]) if np.isfinite(time[s, d])] for s in chain.separators]
    return [[-1], *inner, [-1]]


def lengths(chain: Chain, rows: list[list[int]], length: Callable[[int, int, int], float]) -> Lengths:
    """The shortest paths for the length of every block between two devices."""
    time = chain.instance.arrays.time
    own = [np.zeros(1), *(time[s, row] for s, row in zip(chain.separators, rows[1:-1], strict=True)), np.zeros(1)]
    steps = [
        np.array([[length(k, a, b) for b in rows[k + 1]] for a in rows[k]], dtype=np.float64)
        for k in range(len(chain.blocks))
    ]
    forward, backward = [own[0]], [own[-1]]
    for k, step in enumerate(steps):
        forward.append((forward[-1][:, None] + step).min(axis=0) + own[k + 1])
    for k in range(len(steps) - 1, -1, -1):
        backward.append((steps[k] + backward[-1][None, :]).min(axis=1) + own[k])
    return Lengths(steps, forward, backward[::-1])
