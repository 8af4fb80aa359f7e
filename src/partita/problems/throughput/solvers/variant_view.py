"""The view of variants: pools of alike devices, several lines of a load with limits of their own, groups, replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from partita.kernels.throughput.arrays import Arrays, Floats, Ints, Lines, Longs, as_arrays
from partita.kernels.throughput.working_memory import PeakArrays
from partita.problems.throughput.contraction.contiguous import contract_variant
from partita.problems.throughput.contraction.instance import Instance
from partita.problems.throughput.devices import DeviceGroup
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.load_lines import BOTH, LoadLines, load_lines
from partita.problems.throughput.solvers.view import (
    SLACK,
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
from partita.problems.throughput.working_memory import PeakTable


@dataclass(frozen=True, eq=False)
class VariantView(SearchView):
    """See ``SearchView``.

    Attributes
    ----------
    shape
        What a load's lines are made of.
    lines
        The kernels' input beside the arrays.
    first
        The group that the pipeline starts with.
    peaks, peak_arrays
        Orders of operators, and what the kernels read to find them; of an empty problem unless memory is a peak.
    """

    shape: LoadLines
    lines: Lines
    first: int
    peaks: PeakTable
    peak_arrays: PeakArrays

    effort: ClassVar[Effort] = Effort(leg=30_000, first=200_000, round=500_000, orders=30, pairs=2e9)
    row_for_none: ClassVar[bool] = True

    @property
    def gpipe(self) -> bool:
        """Whether forward and backward loads have limits of their own."""
        return self.shape.gpipe

    @property
    def ordered(self) -> bool:
        """Whether memory depends on the order of operators, so that the items of stages are in one."""
        return self.lines.peak

    @property
    def replicas(self) -> Longs:
        """(K,) most devices of a stage."""
        return self.lines.replicas

    @property
    def early(self) -> Longs:
        """(K,) 1 for pools of the group that is filled first."""
        return 1 - self.lines.phase

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
        return most * (2 if self.gpipe else 1) * (1 + 1e-9) + 1e-30

    @property
    def pairs_of_slicing(self) -> float:
        """Segments as long as a stage, for every code and line."""
        width = self.items / max(1, self.device_count)
        return self.items * max(1.0, width) * (2 + 0.3 * self.code_count) * len(self.shape.limit)

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
        """Objective, largest forward load and largest backward load of a split."""
        from partita.kernels.throughput.variant_slicing import stage_values

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
        """See ``SearchView``."""
        from partita.kernels.throughput.variant_slicing import slice_variant

        return bool(
            slice_variant(
                self.arrays,
                self.lines,
                self.peak_arrays,
                order,
                self.shape.limits(limits) * (1 + SLACK),
                self.codes.stride,
                self.codes.digit_sum,
                self.codes.digits,
                self.codes.phases,
                table.fewest,
                table.back_from,
                table.back_pool,
                table.back_replicas,
                stop,
            )
        )


def variant_view(
    problem: ThroughputProblem,
    *,
    backwards: bool | None = None,
    first: int = 0,
    instance: Instance | None = None,
    peaks: PeakTable | None = None,
) -> VariantView:
    """The view of a problem with at most two groups.

    Parameters
    ----------
    problem
        The problem.
    backwards
        Search from the outputs; None for where memory depends on the position, which needs it.
    first
        The group that the pipeline starts with.
    instance, peaks
        The items, and the orders of operators, of another view of the problem; None for none yet.
    """
    shape = load_lines(problem)
    instance = contract_variant(problem) if instance is None else instance
    back = instance.positional if backwards is None else backwards
    n = instance.items
    filled = 1 - first if back else first
    pools = find_pools(problem, instance, grouped=True)
    several = len({pool.group for pool in pools}) > 1
    # The pool with the most devices, of the group filled first, becomes pool 0, whose count needs no code.
    pools.sort(key=lambda pool: (several and pool.group != filled, -len(pool.devices)))
    phase = [int(several and pool.group != filled) for pool in pools]
    count = [min(n * problem.max_replicas, len(pool.devices)) for pool in pools]
    original = np.arange(n, dtype=np.int32)[::-1].copy() if back else np.arange(n, dtype=np.int32)
    ordered = problem.working_memory == "peak"
    peaks = (peaks or PeakTable(problem)) if ordered else PeakTable.empty()
    if ordered:
        # The largest need of a single operator: what every order of every set with it needs at least.
        np.maximum.at(instance.workspace, instance.group, peaks.own)
    members: list[list[int]] = [[] for _ in range(n)]
    for place, item in enumerate(np.argsort(original)[instance.group] if ordered else ()):
        members[item].append(place)
    nets, hard = np.arange(instance.nets), not problem.streaming
    arrays = search_arrays(instance, original, pools, count, nets, backwards=back, hard=hard)
    groups = [problem.groups[g] for g in (filled, 1 - filled)] if several else []
    lines = _lines(problem, instance, shape, arrays, original, [pool.kind for pool in pools], phase, count)
    if groups:
        into, out = _group_costs(instance, shape, groups)
        lines = lines._replace(group_in=into, group_out=out)
    return VariantView(
        problem=problem,
        instance=instance,
        arrays=arrays,
        original=original,
        pools=[pool.devices for pool in pools],
        backwards=back,
        codes=count_codes(count, phase),
        shape=shape,
        lines=lines,
        first=first,
        peaks=peaks,
        peak_arrays=peaks.arrays(members, backwards=back),
    )


def _lines(
    problem: ThroughputProblem,
    instance: Instance,
    shape: LoadLines,
    arrays: Arrays,
    original: Ints,
    kinds: list[int],
    phase: list[int],
    count: list[int],
) -> Lines:
    work = instance.work[original][:, kinds].T
    can = np.isfinite(work)
    second = np.where(can, instance.work_backward[original][:, kinds].T, 0.0)
    forward = np.where(can, work, 0.0) - second
    late = instance.net_backward[:, kinds].T
    early = instance.net_cost[:, kinds].T - late
    rank = np.argsort(original).astype(np.int32)
    first_pin = arrays.net_pins[arrays.net_ptr[:-1]]
    maker = np.where(instance.net_maker >= 0, rank[instance.net_maker], first_pin)
    replicas = [min(problem.max_replicas, held) for held in count]
    devices = int(sum(count))
    most = max(replicas, default=1)
    flights = [[0] * (devices + 1)]
    flights += [[0, *(problem.schedule.in_flight(j, r) for j in range(1, devices + 1))] for r in range(1, most + 1)]
    batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
    lines = len(shape.limit)
    work_lines = shape.combine(_only(forward, 0), _only(second, 0))
    return as_arrays(
        Lines,
        {
            "can": can,
            "work": work_lines,
            "chain": np.where(can, work_lines[:, :, 0], np.inf),
            "cost_in": shape.combine(_only(early, 1), _only(late, 1)),
            "cost_out": shape.combine(_only(early, 2), _only(late, 2)),
            "maker": maker,
            "with_reload": shape.with_reload,
            "with_sync": shape.with_sync,
            "reload_time": np.array([problem.kinds[k].reload_time_per_byte for k in kinds]),
            "sync_time": np.array([problem.kinds[k].sync_time_per_byte for k in kinds]) / batch,
            "sync": instance.sync[original],
            "cover_sync": instance.cover_sync,
            "phase": np.array(phase),
            "group_in": np.zeros((2, instance.nets, lines)),
            "group_out": np.zeros((2, instance.nets, lines)),
            "replicas": np.array(replicas),
            "flights": np.array(flights),
            "hard": arrays.limited and not problem.streaming,
            "sync_apart": most > 1 and not shape.with_sync.any(),
            "grouped": len(set(phase)) > 1,
            "peak": problem.working_memory == "peak",
        },
    )


def _only(values: Floats, place: int) -> Floats:
    """Values as (work, in, out) on a new last axis, zero but for one place."""
    result = np.zeros((*values.shape, 3))
    result[..., place] = values
    return result


def _group_costs(instance: Instance, shape: LoadLines, groups: Sequence[DeviceGroup]) -> tuple[Floats, Floats]:
    """What a cut net costs each group without and with its maker."""
    into, out = [], []
    for group in groups:
        unit, latency = group.transfer_time_per_unit, group.transfer_latency
        total = instance.net_totals[:, 0] * unit + instance.net_totals[:, 1] * latency
        late = instance.net_totals[:, 2] * unit + instance.net_totals[:, 3] * latency
        into.append(shape.combine(_only(total - late, 1), _only(late, 1)))
        out.append(shape.combine(_only(total - late, 2), _only(late, 2)))
    return np.ascontiguousarray(into), np.ascontiguousarray(out)
