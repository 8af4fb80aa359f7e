"""The view of plain problems: loads of work and transfers, one device a stage, memory that never overflows."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.ground.rounding import up_to
from partita.problems.throughput.contraction.contiguous import contract_plain
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.view import Effort, LoadLimits, Rule, SearchView, Split, SplitValue, Table

#: Most stages times nets that the annealing counts.
MOST_COUNTS = 20_000_000


class PlainView(SearchView):
    """See ``SearchView``."""

    effort: ClassVar[Effort] = Effort(leg=100_000, first=2_000_000, round=4_000_000, orders=40, pairs=4e9, code=0.2)
    variants: ClassVar[bool] = False

    @cached_property
    def nets(self) -> Longs:
        """Nets that cost nothing and let nothing enter do not matter."""
        cost = self.instance.net_cost[:, [pool.kind for pool in self.pools]].max(axis=1, initial=0.0)
        return np.flatnonzero((cost > 0) | (self.instance.net_entering > 0))

    @cached_property
    def most(self) -> float:
        """Everything on one device, every net cut."""
        a = self.arrays
        finite = np.where(np.isfinite(a.work), a.work, 0.0).max(axis=0)
        return up_to(float(finite.sum() + a.net_cost.max(axis=0).sum())) + 1e-30

    def value(self, split: Split) -> SplitValue:
        from partita.engines.kernels.throughput.stage_loads import segment_loads

        a, loads = self.arrays, np.zeros(len(split))
        pools = np.array([placed.pool for placed in split], dtype=np.int32)
        segment_loads(a, a.work, a.net_cost, self.label(split), pools, loads)
        return SplitValue(*(float(loads.max()),) * 3)

    @property
    def least_bytes(self) -> Floats:
        """(n,) bytes every device needs at least for an item."""
        a = self.arrays
        return np.asarray(a.fixed + (1 if a.recompute else a.in_flight[1:].min()) * a.active)

    def annealable(self, stages: int) -> bool:
        """Where memory does not depend on the position, or what enters, and the table of stages and nets is small."""
        if self.arrays.limited and (self.arrays.recompute or self.backwards):
            return False
        return 2 <= stages <= MOST_COUNTS // max(1, len(self.nets))

    def rules(self) -> list[Rule]:
        """Work and transfers; bytes may force items off the devices whose memory is limited."""
        a = self.arrays
        return [Rule(a.work, a.net_cost, 0, np.zeros(len(a.memory)), self.least_bytes, a.memory)]

    def slice(self, order: Ints, limits: LoadLimits, table: Table, stop: Longs) -> bool:
        from partita.engines.kernels.throughput.slicing import slice_order

        at_most = np.array([limits.both, np.inf])
        return bool(slice_order(self.arrays, None, None, order, at_most, self.codes, *table, stop))


def plain_view(problem: ThroughputProblem, *, backwards: bool | None = None) -> PlainView:
    """The view of a problem without its variants.

    Parameters
    ----------
    problem
        The problem.
    backwards
        Search from the outputs; None for where memory depends on the position, which needs it.
    """
    instance = contract_plain(problem)
    return PlainView(problem, instance, instance.positional if backwards is None else backwards)
