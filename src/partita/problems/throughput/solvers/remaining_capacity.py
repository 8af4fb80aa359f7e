"""What a set of devices can still take: weights that every completable remainder must respect; and bounds from them.

For any y ≥ 0 over the pools, a remainder that fits on r_k devices of pool k with loads at most T satisfies Σ_v min_k
y_k·t_vk + Σ_e min_k y_k·c_ek ≤ T·Σ_k y_k·r_k, where v runs over the remaining items, e over the nets that cross into
them (some remaining device pays each of those once) and k over the pools with r_k > 0: multiply every device's load
by its pool's y and add up. The best y is the dual of the fractional assignment; here it is chosen from ratios of
times, once, by the whole graph, because any choice is valid.

Memory enters the same way: with µ ≥ 0, Σ_v min_k (y_k·t_vk + µ_k·bytes_v) ≤ Σ_k r_k·(T·y_k + µ_k·M_k). This matters
where memory forces items off the accelerators.

For variants this holds for each line with work by itself:

- *Overlapping communication*: t is work alone, and nets weigh nothing.
- *Replicas*: r devices take one stage of at most r·limit; synchronisation only adds.
- *Reloading*: a device with memory M and reload time ρ satisfies load + ρ·(memory − M) ≤ limit as well as load ≤ limit,
  so t_v + ρ·bytes_v ≤ limit + ρ·M is one more rule; a stage of r replicas satisfies it r times over. Bytes held by
  several items, and all but one microbatch, are left out: they only add.
- *Hard limits*: bytes_v ≤ M likewise.
- *Groups*: the devices that remain are those of groups that are not left. Where all cuts between the groups are known,
  what the first group's devices do not take must lie beyond a cut, nets that touch it included.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.ground.rounding import SUMMED, clearly_below, lowered
from partita.problems.throughput.solvers.view import CapacityRule, PhaseLoads, SearchView

#: Most rows of weights of one rule.
MOST_ROWS = 24
#: Candidate weights per further pool, by the number of pools.
CANDIDATES = {1: 1, 2: 14, 3: 6, 4: 3}
#: Candidate trades of bytes for time.
TRADES = 12


@dataclass(frozen=True)
class Capacity:
    """Weights by rule and remaining-count code; the kernels' ``Weights`` says what they are for."""

    #: (rows, n) and (rows, m) weights.
    item: Floats
    net: Floats
    choice: Longs  #: (rules, codes) row.
    #: (rules, codes) Σ y_k·r_k, and what the devices take beside: the budget at a limit is limit·scale + bonus.
    scale: Floats
    bonus: Floats
    #: The same of the devices in the group that is filled first.
    first_scale: Floats
    first_bonus: Floats
    limit: tuple[int | None, ...]  #: (rules,) place in ``PhaseLoads``, None where there is no scale.
    memory: Floats  #: (codes,) memory of the devices together.
    radix: Longs  #: (K,) of the codes, over all pools.

    def budget(self, limits: PhaseLoads, *, first: bool = False) -> Floats:
        """(rules, codes) budgets, of all devices or of the first group's."""
        limit = np.array([0.0 if place is None else limits[place] for place in self.limit])
        scale, bonus = (self.first_scale, self.first_bonus) if first else (self.scale, self.bonus)
        exact = np.where(scale > 0, limit[:, None] * scale, 0.0) + bonus
        return np.asarray(exact * (1 + 2 * SUMMED) + SUMMED * self.item.sum(axis=1)[self.choice])


def _scaled(values: Floats, y: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isinf(values), np.inf, values * y[:, None]))


def _options(rule: CapacityRule, members: list[int]) -> list[tuple[Floats, Floats, Floats]]:
    """Multipliers y of pools worth trying, (n,) least weights of items there, and what a device of each takes beside.

    They are combinations of weighted quantiles of ratios of times (the first pool's is 1).
    """
    base = rule.item[members[0]]
    axes: list[list[float]] = [[1.0]]
    most = CANDIDATES.get(len(members), 2)
    for pool in members[1:]:
        both = np.isfinite(base) & np.isfinite(rule.item[pool]) & (base > 0) & (rule.item[pool] > 0)
        ratio = base[both] / rule.item[pool][both]
        if ratio.size == 0:
            axes.append([0.0, 1.0])
            continue
        order = np.argsort(ratio, kind="stable")
        ratio, weight = ratio[order], base[both][order]
        place = np.searchsorted(np.cumsum(weight), np.linspace(0.0, 1.0, most) * clearly_below(weight.sum()))
        chosen = ratio[np.minimum(place, ratio.size - 1)]
        axes.append(sorted({float(ratio[0]), float(ratio[-1]), *(float(c) for c in chosen)}))
    none = np.zeros(1)
    tried = [(np.array(y), none, none) for y in itertools.product(*axes)] + _trades(rule, members)
    return [
        (y, (_scaled(rule.item[members], y) + held).min(axis=0, initial=np.inf), y * rule.bonus[members] + beside)
        for y, held, beside in tried
    ]


def _trades(rule: CapacityRule, members: list[int]) -> list[tuple[Floats, Floats, Floats]]:
    """Bytes on the pools with limited memory against time on the others: y, µ·bytes and µ·memory."""
    if rule.bytes is None or rule.memory is None:
        return []
    memory = rule.memory[members]
    limited = np.isfinite(memory)
    if not limited.any() or limited.all():
        return []
    times = np.where(limited[:, None], np.inf, rule.item[members]).min(axis=0)
    both = np.isfinite(times) & (times > 0) & (rule.bytes > 0)
    ratio = np.sort(times[both] / rule.bytes[both])
    places: list[int] = np.linspace(0, ratio.size - 1, TRADES).astype(int).tolist() if ratio.size else []
    y, memory = (~limited).astype(np.float64), np.where(limited, memory, 0.0)
    return [(y, np.outer(limited * ratio[place], rule.bytes), limited * ratio[place] * memory) for place in places]


def lower_bounds(view: SearchView) -> PhaseLoads:
    """Bounds from the division of work, and from the largest item on as many replicas as allowed.

    Infinite if an item runs nowhere; those of the phases are 0 unless they have limits of their own.
    """
    devices = view.arrays.devices.astype(np.float64)
    pools = list(range(len(devices)))
    best = [0.0, 0.0, 0.0]
    for rule in view.rules():
        if rule.limit is None:
            continue
        if not rule.bonus.any():
            single = (rule.item / view.replicas[:, None]).min(axis=0)
            best[rule.limit] = max(best[rule.limit], float(single.max(initial=0.0)))
        if np.isinf(best[rule.limit]):
            return PhaseLoads(np.inf, np.inf, np.inf)
        for y, weights, beside in _options(rule, pools):
            scale = float((y * devices).sum())
            weight = lowered(float(weights.sum())) - float(devices @ beside)
            if scale > 0 and np.isfinite(weight):
                best[rule.limit] = max(best[rule.limit], weight / scale)
    both, forward, backward = best
    return PhaseLoads(lowered(max(both, forward + backward)), lowered(forward), lowered(backward))


def capacity(view: SearchView, top: float) -> Capacity:
    """Rules for every remaining-count code, valid for limits up to ``top``."""
    a, rules = view.arrays, view.rules()
    pools, sizes = len(a.devices), a.devices + 1
    size, radix = int(sizes.prod()), sizes.cumprod() // sizes
    left = np.arange(size)[:, None] // radix % sizes
    support = (left > 0) @ (1 << np.arange(pools))
    masks = [mask for mask in range(1, 1 << pools) if (support == mask).any()]
    most = max(1, MOST_ROWS // len(masks))
    items: list[Floats] = []
    nets: list[Floats] = []
    choice = np.zeros((len(rules), size), dtype=np.int64)
    scale, bonus, first_scale, first_bonus = (np.zeros((len(rules), size)) for _ in range(4))
    for number, rule in enumerate(rules):
        if view.variants:
            # With no device left, whatever remains is too much; the search of plain problems ends there by itself.
            choice[number, support == 0] = len(items)
            items.append(np.ones(view.items))
            nets.append(np.zeros(rule.net.shape[1]))
        for mask in masks:
            members = [k for k in range(pools) if mask >> k & 1]
            codes = np.flatnonzero(support == mask)
            options = _options(rule, members)
            here = left[codes][:, members].astype(np.float64)
            timed = 0.0 if rule.limit is None else 1.0
            scales = np.stack([here @ (timed * y) for y, _, _ in options], axis=1)
            gains = np.stack([here @ beside for _, _, beside in options], axis=1)
            budgets = scales * top + gains
            total = np.array([row[np.isfinite(row)].sum() for _, row, _ in options])
            with np.errstate(divide="ignore", invalid="ignore"):
                pick = _few(np.where(budgets > 0, total / budgets, -1.0), most)
            for option in np.unique(pick):
                rows, (y, least, beside) = codes[pick == option], options[option]
                choice[number, rows] = len(items)
                scale[number, rows] = scales[pick == option, option]
                bonus[number, rows] = gains[pick == option, option]
                early = here[pick == option] * view.early[members]
                first_scale[number, rows] = early @ (timed * y)
                first_bonus[number, rows] = early @ beside
                items.append(least)
                nets.append(_scaled(rule.net[members], y).min(axis=0))
    # Large enough to exceed every budget, small enough to leave the sums their digits.
    huge = 2.0 * float((top * scale + bonus).max(initial=0.0)) + 1e-300
    item = np.stack(items)
    item[~np.isfinite(item)] = huge
    with np.errstate(invalid="ignore"):
        memory = np.where(left > 0, left * a.memory, 0.0).sum(axis=1)
    limits = tuple(rule.limit for rule in rules)
    return Capacity(item, np.stack(nets), choice, scale, bonus, first_scale, first_bonus, limits, memory, radix)


def _few(value: Floats, most: int) -> Longs:
    """The best option (column) of every row, of at most so many different options: those that are best most often."""
    pick = value.argmax(axis=1)
    used, frequency = np.unique(pick, return_counts=True)
    if len(used) > most:
        keep = np.sort(used[np.argsort(-frequency, kind="stable")[:most]])
        pick = keep[value[:, keep].argmax(axis=1)]
    return np.asarray(pick)
