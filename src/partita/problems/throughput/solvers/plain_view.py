"""The view of plain problems: loads of work and transfers, one device a stage, memory that never overflows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from partita.kernels.throughput.arrays import Floats, Ints, Longs
from partita.problems.throughput.contraction.contiguous import contract_plain
from partita.problems.throughput.contraction.instance import Instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.view import (
    Effort,
    LoadLimits,
    Rule,
    SearchView,
    Split,
    SplitValue,
    Table,
    count_codes,
    find_pools,
    search_arrays,
)

#: Most stages times nets that the annealing counts.
MOST_COUNTS = 20_000_000


@dataclass(frozen=True, eq=False)
class PlainView(SearchView):
    """See ``SearchView``.

    Attributes
    ----------
    nets
        Net of the instance for every net searched.
    """

    nets: Longs

    effort: ClassVar[Effort] = Effort(leg=100_000, first=2_000_000, round=4_000_000, orders=40, pairs=4e9)
    row_for_none: ClassVar[bool] = False

    @property
    def replicas(self) -> Longs:
        """One device a stage."""
        return np.ones_like(self.arrays.devices)

    @property
    def early(self) -> Longs:
        """There is one group."""
        return np.ones_like(self.arrays.devices)

    @cached_property
    def most(self) -> float:
        """Everything on one device, every net cut."""
        a = self.arrays
        finite = np.where(np.isfinite(a.work), a.work, 0.0).max(axis=0)
        return float(finite.sum() + a.net_cost.max(axis=0).sum()) * (1 + 1e-9) + 1e-30

    @property
    def pairs_of_slicing(self) -> float:
        """Segments as long as a stage, for every code."""
        return self.items * max(1.0, self.items / max(1, self.device_count)) * (2 + 0.2 * self.code_count)

    def value(self, split: Split) -> SplitValue:
        """The largest load."""
        from partita.kernels.throughput.stage_loads import segment_loads

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
        """See ``SearchView``."""
        from partita.kernels.throughput.slicing import slice_order

        at_most = np.array([limits.both, np.inf])
        return bool(slice_order(self.arrays, None, None, order, at_most, self.codes, *table, stop))


def plain_view(
    problem: ThroughputProblem, *, backwards: bool | None = None, instance: Instance | None = None
) -> PlainView:
    """The view of a problem without its variants.

    Parameters
    ----------
    problem
        The problem.
    backwards
        Search from the outputs; None for where memory depends on the position, which needs it.
    instance
        That of the problem in another view, None for none yet.
    """
    instance = contract_plain(problem) if instance is None else instance
    back = instance.positional if backwards is None else backwards
    n = instance.items
    original = np.arange(n, dtype=np.int32)[::-1] if back else np.arange(n, dtype=np.int32)
    # The pool with the most devices becomes pool 0, whose count needs no code.
    pools = sorted(find_pools(problem, instance, grouped=False), key=lambda pool: -len(pool.devices))
    count = [min(n, len(pool.devices)) for pool in pools]
    cost = instance.net_cost[:, [pool.kind for pool in pools]].max(axis=1, initial=0.0)
    # Nets that cost nothing and let nothing enter do not matter.
    nets = np.flatnonzero((cost > 0) | (instance.net_entering > 0))
    arrays = search_arrays(instance, original, pools, count, nets, backwards=back, hard=True)
    devices = [pool.devices for pool in pools]
    return PlainView(problem, instance, arrays, original, devices, back, count_codes(count), nets)
