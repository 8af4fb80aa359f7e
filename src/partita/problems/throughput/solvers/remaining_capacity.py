"""What a set of devices can still take: weights that every completable remainder must respect.

For any y ≥ 0 over the kinds, a remainder that fits on r_k devices of kind k with loads at most T satisfies Σ_v min_k
y_k·t_vk + Σ_e min_k y_k·c_ek ≤ T·Σ_k y_k·r_k, where v runs over the remaining items, e over the nets that cross into
them (some remaining device pays each of those once) and k over the kinds with r_k > 0: multiply every device's load
by its kind's y and add up. The best y is the dual of the fractional assignment; here it is chosen from ratios of
times, once, by the whole graph, because any choice is valid.

Memory enters the same way: with µ ≥ 0, Σ_v min_k (y_k·t_vk + µ_k·bytes_v) ≤ Σ_k r_k·(T·y_k + µ_k·M_k). This matters
where memory forces items off the accelerators.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.arrays import Arrays, Floats, Longs

__all__ = ["Capacity", "capacity", "fractional_bound", "least_bytes"]

MOST_ROWS = 24


@dataclass(frozen=True)
class Capacity:
    """Weights by remaining-count code; see ``partita.kernels.throughput.search.Weights``.

    ``scale[code]`` is Σ y_k·r_k and ``room[code]`` Σ µ_k·M_k·r_k: the budget at a target T is T·scale + room.
    """

    item: Floats
    net: Floats
    total: Floats
    choice: Longs
    scale: Floats
    room: Floats
    memory: Floats
    radix: Longs


def _ratios(times: Floats, kinds: list[int], most: int) -> list[Floats]:
    """Candidate y over ``kinds`` (first fixed at 1): combinations of weighted quantiles of ratios of times."""
    base = times[kinds[0]]
    axes: list[list[float]] = [[1.0]]
    for kind in kinds[1:]:
        both = np.isfinite(base) & np.isfinite(times[kind]) & (base > 0) & (times[kind] > 0)
        ratio = base[both] / times[kind][both]
        if ratio.size == 0:
            axes.append([0.0, 1.0])
            continue
        order = np.argsort(ratio, kind="stable")
        ratio, weight = ratio[order], base[both][order]
        place = np.searchsorted(np.cumsum(weight), np.linspace(0.0, 1.0, most) * weight.sum() * (1 - 1e-9))
        chosen = ratio[np.minimum(place, ratio.size - 1)]
        axes.append(sorted({float(ratio[0]), float(ratio[-1]), *(float(c) for c in chosen)}))
    return [np.array(y) for y in itertools.product(*axes)]


#: Multipliers of time and of memory, one per kind of a subset of kinds.
Multipliers = tuple[Floats, Floats]


def _candidates(arrays: Arrays, kinds: list[int]) -> list[Multipliers]:
    zero = np.zeros(len(kinds))
    found = [(y, zero) for y in _ratios(arrays.work, kinds, {1: 1, 2: 14, 3: 6, 4: 3}.get(len(kinds), 2))]
    limited = np.isfinite(arrays.memory[kinds])
    if not limited.any() or limited.all():
        return found
    # Trade bytes on the limited kinds for time on the others.
    size = least_bytes(arrays)
    times = np.where(limited[:, None], np.inf, arrays.work[kinds]).min(axis=0)
    both = np.isfinite(times) & (times > 0) & (size > 0)
    ratio = np.sort(times[both] / size[both])
    for place in np.linspace(0, ratio.size - 1, 12).astype(int) if ratio.size else []:
        found.append(((~limited).astype(np.float64), np.where(limited, ratio[place], 0.0)))
    return found


def least_bytes(arrays: Arrays) -> Floats:
    """Bytes every device needs at least for an item."""
    return np.asarray(arrays.fixed + (1 if arrays.recompute else arrays.in_flight[1:].min()) * arrays.active)


def _least(values: Floats, y: Floats, extra: Floats | None = None, size: Floats | None = None) -> Floats:
    with np.errstate(invalid="ignore"):
        products = np.where(np.isinf(values), np.inf, values * y[:, None])
    if extra is not None and size is not None:
        products = products + extra[:, None] * size
    return np.asarray(products.min(axis=0), dtype=np.float64)


def _room(count: Floats, extra: Floats, memory: Floats) -> Floats:
    """Σ r_k·µ_k·M_k for every row of counts; kinds without a limit have µ = 0."""
    return np.asarray(count @ (extra * np.where(extra > 0, memory, 0.0)), dtype=np.float64)


def fractional_bound(arrays: Arrays) -> float:
    """Lower bound on the objective: work divided as if operators could be split; infinite if one can run nowhere."""
    kinds = list(range(arrays.work.shape[0]))
    single = arrays.work.min(axis=0)
    if np.isinf(single).any():
        return float("inf")
    best = float(single.max(initial=0.0))
    size = least_bytes(arrays)
    for y, extra in _candidates(arrays, kinds):
        scale = float((y * arrays.devices).sum())
        room = float(_room(arrays.devices.astype(np.float64), extra, arrays.memory))
        if scale > 0:
            best = max(best, (float(_least(arrays.work, y, extra, size).sum()) * (1 - 1e-12) - room) / scale)
    return best * (1 - 1e-12)


def capacity(arrays: Arrays, top: float) -> Capacity:
    """Weights for every remaining-count code, valid for targets up to ``top``."""
    count = [int(c) for c in arrays.devices]
    kinds = len(count)
    radix = np.ones(kinds, dtype=np.int64)
    for kind in range(1, kinds):
        radix[kind] = radix[kind - 1] * (count[kind - 1] + 1)
    size = int(np.prod([c + 1 for c in count]))
    left = np.stack([(np.arange(size) // radix[k]) % (count[k] + 1) for k in range(kinds)], axis=1)
    chosen: list[tuple[list[int], Multipliers]] = []
    choice = np.zeros(size, dtype=np.int64)
    scale, room = np.zeros(size), np.zeros(size)
    size_of = least_bytes(arrays)
    support = (left > 0) @ (1 << np.arange(kinds))
    masks = [mask for mask in range(1, 1 << kinds) if (support == mask).any()]
    per_mask = max(1, MOST_ROWS // len(masks))
    for mask in masks:
        members = [k for k in range(kinds) if mask >> k & 1]
        codes = np.flatnonzero(support == mask)
        times = arrays.work
        options = _candidates(arrays, members)
        weights = []
        for y, extra in options:
            least = _least(times[members], y, extra, size_of)
            weights.append(float(least[np.isfinite(least)].sum()))
        here = left[codes][:, members].astype(np.float64)
        scales = np.stack([here @ y for y, _ in options], axis=1)
        rooms = np.stack([_room(here, extra, arrays.memory[members]) for _, extra in options], axis=1)
        budgets = scales * top + rooms
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(budgets > 0, np.array(weights) / budgets, -1.0)
        pick = value.argmax(axis=1)
        used, frequency = np.unique(pick, return_counts=True)
        if len(used) > per_mask:
            keep = np.sort(used[np.argsort(-frequency, kind="stable")[:per_mask]])
            pick = keep[value[:, keep].argmax(axis=1)]
            used = np.unique(pick)
        for option in used:
            rows = codes[pick == option]
            choice[rows] = len(chosen)
            scale[rows] = scales[pick == option, option]
            room[rows] = rooms[pick == option, option]
            chosen.append((members, options[option]))
    # Large enough to exceed every budget, small enough to leave the sums their digits.
    huge = 2.0 * float((top * scale + room).max()) + 1e-300
    item = np.stack([_least(arrays.work[members], y, extra, size_of) for members, (y, extra) in chosen])
    item[~np.isfinite(item)] = huge
    net = np.stack([_least(arrays.net_cost[members], y) for members, (y, _) in chosen])
    with np.errstate(invalid="ignore"):
        memory = np.where(left > 0, left * arrays.memory, 0.0).sum(axis=1)
    return Capacity(item, net, np.append(item.sum(axis=1), 0.0), choice, scale, room, memory, radix)
