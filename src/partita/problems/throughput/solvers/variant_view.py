"""The view of variants: pools of alike devices, several lines of a load with limits of their own, groups, replicas."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, as_arrays
from partita.engines.kernels.throughput.arrays import Lines
from partita.engines.kernels.throughput.working_memory import PeakArrays
from partita.ground.rounding import raised, up_to
from partita.problems.throughput.contraction.contiguous import contract_variant
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.load_lines import BOTH, LoadLines, load_lines
from partita.problems.throughput.solvers.view import (
    Effort,
    LoadLimits,
    Rule,
    SearchView,
    Split,
    SplitValue,
    Table,
)
from partita.problems.throughput.working_memory import PeakTable


@dataclass(frozen=True, eq=False)
class VariantView(SearchView):
    """See ``SearchView``."""

    #: Orders of operators; of an empty problem unless memory is a peak.
    peaks: PeakTable = field(default_factory=PeakTable.empty)

    effort: ClassVar[Effort] = Effort(leg=30_000, first=200_000, round=500_000, orders=30, pairs=2e9, code=0.3)
    variants: ClassVar[bool] = True

    @cached_property
    def shape(self) -> LoadLines:
        """What a load's lines are made of."""
        return load_lines(self.problem)

    @cached_property
    def peak_arrays(self) -> PeakArrays:
        """What the kernels read to find orders."""
        members: list[list[int]] = [[] for _ in range(self.items)]
        for place, item in enumerate(np.argsort(self.original)[self.instance.group] if self.ordered else ()):
            members[item].append(place)
        return self.peaks.arrays(members, backwards=self.backwards)

    @cached_property
    def lines(self) -> Lines:
        """The kernels' input beside the arrays."""
        problem, instance, shape, original = self.problem, self.instance, self.shape, self.original
        kinds, grouped = [pool.kind for pool in self.pools], not self.early.all()
        groups = [problem.groups[group] for group in (self.filled, 1 - self.filled)] if grouped else []
        work = instance.work[original][:, kinds].T
        can = np.isfinite(work)
        second = np.where(can, instance.work_backward[original][:, kinds].T, 0.0)
        late = instance.net_backward[:, kinds].T
        cost_in, cost_out = (shape.combine(instance.net_cost[:, kinds].T - late, late, way) for way in (1, 2))
        group_in, group_out = np.zeros((2, 2, instance.nets, len(shape.limit)))
        for place, group in enumerate(groups):
            unit, latency, totals = group.transfer_time_per_unit, group.transfer_latency, instance.net_totals
            total, late = (totals[:, size] * unit + totals[:, size + 1] * latency for size in (0, 2))
            group_in[place], group_out[place] = (shape.combine(total - late, late, way) for way in (1, 2))
        rank = np.argsort(original).astype(np.int32)
        first_pin = self.arrays.net.pins[self.arrays.net.ptr[:-1]]
        maker = np.where(instance.net_maker >= 0, rank[instance.net_maker], first_pin)
        devices, most = self.device_count, max(1, *self.replicas.tolist())
        flights = [[0] * (devices + 1)]
        flights += [[0, *(problem.schedule.in_flight(j, r) for j in range(1, devices + 1))] for r in range(1, most + 1)]
        batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
        work_lines = shape.combine(np.where(can, work, 0.0) - second, second, 0)
        return as_arrays(
            Lines,
            {
                "can": can,
                "work": work_lines,
                "chain": np.where(can, work_lines[:, :, 0], np.inf),
                "cost_in": cost_in,
                "cost_out": cost_out,
                "maker": maker,
                "with_reload": shape.with_reload,
                "with_sync": shape.with_sync,
                "reload_time": np.array([problem.kinds[k].reload_time_per_byte for k in kinds]),
                "sync_time": np.array([problem.kinds[k].sync_time_per_byte for k in kinds]) / batch,
                "sync": instance.sync[original],
                "cover_sync": instance.cover_sync,
                "phase": 1 - self.early,
                "group_in": group_in,
                "group_out": group_out,
                "replicas": self.replicas,
                "flights": np.array(flights),
                "hard": self.arrays.limited and not problem.streaming,
                "sync_apart": most > 1 and not shape.with_sync.any(),
                "grouped": grouped,
                "peak": self.ordered,
            },
        )

    @cached_property
    def most(self) -> float:
        """Everything on one device, every net cut, everything reloaded and synchronised."""
        a, lines = self.arrays, self.lines
        over = (a.fixed.sum() + a.cover_fixed.sum()) + lines.flights.max() * (
            a.active.sum() + a.cover_active.sum() + a.net_entering.sum()
        )
        over += self.peaks.most if self.ordered else a.workspace.max(initial=0.0)
        sync = float((lines.sync.sum() + lines.cover_sync.sum()) * lines.sync_time.max(initial=0.0))
        most = float((lines.work * (lines.can != 0)[:, :, None]).sum(axis=1).max())
        most += float(lines.cost_in.sum(axis=1).max() + lines.cost_out.sum(axis=1).max())
        most += float(lines.group_in.sum(axis=1).max() + lines.group_out.sum(axis=1).max())
        most += float(over) * float(lines.reload_time.max(initial=0.0)) + sync
        return up_to(most * (2 if self.gpipe else 1)) + 1e-30

    @property
    def pairs_of_slicing(self) -> float:
        """Each line costs as much."""
        return super().pairs_of_slicing * len(self.shape.limit)

    def _operators(self, split: Split) -> list[tuple[int, ...]]:
        """Ids of the operators of every stage, in an order that memory allows where that matters."""
        if not self.ordered:
            return super()._operators(split)
        known = [self.peaks.known(self._places(placed.items)).operators for placed in split]
        return [tuple(self.problem.operators[v].id for v in row) for row in known]

    def _places(self, items: Ints) -> Ints:
        """Places of the operators of items, in an order in which they can run."""
        k = self.peak_arrays
        row = np.concatenate([k.item_ops[k.item_ptr[v] : k.item_ptr[v + 1]] for v in items])
        return row[::-1].copy() if self.backwards else row

    def _space(self, split: Split) -> Floats:
        """What each stage needs while it runs, where that depends on its order; otherwise 0."""
        space = np.zeros(len(split))
        if self.ordered:
            for number, placed in enumerate(split):
                places = self._places(placed.items)
                space[number] = self.peaks.order(places, places.tolist()).peak
        return space

    def value(self, split: Split) -> SplitValue:
        from partita.engines.kernels.throughput.stage_loads import stage_values

        kinds = np.array([placed.pool for placed in split], dtype=np.int32)
        replicas = np.array([placed.replicas for placed in split], dtype=np.int64)
        # Backwards the devices up to and including a stage are those from it to the end of the pipeline.
        to_end = np.cumsum(replicas) if self.backwards else np.ones_like(replicas)
        lines = len(self.shape.limit)
        values, extra, links = np.zeros((len(split), lines)), np.zeros((len(split), 2)), np.zeros((2, lines))
        flights, label = self.lines.flights[replicas, to_end], self.label(split)
        stage_values(self.arrays, self.lines, label, kinds, flights, self._space(split), values, extra, links)
        share = (replicas - 1) / replicas
        loads = self.shape.loads(
            values,
            extra[:, 0] * self.lines.reload_time[kinds],
            extra[:, 1] * self.lines.sync_time[kinds] * share,
            replicas.astype(np.float64),
        )
        none = np.zeros(2)
        loads = np.concatenate([loads, self.shape.loads(links, none, none, np.ones(2))])
        top = loads.max(axis=0)
        return SplitValue(float(top[1] + top[2]) if self.gpipe else float(top[0]), float(top[1]), float(top[2]))

    def rules(self) -> list[Rule]:
        """One for each line with work; see ``remaining_capacity``."""
        lines, a, shape = self.lines, self.arrays, self.shape
        rules = []
        bytes_each = a.fixed + a.active
        limited = np.isfinite(a.memory)
        for line in (i for i in range(len(shape.limit)) if shape.coefficients[i, [0, 3]].any()):
            item = np.where(lines.can != 0, lines.work[:, :, line], np.inf)
            net = np.minimum(lines.cost_in[:, :, line], lines.cost_out[:, :, line])
            rules.append(Rule(item, net, shape.limit[line], np.zeros(len(a.memory))))
            rate = np.where(limited, lines.reload_time, 0.0)
            if shape.limit[line] == BOTH and self.problem.streaming and rate.any():
                more = rate[:, None] * bytes_each[None, :]
                rules.append(Rule(item + more, net, BOTH, rate * np.where(limited, a.memory, 0.0)))
        if lines.hard and limited.all() and bytes_each.any():
            item = np.where(lines.can != 0, bytes_each[None, :], np.inf)
            rules.append(Rule(item, np.zeros((len(a.memory), a.net_entering.shape[0])), None, a.memory))
        return rules

    def slice(self, order: Ints, limits: LoadLimits, table: Table, stop: Longs) -> bool:
        from partita.engines.kernels.throughput.slicing import slice_order

        at_most = raised(self.shape.limits(limits))
        return bool(slice_order(self.arrays, self.lines, self.peak_arrays, order, at_most, self.codes, *table, stop))


def variant_views(problem: ThroughputProblem) -> list[SearchView]:
    """The views in the direction that memory needs: one for each group that the pipeline may start with."""
    view = variant_view(problem)
    if len(problem.groups) > 1:
        one, other = problem.groups
        fields = ("counts", "transfer_time_per_unit", "transfer_latency")
        alike = all(getattr(one, field) == getattr(other, field) for field in fields)
        if sum(one.counts) and sum(other.counts) and not alike:
            return [view, replace(view, first=1)]
    return [view]


def variant_view(problem: ThroughputProblem, *, backwards: bool | None = None, first: int = 0) -> VariantView:
    """The view of a problem with at most two groups.

    Parameters
    ----------
    problem
        The problem.
    backwards
        Search from the outputs; None for where memory depends on the position, which needs it.
    first
        The group that the pipeline starts with.
    """
    instance = contract_variant(problem)
    back = instance.positional if backwards is None else backwards
    if problem.working_memory != "peak":
        return VariantView(problem, instance, back, first)
    peaks = PeakTable(problem)
    # The largest need of a single operator: what every order of every set with it needs at least.
    np.maximum.at(instance.workspace, instance.group, peaks.own)
    return VariantView(problem, instance, back, first, peaks)
