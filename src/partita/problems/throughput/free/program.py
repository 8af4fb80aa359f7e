"""The assignment program of free splits: whole, or for a few devices while the rest stays as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.anneal_free import FreeArrays
from partita.kernels.throughput.arrays import Floats, Ints
from partita.mip.model import Model
from partita.problems.throughput.contraction.csr import csr, transposed
from partita.problems.throughput.free.covering_program import add_device, unit_scale


@dataclass(frozen=True)
class Assignment:
    """A program: ``place[d][v]`` is the variable of item v on device d, ``load`` the largest load times ``scale``."""

    model: Model
    arrays: FreeArrays
    place: list[list[int]]
    load: int
    order: Ints
    scale: float

    def label(self, values: Floats) -> Ints:
        """The split of a solution."""
        return np.asarray(np.argmax(values[np.array(self.place)], axis=0), dtype=np.int32)

    def point(self, label: Ints, value: float) -> Floats:
        """The solution of a split with this largest load, devices of a kind renumbered as the program wants them."""
        kinds = self.arrays.kind_of
        new: dict[int, int] = {}
        unused = {int(k): [d for d in range(len(kinds)) if kinds[d] == k] for k in np.unique(kinds)}
        for v in self.order:
            d = int(label[v])
            if d not in new:
                new[d] = unused[int(kinds[d])].pop(0)
        values = np.zeros(self.model.size)
        for v, d in enumerate(label):
            values[self.place[new[int(d)]][v]] = 1.0
        values[self.load] = value * self.scale
        _complete(self.model, values, {v for row in self.place for v in row} | {self.load})
        return values


def _complete(model: Model, values: Floats, known: set[int]) -> None:
    """Give the dependent variables their smallest value, from rows ``variable - (terms) >= 0`` and ``<= 0``."""
    raised: set[int] = set()
    for variables, coefficients, lower, upper in model.rows:
        first = variables[0] if variables else -1
        if first in known or first < 0:
            continue
        rest = float(np.dot(coefficients[1:], values[variables[1:]]))
        if lower == 0.0 and coefficients[0] == 1.0:
            values[first] = max(values[first], -rest)
        elif upper == 0.0 and coefficients[0] == 1.0 and len(variables) == 2:
            # "whole": the smallest of its pins.
            values[first] = -rest if first not in raised else min(values[first], -rest)
            raised.add(first)


def assignment(
    arrays: FreeArrays, lower: float, upper: float, *, outside: bool = False, whole_cuts: bool = False
) -> Assignment:
    """Minimise the largest load between two values.

    Parameters
    ----------
    arrays
        The instance.
    lower, upper
        Loads to look between.
    outside
        Whether the last item stands for all that is on other devices.
    whole_cuts
        Make every variable but the load binary.
    """
    model, scale = Model(), unit_scale(upper)
    load = model.add_continuous(lower * scale, upper * scale, 1.0)
    devices, n = len(arrays.kind_of), arrays.work.shape[0]
    place = [
        add_device(model, arrays, int(kind), float(limit), load, upper, scale, whole_cuts=whole_cuts)
        for kind, limit in zip(arrays.kind_of, arrays.limit, strict=True)
    ]
    real = n - 1 if outside else n
    if outside:
        for row in place:
            model.fix(row[-1], 0.0)
    for v in range(real):
        model.add_row([(place[d][v], 1.0) for d in range(devices)], lower=1.0, upper=1.0)
    # Alike devices are numbered by their first item in this order, so item r is on one of the first r + 1.
    fastest = np.min(arrays.work[:real][:, arrays.kind_of], axis=1)
    order = np.argsort(-fastest, kind="stable").astype(np.int32)
    for kind in np.unique(arrays.kind_of):
        for number, device in enumerate(np.flatnonzero(arrays.kind_of == kind)):
            for v in order[:number]:
                model.fix(place[device][v], 0.0)
    return Assignment(model, arrays, place, load, order, scale)


@dataclass(frozen=True)
class Part:
    """The items of some devices, as an instance of its own with one more item for everything else."""

    arrays: FreeArrays
    items: Ints
    devices: Ints


def part(arrays: FreeArrays, label: Ints, devices: Ints) -> Part:
    """Only these devices and what they hold."""
    items = np.flatnonzero(np.isin(label, devices)).astype(np.int32)
    number = {int(v): i for i, v in enumerate(items)}
    outside = len(items)
    nets, costs = [], []
    for e in range(arrays.net_cost.shape[0]):
        pins = arrays.net_pins[arrays.net_ptr[e] : arrays.net_ptr[e + 1]]
        inside = [number[int(v)] for v in pins if int(v) in number]
        if inside and len(pins) > 1:
            nets.append(inside if len(inside) == len(pins) else [*inside, outside])
            costs.append(arrays.net_cost[e])
    net_ptr, net_pins = csr(nets)
    item_net_ptr, item_nets = transposed(net_ptr, net_pins, outside + 1)
    pointer, members = arrays.item_cover_ptr, arrays.item_covers
    cover_ptr, covers = csr([*(members[pointer[v] : pointer[v + 1]].tolist() for v in items), []])
    zero = np.zeros((1, arrays.work.shape[1]))
    reduced = arrays._replace(
        work=np.vstack([arrays.work[items], zero]),
        net_cost=np.array(costs).reshape(-1, arrays.work.shape[1]),
        net_ptr=net_ptr,
        net_pins=net_pins,
        item_net_ptr=item_net_ptr,
        item_nets=item_nets,
        kind_of=np.ascontiguousarray(arrays.kind_of[devices]),
        memory=np.append(arrays.memory[items], 0.0),
        workspace=np.append(arrays.workspace[items], 0.0),
        item_cover_ptr=cover_ptr,
        item_covers=covers,
        limit=np.ascontiguousarray(arrays.limit[devices]),
    )
    return Part(reduced, items, devices)
