"""A variant as its contiguous search reads it: pools of alike devices, lines, search direction, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.arrays import Arrays, Floats, Ints, Longs, as_arrays
from partita.kernels.throughput.variant_arrays import Lines, as_lines
from partita.kernels.throughput.working_memory import PeakArrays
from partita.problems.throughput.contraction.instance import Instance, build_instance, csr
from partita.problems.throughput.contraction.sole_readers import absorb
from partita.problems.throughput.plan import Plan, Stage
from partita.problems.throughput.problem import DeviceGroup, ThroughputProblem
from partita.problems.throughput.solvers.variants.load_lines import Shape, shape_of
from partita.problems.throughput.working_memory import PeakTable
from partita.units import up_to

__all__ = ["Split", "VariantPrepared", "prepare_variant"]

#: Stages in search order: (kind, replicas, items).
Split = list[tuple[int, int, Ints]]


@dataclass(frozen=True)
class _Pool:
    """Devices of one group that are alike: their kinds in the problem, names, and group."""

    kind: int
    group: int
    devices: list[tuple[str, str]]


@dataclass(frozen=True)
class VariantPrepared:
    """A problem ready to be searched.

    Attributes
    ----------
    problem, instance, shape
        What it was made from.
    arrays, lines
        The kernels' input, items numbered in search order; kinds are pools of devices.
    original
        Item of the instance for every item searched.
    devices
        Names and kind names of the devices of every pool.
    backwards
        Whether the search runs from the outputs to the inputs.
    stride, digits, digit_sum, phases
        Mixed radix code of the counts of the pools from 1 on: ``digits[code, pool]``, their sum, and whether devices of
        the group that is filled second are among them.
    peaks, peak_arrays
        Orders of operators, and what the kernels read to find them; of an empty problem unless memory is a peak.
    """

    problem: ThroughputProblem
    instance: Instance
    shape: Shape
    arrays: Arrays
    lines: Lines
    original: Ints
    devices: list[list[tuple[str, str]]]
    backwards: bool
    stride: Longs
    digits: Longs
    digit_sum: Longs
    phases: Longs
    peaks: PeakTable
    peak_arrays: PeakArrays

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.original.shape[0])

    @property
    def codes(self) -> int:
        """Number of count codes."""
        return int(self.digit_sum.shape[0])

    def plan(self, split: Split) -> Plan:
        """The plan of a split, stages first to last in the direction of the data."""
        place_of = np.empty(self.items, dtype=np.int64)
        for number, (_, _, items) in enumerate(split):
            place_of[self.original[items]] = number
        operators: list[list[int]] = [[] for _ in split]
        for op, item in zip(self.problem.operators, self.instance.group, strict=True):
            operators[place_of[item]].append(op.id)
        if self.ordered:
            operators = [
                [self.problem.operators[v].id for v in self.peaks.known(self._places(items)).operators]
                for _, _, items in split
            ]
        used = [0] * len(self.devices)
        stages = []
        for number in range(len(split) - 1, -1, -1) if self.backwards else range(len(split)):
            kind, replicas, _ = split[number]
            taken = self.devices[kind][used[kind] : used[kind] + replicas]
            used[kind] += replicas
            stages.append(
                Stage(
                    device=taken[0][0],
                    kind=taken[0][1],
                    operators=tuple(operators[number]),
                    replicas=tuple(name for name, _ in taken[1:]),
                )
            )
        return Plan(stages=tuple(stages), contiguity="acyclic")

    @property
    def ordered(self) -> bool:
        """Whether memory depends on the order of operators."""
        return bool(self.lines.switches[5] != 0)

    def _places(self, items: Ints) -> Ints:
        """Places of the operators of items, in an order in which they can run."""
        k = self.peak_arrays
        row = np.concatenate([k.item_ops[k.item_ptr[v] : k.item_ptr[v + 1]] for v in items])
        return row[::-1].copy() if self.backwards else row

    def _space(self, split: Split) -> Floats:
        """What each stage needs while it runs, where that depends on its order; otherwise 0."""
        space = np.zeros(len(split))
        if self.ordered:
            for number, (_, _, items) in enumerate(split):
                places = self._places(items)
                space[number] = self.peaks.order(places, places.tolist()).peak
        return space

    def value(self, split: Split) -> tuple[float, float, float]:
        """Objective, largest forward load and largest backward load of a split."""
        from partita.kernels.throughput.variant_slicing import stage_values

        label = np.empty(self.items, dtype=np.int32)
        for number, (_, _, items) in enumerate(split):
            label[items] = number
        kinds = np.array([kind for kind, _, _ in split], dtype=np.int32)
        replicas = np.array([count for _, count, _ in split], dtype=np.int64)
        # Backwards the devices up to and including a stage are those from it to the end of the pipeline.
        to_end = np.cumsum(replicas) if self.backwards else np.ones_like(replicas)
        lines = len(self.shape.limit)
        values, extra, links = np.zeros((len(split), lines)), np.zeros((len(split), 2)), np.zeros((2, lines))
        flights = self.lines.flights[replicas, to_end]
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
        return (float(top[1] + top[2]) if self.shape.gpipe else float(top[0])), float(top[1]), float(top[2])


def _contracted(problem: ThroughputProblem) -> Instance:
    """The items; those that some optimum keeps together are one where a load is a single sum."""
    instance = build_instance(problem, directed=problem.communication == "duplex")
    if problem.communication != "sum" or problem.gpipe or problem.groups or problem.working_memory == "peak":
        return instance
    batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
    rates = np.array([kind.sync_time_per_byte for kind in problem.kinds])
    return absorb(instance, sync_time=(problem.max_replicas - 1) * rates / batch)


def _pools(problem: ThroughputProblem) -> list[_Pool]:
    group_of = problem.group_of()
    rows: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for name, kind in problem.device_names():
        rows.setdefault((kind, group_of.get(name, 0)), []).append((name, problem.kinds[kind].name))
    pools = [_Pool(kind, group, devices) for (kind, group), devices in rows.items()]
    if problem.max_replicas > 1:
        # Replicas are of one kind, so alike kinds stay apart.
        return pools
    merged: list[_Pool] = []
    for pool in pools:
        twin = next((other for other in merged if _alike(problem, pool, other)), None)
        if twin is None:
            merged.append(pool)
        else:
            twin.devices.extend(pool.devices)
    return merged


def _alike(problem: ThroughputProblem, one: _Pool, other: _Pool) -> bool:
    first, second = problem.kinds[one.kind], problem.kinds[other.kind]
    fields = ("memory_bytes", "transfer_time_per_unit", "transfer_latency", "reload_time_per_byte")
    return (
        one.group == other.group
        and all(getattr(first, field) == getattr(second, field) for field in fields)
        and all(op.times[one.kind] == op.times[other.kind] for op in problem.operators)
    )


def _codes(count: Sequence[int]) -> tuple[Longs, Longs]:
    stride = np.zeros(len(count), dtype=np.int64)
    size = 1
    for kind in range(1, len(count)):
        stride[kind] = size
        size *= int(count[kind]) + 1
    digits = np.zeros((size, len(count)), dtype=np.int64)
    for kind in range(1, len(count)):
        digits[:, kind] = (np.arange(size) // stride[kind]) % (int(count[kind]) + 1)
    return stride, digits


def prepare_variant(
    problem: ThroughputProblem, *, backwards: bool | None = None, first: int = 0, peaks: PeakTable | None = None
) -> VariantPrepared:
    """Arrays for the contiguous search of a variant.

    Parameters
    ----------
    problem
        The problem, with at most two groups.
    backwards
        Search from the outputs; None for where memory depends on the position, which needs it.
    first
        The group that the pipeline starts with.
    peaks
        Orders of operators that other views of the problem have found.
    """
    shape = shape_of(problem)
    instance = _contracted(problem)
    back = instance.positional if backwards is None else backwards
    n = instance.items
    filled = 1 - first if back else first
    pools = _pools(problem)
    several = len({pool.group for pool in pools}) > 1
    # The kind with the most devices, of the group filled first, becomes kind 0, whose count needs no code.
    pools.sort(key=lambda pool: (several and pool.group != filled, -len(pool.devices)))
    phase = [int(several and pool.group != filled) for pool in pools]
    kinds = [pool.kind for pool in pools]
    count = [min(n * problem.max_replicas, len(pool.devices)) for pool in pools]
    stride, digits = _codes(count)
    order = np.arange(n, dtype=np.int32)
    original = order[::-1].copy() if back else order
    ordered = problem.working_memory == "peak"
    peaks = (peaks or PeakTable(problem)) if ordered else PeakTable.empty()
    if ordered:
        # The largest need of a single operator: what every order of every set with it needs at least.
        np.maximum.at(instance.workspace, instance.group, peaks.own)
    members: list[list[int]] = [[] for _ in range(n)]
    for place, item in enumerate(np.argsort(original)[instance.group] if ordered else ()):
        members[item].append(place)
    arrays = _arrays(problem, instance, original, back, kinds, count)
    groups = [problem.groups[g] for g in (filled, 1 - filled)] if several else []
    lines = _lines(problem, instance, shape, arrays, original, kinds, phase, count)
    if groups:
        into, out = _group_costs(instance, shape, groups)
        lines = lines._replace(group_in=into, group_out=out)
    return VariantPrepared(
        problem=problem,
        instance=instance,
        shape=shape,
        arrays=arrays,
        lines=lines,
        original=original,
        devices=[pool.devices for pool in pools],
        backwards=back,
        stride=stride,
        digits=digits,
        digit_sum=digits.sum(axis=1),
        phases=(digits @ np.array(phase) > 0).astype(np.int64),
        peaks=peaks,
        peak_arrays=peaks.arrays(members, backwards=back),
    )


def _arrays(
    problem: ThroughputProblem, instance: Instance, original: Ints, back: bool, kinds: list[int], count: list[int]
) -> Arrays:
    directed = instance.reverse() if back else instance
    rank = np.argsort(original).astype(np.int32)

    def renumber(pointer: Ints, members: Ints, *, rows: Ints | None, of_items: bool) -> tuple[Ints, Ints]:
        chosen = range(len(pointer) - 1) if rows is None else rows
        lists = [members[pointer[v] : pointer[v + 1]] for v in chosen]
        return csr([sorted(rank[row].tolist()) if of_items else row.tolist() for row in lists])

    net_ptr, net_pins = renumber(instance.net_ptr, instance.net_pins, rows=None, of_items=True)
    succ_ptr, succ = renumber(directed.succ_ptr, directed.succ, rows=original, of_items=True)
    pred_ptr, pred = renumber(directed.pred_ptr, directed.pred, rows=original, of_items=True)
    item_net_ptr, item_nets = renumber(instance.item_net_ptr, instance.item_nets, rows=original, of_items=False)
    item_cover_ptr, item_covers = renumber(instance.item_cover_ptr, instance.item_covers, rows=original, of_items=False)
    source, memory = instance.net_source, instance.memory[kinds]
    if not problem.streaming:
        memory = up_to(memory)
    return as_arrays(
        {
            "work": instance.work[original][:, kinds].T,
            "net_ptr": net_ptr,
            "net_pins": net_pins,
            "item_net_ptr": item_net_ptr,
            "item_nets": item_nets,
            "net_cost": instance.net_cost[:, kinds].T,
            "net_source": np.where(source >= 0, rank[source], -1) if len(source) else source,
            "net_entering": instance.net_entering,
            "succ_ptr": succ_ptr,
            "succ": succ,
            "pred_ptr": pred_ptr,
            "pred": pred,
            "fixed": instance.fixed[original],
            "active": instance.active[original],
            "workspace": instance.workspace[original],
            "item_cover_ptr": item_cover_ptr,
            "item_covers": item_covers,
            "cover_fixed": instance.cover_fixed,
            "cover_active": instance.cover_active,
            "memory": memory,
            "devices": np.array(count),
            "in_flight": instance.in_flight,
            "limits": np.array([int(np.isfinite(memory).any()), int(instance.recompute), int(back), 0]),
        }
    )


def _lines(
    problem: ThroughputProblem,
    instance: Instance,
    shape: Shape,
    arrays: Arrays,
    original: Ints,
    kinds: list[int],
    phase: list[int],
    count: list[int],
) -> Lines:
    limited = bool(np.isfinite(arrays.memory).any())
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
    return as_lines(
        {
            "can": can,
            "work": shape.combine(_only(forward, 0), _only(second, 0)),
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
            "switches": np.array(
                [
                    int(limited and not problem.streaming),
                    int(instance.recompute),
                    int(bool(arrays.limits[2])),
                    int(most > 1 and not shape.with_sync.any()),
                    int(len(set(phase)) > 1),
                    int(problem.working_memory == "peak"),
                ]
            ),
        }
    )


def _only(values: Floats, place: int) -> Floats:
    """Values as (work, in, out) on a new last axis, zero but for one place."""
    result = np.zeros((*values.shape, 3))
    result[..., place] = values
    return result


def _group_costs(instance: Instance, shape: Shape, groups: Sequence[DeviceGroup]) -> tuple[Floats, Floats]:
    """What a cut net costs each group without and with its maker."""
    into, out = [], []
    for group in groups:
        unit, latency = group.transfer_time_per_unit, group.transfer_latency
        total = instance.net_totals[:, 0] * unit + instance.net_totals[:, 1] * latency
        late = instance.net_totals[:, 2] * unit + instance.net_totals[:, 3] * latency
        into.append(shape.combine(_only(total - late, 1), _only(late, 1)))
        out.append(shape.combine(_only(total - late, 2), _only(late, 2)))
    return np.ascontiguousarray(into), np.ascontiguousarray(out)
