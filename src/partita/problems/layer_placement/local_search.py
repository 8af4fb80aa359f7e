"""Annealing on rows of machines for one flow after the other, between the best plan and the best bound.

Source: own; the moves are those of ``partita.engines.kernels.layer_placement.anneal``. A row in which every group
passes the flow and all groups together hold all layers is cut to exactly these layers, and its largest flow is the
plan's worth, whatever was looked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.layer_placement.anneal import LayerRows, anneal_rows, group_layers
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import TOLERANCE
from partita.problems.annealing import AnnealingSearch, Length
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.problem import LayerPlacement

#: Moves of a round for each machine at first, how they grow, and the most of a round.
_MOVES, _GROWTH, _MOST = 3_000, 1.15, 4e6
#: Temperatures in layers.
_HOT, _COLD = 3.0, 0.08
#: Where between the best plan and the best bound a round looks for a flow, in turn after every success.
_SHARES = (1.0, 0.5, 0.75, 0.25, 0.9, 0.1, 0.03, 0.6)
#: Rounds in vain after which the search ends, beside others and alone.
PATIENCE, SHORT = 120, 24


class LayerRowSearch(AnnealingSearch):
    """A search on one problem; the bound of ``best`` says up to which flow it is worth looking."""

    def __init__(self, instance: LayerInstance, best: Incumbent[LayerPlacement], seed: int) -> None:
        super().__init__(best, seed, Length(_MOVES * instance.count, _GROWTH, _MOST))
        self.instance = instance
        self.turn = 0
        found = np.concatenate([instance.rate.ravel(), instance.link.ravel()])
        self.steps = np.unique(found[found > 0])

    def round(self, number: int) -> Iterator[None]:
        flow = self._wanted()
        if flow <= 0:
            return
        instance, count = self.instance, self.instance.count
        rows = LayerRows(instance.link, instance.rate, instance.alone(flow), instance.layers, flow)
        state: Ints = np.zeros(2 * count + 1, dtype=np.int32)
        state[:count], state[-1] = self.random.permutation(count), count
        found = state.copy()
        energy = math.inf
        for part in Cooling(_HOT, _COLD, int(self.length)).parts(200_000):
            energy = min(energy, anneal_rows(rows, state, found, part, self.draws, self.best.stop))
            self.trials += part.trials
            if energy == 0 or self.best.done:
                break
            yield
        self.turn += 1
        if energy == 0 and (held := self.cut(rows, found)) is not None:
            before = self.best.value
            self.instance.offer(self.best, held, "annealing")
            self.turn = self.turn if self.best.value >= before else 0

    def _wanted(self) -> float:
        """The flow of the next round: now and then one at which machines or links are used up."""
        value, _, bound = self.best.snapshot()
        low = 0.0 if math.isinf(value) else 1.0 / value
        high = 1.0 / bound if bound > 0 else float(self.instance.most)
        part = _SHARES[self.turn % len(_SHARES)]
        flow = low + (high - low) * part if part < 1 else high * (1.0 - 2 * TOLERANCE)
        place = int(np.searchsorted(self.steps, flow, side="right")) - 1
        if part < 1 and self.turn % 3 and place >= 0 and self.steps[place] > low * (1.0 + TOLERANCE):
            flow = float(self.steps[place])
        return flow

    def cut(self, rows: LayerRows, state: Ints) -> dict[int, tuple[int, int]] | None:
        """Intervals of a row in which every group passes the flow: as many layers as there are; None for none."""
        count, layers = self.instance.count, self.instance.layers
        able = np.zeros((count, rows.rate.shape[1]), dtype=np.int64)
        groups = group_layers(rows, state, able)
        # Layers that the first groups can hold together, and how many the last one of them then holds.
        last = np.zeros((groups + 1, layers + 1), dtype=np.int64)
        reached = np.zeros((groups + 1, layers + 1), dtype=bool)
        reached[0, 0] = True
        for g in range(groups):
            for k in np.flatnonzero(able[g]).tolist():
                if k <= layers:
                    new = reached[g, : layers + 1 - k]
                    reached[g + 1, k:] |= new
                    last[g + 1, k:][new] = k
        if not reached[groups, layers]:
            return None
        held: dict[int, tuple[int, int]] = {}
        behind, group = layers, groups
        for place in range(int(state[2 * count]) - 1, -1, -1):
            first = behind - int(last[group, behind])
            # One that passes nothing beside the others holds nothing.
            if rows.rate[state[place], behind - first] > 0:
                held[int(state[place])] = (first, behind)
            if state[count + place] == 0:
                behind, group = first, group - 1
        return held
