"""An instance as the contiguous solvers search it: alike kinds merged, in search direction, with the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.arrays import Arrays, Floats, Ints, Longs, as_arrays
from partita.problems.throughput.contraction.instance import Instance, build_instance, csr
from partita.problems.throughput.contraction.interchangeable import order_twins
from partita.problems.throughput.contraction.sole_readers import absorb
from partita.problems.throughput.plan import Plan, Stage
from partita.problems.throughput.problem import ThroughputProblem
from partita.units import up_to

__all__ = ["Prepared", "Split", "prepare"]

#: Stages in search order: (kind, items).
Split = list[tuple[int, Ints]]


@dataclass(frozen=True)
class Prepared:
    """A problem ready to be searched.

    Attributes
    ----------
    problem, instance
        What it was made from.
    arrays
        The kernels' input, items numbered in search order.
    original, nets
        Item of the instance for every item searched, and its net for every net.
    devices
        Names and kind names of the devices of every merged kind.
    backwards
        Whether the search runs from the outputs to the inputs.
    stride, digits, digit_sum
        Mixed radix code of the counts of the kinds from 1 on: ``digits[code, kind]`` and their sum.
    """

    problem: ThroughputProblem
    instance: Instance
    arrays: Arrays
    original: Ints
    nets: Longs
    devices: list[list[tuple[str, str]]]
    backwards: bool
    stride: Longs
    digits: Longs
    digit_sum: Longs

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.arrays.work.shape[1])

    @property
    def codes(self) -> int:
        """Number of count codes."""
        return int(self.digit_sum.shape[0])

    @property
    def device_count(self) -> int:
        """Devices that can be used."""
        return int(self.arrays.devices.sum())

    def plan(self, split: Split) -> Plan:
        """The plan of a split, stages first to last in the direction of the data."""
        place_of = np.empty(self.items, dtype=np.int64)
        kinds: list[int] = []
        for number, (kind, items) in enumerate(split):
            place_of[self.original[items]] = number
            kinds.append(kind)
        operators: list[list[int]] = [[] for _ in split]
        for op, item in zip(self.problem.operators, self.instance.group, strict=True):
            operators[place_of[item]].append(op.id)
        order = range(len(split) - 1, -1, -1) if self.backwards else range(len(split))
        used = [0] * len(self.devices)
        stages = []
        for number in order:
            kind = kinds[number]
            name, kind_name = self.devices[kind][used[kind]]
            used[kind] += 1
            stages.append(Stage(device=name, kind=kind_name, operators=tuple(operators[number])))
        return Plan(stages=tuple(stages), contiguity="acyclic")

    def adopt(self, other: Prepared, split: Split) -> Split:
        """A split of the same problem prepared in another direction, in this one's numbers and order."""
        rank = np.argsort(self.original)
        stages = [(kind, np.sort(rank[other.original[items]]).astype(np.int32)) for kind, items in split]
        return stages if self.backwards == other.backwards else stages[::-1]

    def loads(self, split: Split) -> Floats:
        """Load of every stage."""
        from partita.kernels.throughput.slicing import segment_loads

        label = np.empty(self.items, dtype=np.int32)
        for number, (_, items) in enumerate(split):
            label[items] = number
        loads = np.zeros(len(split))
        segment_loads(self.arrays, label, np.array([kind for kind, _ in split], dtype=np.int32), loads)
        return loads


def _alike(instance: Instance) -> list[list[int]]:
    """Kinds with devices, those that no array tells apart together."""
    groups: list[list[int]] = []
    for kind in range(instance.kinds):
        if instance.count[kind] == 0:
            continue
        for group in groups:
            other = group[0]
            if (
                instance.memory[kind] == instance.memory[other]
                and np.array_equal(instance.work[:, kind], instance.work[:, other])
                and np.array_equal(instance.net_cost[:, kind], instance.net_cost[:, other])
            ):
                group.append(kind)
                break
        else:
            groups.append([kind])
    return groups


def _codes(count: Sequence[int]) -> tuple[Longs, Longs, Longs]:
    stride = np.zeros(len(count), dtype=np.int64)
    size = 1
    for kind in range(1, len(count)):
        stride[kind] = size
        size *= int(count[kind]) + 1
    digits = np.zeros((size, len(count)), dtype=np.int64)
    for kind in range(1, len(count)):
        digits[:, kind] = (np.arange(size) // stride[kind]) % (int(count[kind]) + 1)
    return stride, digits, digits.sum(axis=1)


def prepare(problem: ThroughputProblem, *, backwards: bool | None = None, instance: Instance | None = None) -> Prepared:
    """Arrays for the contiguous search of a problem.

    Parameters
    ----------
    problem
        The problem.
    backwards
        Search from the outputs; None for where memory depends on the position, which needs it.
    instance
        That of the problem as it was prepared before, None for not yet.
    """
    instance = order_twins(absorb(build_instance(problem))) if instance is None else instance
    back = instance.positional if backwards is None else backwards
    n = instance.items
    directed = instance.reverse() if back else instance
    original = np.arange(n, dtype=np.int32)[::-1] if back else np.arange(n, dtype=np.int32)
    rank = np.argsort(original).astype(np.int32)
    groups = _alike(instance)
    # The kind with the most devices becomes kind 0, whose count needs no code.
    groups.sort(key=lambda group: -sum(int(instance.count[k]) for k in group))
    first = [group[0] for group in groups]
    count = [min(n, sum(int(instance.count[k]) for k in group)) for group in groups]
    names = problem.device_names()
    devices = [[(name, problem.kinds[k].name) for name, k in names if k in group] for group in groups]
    # Nets that cost nothing and let nothing enter do not matter.
    matters = (instance.net_cost[:, first].max(axis=1, initial=0.0) > 0) | (instance.net_entering > 0)
    kept = np.flatnonzero(matters)
    number = np.cumsum(matters) - 1

    def chosen(pointer: Ints, members: Ints, rows: Longs | Ints, names: Ints | None) -> tuple[Ints, Ints]:
        """These rows of a CSR pair; members with other names are sorted by them."""
        sizes = np.diff(pointer)[rows]
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(sizes, out=starts[1:])
        flat = members[np.arange(starts[-1]) + np.repeat(pointer[:-1][rows] - starts[:-1], sizes)]
        if names is not None:
            flat = names[flat]
            flat = flat[np.lexsort((flat, np.repeat(np.arange(len(rows)), sizes)))]
        return starts.astype(np.int32), np.ascontiguousarray(flat, dtype=np.int32)

    def renumber(pointer: Ints, members: Ints, *, of_items: bool) -> tuple[Ints, Ints]:
        return chosen(pointer, members, original, rank if of_items else None)

    net_ptr, flat_pins = chosen(instance.net_ptr, instance.net_pins, kept, rank)

    succ_ptr, succ = renumber(directed.succ_ptr, directed.succ, of_items=True)
    pred_ptr, pred = renumber(directed.pred_ptr, directed.pred, of_items=True)
    nets_of = [instance.item_nets[instance.item_net_ptr[v] : instance.item_net_ptr[v + 1]] for v in original]
    item_net_ptr, item_nets = csr([number[row[matters[row]]].tolist() for row in nets_of])
    item_cover_ptr, item_covers = renumber(instance.item_cover_ptr, instance.item_covers, of_items=False)
    source = instance.net_source[kept]
    memory = up_to(instance.memory[first])
    arrays = as_arrays(
        {
            "work": instance.work[original][:, first].T,
            "net_ptr": net_ptr,
            "net_pins": flat_pins,
            "item_net_ptr": item_net_ptr,
            "item_nets": item_nets,
            "net_cost": instance.net_cost[kept][:, first].T,
            "net_source": np.where(source >= 0, rank[source], -1),
            "net_entering": instance.net_entering[kept],
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
            "limits": np.array(
                [int(bool(np.isfinite(memory).any())), int(instance.recompute), int(back), len(instance.cover_fixed)]
            ),
        }
    )
    return Prepared(problem, instance, arrays, original, kept, devices, back, *_codes(count))
