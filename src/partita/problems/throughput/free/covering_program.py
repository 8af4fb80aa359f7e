"""One device of each kind, chosen to carry as much charge as possible: the program behind the covering bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.anneal_free import FreeArrays
from partita.kernels.throughput.arrays import Floats
from partita.mip.model import Model

#: Largest load of interest inside of programs: tolerances of backends are absolute, and become relative ones here.
UNIT = 1000.0


@dataclass(frozen=True)
class Representatives:
    """The program and its variables: ``items[i][v]`` is whether item v is on the device of kind ``kinds[i]``.

    Its objective is a load times ``scale``.
    """

    model: Model
    kinds: list[int]
    items: list[list[int]]
    scale: float


def unit_scale(upper: float) -> float:
    """What loads are multiplied with so that the largest one of interest is ``UNIT``."""
    return UNIT / upper if upper > 0 else 1.0


def add_device(
    model: Model,
    arrays: FreeArrays,
    kind: int,
    limit: float,
    load: int,
    upper: float,
    scale: float,
    *,
    whole_cuts: bool = False,
) -> list[int]:
    """Variables and rows of one device that holds any set of items with load at most the variable ``load``.

    Parameters
    ----------
    model
        The program.
    arrays
        The instance.
    kind, limit
        The device's kind and memory.
    load
        The variable its load must not exceed.
    upper
        Loads of interest: items that take longer are left out.
    scale
        What times are multiplied with.
    whole_cuts
        Make the variables of nets binary, for backends that know only integers.

    Returns
    -------
    list of int
        Whether each item is on the device.
    """
    n = arrays.work.shape[0]
    items = [model.add_binary() for _ in range(n)]
    terms: list[tuple[int, float]] = [(load, -1.0)]

    def indicator() -> int:
        return model.add_binary() if whole_cuts else model.add_continuous(0.0, 1.0)

    bounded = math.isfinite(limit)
    for v in range(n):
        work = float(arrays.work[v, kind])
        if not work <= upper * (1 + 1e-9) or arrays.memory[v] + arrays.workspace[v] > limit:
            model.fix(items[v], 0.0)
        else:
            terms.append((items[v], scale * work))
    for e in range(arrays.net_cost.shape[0]):
        cost = float(arrays.net_cost[e, kind])
        if cost <= 0:
            continue
        cost *= scale
        pins = [items[v] for v in arrays.net_pins[arrays.net_ptr[e] : arrays.net_ptr[e + 1]]]
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
    if bounded:
        _add_memory(model, arrays, items, limit)
    return items


def _add_memory(model: Model, arrays: FreeArrays, items: list[int], limit: float) -> None:
    unit = 1.0 / (limit or max(float(arrays.memory.max()), float(arrays.cover_bytes.max(initial=0.0))) or 1.0)
    memory = [(item, float(b) * unit) for item, b in zip(items, arrays.memory, strict=True) if b > 0]
    held = [model.add_continuous(0.0, 1.0) for _ in range(len(arrays.cover_bytes))]
    memory += [(variable, float(b) * unit) for variable, b in zip(held, arrays.cover_bytes, strict=True)]
    for v, item in enumerate(items):
        for c in arrays.item_covers[arrays.item_cover_ptr[v] : arrays.item_cover_ptr[v + 1]]:
            model.add_row([(held[c], 1.0), (item, -1.0)], lower=0.0)
    largest = float(arrays.workspace.max())
    if largest > 0:
        space = model.add_continuous(0.0, 1.0)
        memory.append((space, largest * unit))
        for item, b in zip(items, arrays.workspace, strict=True):
            if b > 0:
                model.add_row([(space, 1.0), (item, -float(b) / largest)], lower=0.0)
    model.add_row(memory, upper=limit * unit * (1 + 1e-9))


def representatives(arrays: FreeArrays, charge: Floats, lower: float, upper: float) -> Representatives:
    """Minimise T such that sets S_k of load at most T, one for each kind, carry Σ_k n_k·charge(S_k) >= charge of all.

    Kinds that pay nothing for transfers are given their knapsack bound instead of a set, where others do pay.

    For any charges this is a lower bound on every split: of a split with objective T take for each kind the device that
    carries most.
    """
    model, scale = Model(), unit_scale(upper)
    load = model.add_continuous(lower * scale, upper * scale, 1.0)
    present = sorted({int(k) for k in arrays.kind_of})
    kinds = [kind for kind in present if arrays.net_cost[:, kind].any()] or present
    rows: list[list[int]] = []
    carried: list[tuple[int, float]] = []
    needed = float(charge.sum())
    for kind in present:
        devices = np.flatnonzero(arrays.kind_of == kind)
        if kind not in kinds:
            # Without transfers a device is a knapsack; its relaxation at the largest load of interest is good enough,
            # and the program is much easier without it.
            needed -= len(devices) * knapsack(charge, arrays.work[:, kind], upper)
            continue
        items = add_device(model, arrays, kind, float(arrays.limit[devices[0]]), load, upper, scale)
        rows.append(items)
        carried += [(item, len(devices) * float(y)) for item, y in zip(items, charge, strict=True) if y > 0]
    model.add_row(carried, lower=max(0.0, needed - 1e-9 * float(charge.sum())))
    return Representatives(model, kinds, rows, scale)


def knapsack(charge: Floats, work: Floats, capacity: float) -> float:
    """No set of work at most ``capacity`` carries more charge: items that fit by themselves, divided at will."""
    fits = work <= capacity * (1 + 1e-9)
    value, weight = charge[fits], work[fits]
    order = np.argsort(-value / np.maximum(weight, 1e-300), kind="stable")
    left = capacity * (1 + 1e-9)
    total = 0.0
    for v in order:
        share = 1.0 if weight[v] <= left else left / float(weight[v])
        total += share * float(value[v])
        left -= share * float(weight[v])
        if share < 1.0:
            break
    return total * (1 + 1e-12)
