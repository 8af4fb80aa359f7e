"""Programs of free splits: the assignment of items to all or a few devices, and one device of each kind."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.graph_arrays import Sets, lists, sets_of
from partita.engines.kernels.throughput.free_splits import FreeArrays
from partita.engines.mip.model import MixedProgram
from partita.ground.rounding import NOT_ZERO, TOLERANCE, raised, rounded_up, up_to
from partita.problems.throughput.bounds.programs.minmax_program import LARGEST_LOAD


class LoadProgram:
    """Minimise the largest load of devices that hold sets of items.

    Loads are looked for between two values: items that take longer are left out, and ``scale`` is what loads are
    multiplied with so that the largest one of interest is ``LARGEST_LOAD``. ``load`` is the variable of the largest
    load. With ``whole_cuts`` the variables of nets are binary, for backends that know only integers.
    """

    def __init__(self, arrays: FreeArrays, lower: float, upper: float, *, whole_cuts: bool = False) -> None:
        self.model, self.arrays, self.upper, self.whole_cuts = MixedProgram(), arrays, upper, whole_cuts
        self.scale = LARGEST_LOAD / upper if upper > 0 else 1.0
        self.load = self.model.add_continuous(lower * self.scale, upper * self.scale, 1.0)

    def add_device(self, kind: int, limit: float) -> list[int]:
        """A device of a kind with so much memory; the variables of whether each item is on it."""
        model, arrays, n = self.model, self.arrays, self.arrays.work.shape[0]
        items = [model.add_binary() for _ in range(n)]
        terms: list[tuple[int, float]] = [(self.load, -1.0)]

        def indicator() -> int:
            return model.add_binary() if self.whole_cuts else model.add_continuous(0.0, 1.0)

        for v in range(n):
            work = float(arrays.work[v, kind])
            if not work <= up_to(self.upper) or arrays.memory[v] + arrays.workspace[v] > limit:
                model.fix(items[v], 0.0)
            else:
                terms.append((items[v], self.scale * work))
        for e in range(arrays.net_cost.shape[0]):
            cost = float(arrays.net_cost[e, kind])
            if cost <= 0:
                continue
            # What no device of interest can pay is as good as twice its load: larger coefficients mislead backends.
            cost = min(cost * self.scale, 2.0 * LARGEST_LOAD)
            pins = [items[v] for v in arrays.net.members(e)]
            if len(pins) == 2:
                cut = indicator()
                terms.append((cut, cost))
                model.add_row([(cut, 1.0), (pins[0], -1.0), (pins[1], 1.0)], lower=0.0)
                model.add_row([(cut, 1.0), (pins[1], -1.0), (pins[0], 1.0)], lower=0.0)
                continue
            # Cut = some pin inside - all pins inside: the convex hull of a net.
            some, whole = indicator(), indicator()
            terms += [(some, cost), (whole, -cost)]
            for pin in pins:
                model.add_row([(some, 1.0), (pin, -1.0)], lower=0.0)
                model.add_row([(whole, 1.0), (pin, -1.0)], upper=0.0)
        model.add_row(terms, upper=0.0)
        if math.isfinite(limit):
            self._add_memory(items, limit)
        return items

    def _add_memory(self, items: list[int], limit: float) -> None:
        model, arrays = self.model, self.arrays
        unit = 1.0 / (limit or max(float(arrays.memory.max()), float(arrays.cover_bytes.max(initial=0.0))) or 1.0)
        memory = [(item, float(b) * unit) for item, b in zip(items, arrays.memory, strict=True) if b > 0]
        held = [model.add_continuous(0.0, 1.0) for _ in range(len(arrays.cover_bytes))]
        memory += [(variable, float(b) * unit) for variable, b in zip(held, arrays.cover_bytes, strict=True)]
        for v, item in enumerate(items):
            for c in arrays.cover.holding(v):
                model.add_row([(held[c], 1.0), (item, -1.0)], lower=0.0)
        largest = float(arrays.workspace.max())
        if largest > 0:
            space = model.add_continuous(0.0, 1.0)
            memory.append((space, largest * unit))
            for item, b in zip(items, arrays.workspace, strict=True):
                if b > 0:
                    model.add_row([(space, 1.0), (item, -float(b) / largest)], lower=0.0)
        model.add_row(memory, upper=rounded_up(limit * unit, 1.0, len(memory)))


class Assignment(LoadProgram):
    """Every item on one device: ``place[d][v]`` is the variable of item v on device d.

    With ``outside`` the last item stands for all that is on other devices.
    """

    def __init__(
        self, arrays: FreeArrays, lower: float, upper: float, *, outside: bool = False, whole_cuts: bool = False
    ) -> None:
        super().__init__(arrays, lower, upper, whole_cuts=whole_cuts)
        pairs = zip(arrays.kind_of, arrays.limit, strict=True)
        self.place = [self.add_device(int(kind), float(limit)) for kind, limit in pairs]
        real = arrays.work.shape[0] - int(outside)
        if outside:
            for row in self.place:
                self.model.fix(row[-1], 0.0)
        for v in range(real):
            self.model.add_row([(row[v], 1.0) for row in self.place], lower=1.0, upper=1.0)
        # Alike devices are numbered by their first item in this order, so item r is on one of the first r + 1.
        fastest = np.min(arrays.work[:real][:, arrays.kind_of], axis=1)
        self.order = np.argsort(-fastest, kind="stable").astype(np.int32)
        for kind in np.unique(arrays.kind_of):
            for number, device in enumerate(np.flatnonzero(arrays.kind_of == kind)):
                for v in self.order[:number]:
                    self.model.fix(self.place[device][v], 0.0)

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


def _complete(model: MixedProgram, values: Floats, known: set[int]) -> None:
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


def part(arrays: FreeArrays, label: Ints, devices: Ints) -> tuple[FreeArrays, Ints]:
    """Only these devices and the items they hold, with one more item for everything else; and the items."""
    items = np.flatnonzero(np.isin(label, devices)).astype(np.int32)
    number = {int(v): i for i, v in enumerate(items)}
    outside = len(items)

    def held(sets: Sets) -> list[list[int]]:
        return [[number[v] for v in row if v in number] for row in lists(sets.ptr, sets.pins)]

    sizes = np.diff(arrays.net.ptr).tolist()
    rows = [(e, row) for e, row in enumerate(held(arrays.net)) if row and sizes[e] > 1]
    nets = [row if len(row) == sizes[e] else [*row, outside] for e, row in rows]
    costs, covers = [arrays.net_cost[e] for e, _ in rows], held(arrays.cover)
    zero = np.zeros((1, arrays.work.shape[1]))
    reduced = arrays._replace(
        net=sets_of(nets, outside + 1),
        cover=sets_of(covers, outside + 1),
        work=np.vstack([arrays.work[items], zero]),
        net_cost=np.array(costs).reshape(-1, arrays.work.shape[1]),
        kind_of=np.ascontiguousarray(arrays.kind_of[devices]),
        memory=np.append(arrays.memory[items], 0.0),
        workspace=np.append(arrays.workspace[items], 0.0),
        limit=np.ascontiguousarray(arrays.limit[devices]),
    )
    return reduced, items


def kinds_of(arrays: FreeArrays) -> tuple[list[int], list[int]]:
    """Kinds that there are, and of these the ones that pay for transfers (all if none does)."""
    present = sorted({int(k) for k in arrays.kind_of})
    return present, [kind for kind in present if arrays.net_cost[:, kind].any()] or present


class Representatives(LoadProgram):
    """Minimise T such that sets S_k of load at most T, one for each kind, carry Σ_k n_k·charge(S_k) >= charge of all.

    Kinds that pay nothing for transfers are given their knapsack bound instead of a set, where others do pay.

    For any charges this is a lower bound on every split: of a split with objective T take for each kind the device that
    carries most. ``items[i][v]`` is whether item v is on the device of kind ``kinds[i]``.
    """

    def __init__(self, arrays: FreeArrays, charge: Floats, lower: float, upper: float) -> None:
        super().__init__(arrays, lower, upper)
        present, self.kinds = kinds_of(arrays)
        self.items: list[list[int]] = []
        carried: list[tuple[int, float]] = []
        needed = float(charge.sum())
        for kind in present:
            devices = np.flatnonzero(arrays.kind_of == kind)
            if kind not in self.kinds:
                # Without transfers a device is a knapsack; its relaxation at the largest load of interest is good
                # enough, and the program is much easier without it.
                needed -= len(devices) * knapsack(charge, arrays.work[:, kind], upper)
                continue
            items = self.add_device(kind, float(arrays.limit[devices[0]]))
            self.items.append(items)
            carried += [(item, len(devices) * float(y)) for item, y in zip(items, charge, strict=True) if y > 0]
        self.model.add_row(carried, lower=max(0.0, needed - TOLERANCE * float(charge.sum())))


def knapsack(charge: Floats, work: Floats, capacity: float) -> float:
    """No set of work at most ``capacity`` carries more charge: items that fit by themselves, divided at will."""
    price, fits = knapsack_price(charge, work, capacity), work <= up_to(capacity)
    gains = np.maximum(0.0, charge[fits] - price * work[fits])
    return raised(price * up_to(capacity) + float(gains.sum()))


def knapsack_price(charge: Floats, work: Floats, capacity: float) -> float:
    """The price of work that bounds it best: the charge per work of the item that is divided; 0 if none is."""
    fits = work <= up_to(capacity)
    value, weight = charge[fits], work[fits]
    rate = value / np.maximum(weight, NOT_ZERO)
    order = np.argsort(-rate, kind="stable")
    full = np.flatnonzero(np.cumsum(weight[order]) > up_to(capacity))
    return float(rate[order[full[0]]]) if len(full) else 0.0
