"""What a set of devices can still take, for every line that bounds work; and the bounds that follow.

As ``problems.throughput.solvers.remaining_capacity``: for any y ≥ 0 over the kinds, a remainder that fits on r_k
devices of kind k
satisfies Σ_v min_k y_k·t_vk + Σ_e min_k y_k·c_ek ≤ Σ_k y_k·r_k·limit. This holds for each line with work by itself:

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

from partita.kernels.throughput.arrays import Floats, Longs
from partita.problems.throughput.solvers.variants.load_lines import BACKWARD, BOTH, FORWARD
from partita.problems.throughput.solvers.variants.prepared import VariantPrepared

__all__ = ["LowerBounds", "VariantCapacity", "lower_bounds", "variant_capacity"]

#: Most rows of weights of one rule.
MOST_ROWS = 24
#: Candidate weights per further kind, by the number of kinds.
CANDIDATES = {1: 1, 2: 10, 3: 5, 4: 3}


@dataclass(frozen=True)
class _Rule:
    """Weights (K, n) and (K, m), infinite where an item cannot run; limit place; a bonus per device of each kind."""

    item: Floats
    net: Floats
    limit: int | None
    bonus: Floats


@dataclass(frozen=True)
class VariantCapacity:
    """Rules by remaining-count code; see ``partita.kernels.throughput.search_state.LineWeights``."""

    item: Floats
    net: Floats
    choice: Longs
    scale: Floats
    bonus: Floats
    first_scale: Floats
    first_bonus: Floats
    place: tuple[int | None, ...]
    radix: Longs

    def budget(self, limits: tuple[float, float, float], slack: float, *, first: bool = False) -> Floats:
        """(rules, codes) budgets for limits (both, forward, backward), of all devices or of the first group's."""
        limit = np.array([0.0 if place is None else limits[place] for place in self.place])
        scale, bonus = (self.first_scale, self.first_bonus) if first else (self.scale, self.bonus)
        exact = np.where(scale > 0, limit[:, None] * scale, 0.0) + bonus
        # Sums of many items may round up.
        return np.asarray(exact * (1 + slack) + 1e-12 * self.item.sum(axis=1)[self.choice])


@dataclass(frozen=True)
class LowerBounds:
    """Of the objective, the largest forward load and the largest backward load; infinite if an item runs nowhere."""

    both: float
    forward: float
    backward: float


def _rules(prepared: VariantPrepared) -> list[_Rule]:
    lines, a, shape = prepared.lines, prepared.arrays, prepared.shape
    kinds = a.devices.shape[0]
    rules = []
    work_lines = [i for i in range(len(shape.limit)) if shape.coefficients[i, [0, 3]].any()]
    bytes_each = a.fixed + a.active
    limited = np.isfinite(a.memory)
    for line in work_lines:
        item = np.where(lines.can != 0, lines.work[:, :, line], np.inf)
        net = np.minimum(lines.cost_in[:, :, line], lines.cost_out[:, :, line])
        rules.append(_Rule(item, net, shape.limit[line], np.zeros(kinds)))
        rate = np.where(limited, lines.reload_time, 0.0)
        if shape.limit[line] == BOTH and prepared.problem.streaming and rate.any():
            more = rate[:, None] * bytes_each[None, :]
            rules.append(_Rule(item + more, net, BOTH, rate * np.where(limited, a.memory, 0.0)))
    if lines.hard and limited.all() and bytes_each.any():
        item = np.where(lines.can != 0, bytes_each[None, :], np.inf)
        rules.append(_Rule(item, np.zeros((kinds, a.net_entering.shape[0])), None, a.memory))
    return rules


def _candidates(item: Floats, kinds: list[int]) -> list[Floats]:
    """Weights of the kinds (first fixed at 1): combinations of weighted quantiles of ratios of times."""
    base = item[kinds[0]]
    axes: list[list[float]] = [[1.0]]
    most = CANDIDATES.get(len(kinds), 2)
    for kind in kinds[1:]:
        both = np.isfinite(base) & np.isfinite(item[kind]) & (base > 0) & (item[kind] > 0)
        ratio = base[both] / item[kind][both]
        if ratio.size == 0:
            axes.append([0.0, 1.0])
            continue
        order = np.argsort(ratio, kind="stable")
        ratio, weight = ratio[order], base[both][order]
        place = np.searchsorted(np.cumsum(weight), np.linspace(0.0, 1.0, most) * weight.sum() * (1 - 1e-9))
        chosen = ratio[np.minimum(place, ratio.size - 1)]
        axes.append(sorted({float(ratio[0]), float(ratio[-1]), *(float(c) for c in chosen)}))
    return [np.array(y) for y in itertools.product(*axes)]


def _least(values: Floats, y: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        products = np.where(np.isinf(values), np.inf, values * y[:, None])
    return np.asarray(products.min(axis=0, initial=np.inf), dtype=np.float64)


def lower_bounds(prepared: VariantPrepared) -> LowerBounds:
    """Bounds from the division of work, and from the largest item on as many replicas as allowed."""
    a = prepared.arrays
    kinds = list(range(a.devices.shape[0]))
    best = {BOTH: 0.0, FORWARD: 0.0, BACKWARD: 0.0}
    for rule in _rules(prepared):
        if rule.limit is None:
            continue
        if not rule.bonus.any():
            single = (rule.item / prepared.lines.replicas[:, None]).min(axis=0)
            best[rule.limit] = max(best[rule.limit], float(single.max(initial=0.0)))
        if np.isinf(best[rule.limit]):
            return LowerBounds(np.inf, np.inf, np.inf)
        for y in _candidates(rule.item, kinds):
            scale = float(y @ a.devices)
            weight = float(_least(rule.item, y).sum()) - float((y * rule.bonus) @ a.devices)
            if scale > 0 and np.isfinite(weight):
                best[rule.limit] = max(best[rule.limit], weight / scale)
    safe = 1 - 1e-12
    both = max(best[BOTH], best[FORWARD] + best[BACKWARD])
    return LowerBounds(both * safe, best[FORWARD] * safe, best[BACKWARD] * safe)


def variant_capacity(prepared: VariantPrepared, top: float) -> VariantCapacity:
    """Rules for every remaining-count code, valid for limits up to ``top``."""
    a = prepared.arrays
    count = [int(c) for c in a.devices]
    kinds = len(count)
    radix = np.ones(kinds, dtype=np.int64)
    for kind in range(1, kinds):
        radix[kind] = radix[kind - 1] * (count[kind - 1] + 1)
    size = int(np.prod([c + 1 for c in count]))
    left = np.stack([(np.arange(size) // radix[k]) % (count[k] + 1) for k in range(kinds)], axis=1)
    support = (left > 0) @ (1 << np.arange(kinds))
    rules = _rules(prepared)
    items: list[Floats] = []
    nets: list[Floats] = []
    choice, scale, bonus, first_scale, first_bonus = (np.zeros((len(rules), size)) for _ in range(5))
    early = prepared.lines.phase == 0
    for number, rule in enumerate(rules):
        # With no device left, whatever remains is too much.
        choice[number, support == 0] = len(items)
        items.append(np.ones(prepared.items))
        nets.append(np.zeros(rule.net.shape[1]))
        masks = [mask for mask in range(1, 1 << kinds) if (support == mask).any()]
        for mask in masks:
            members = [k for k in range(kinds) if mask >> k & 1]
            codes = np.flatnonzero(support == mask)
            options = _candidates(rule.item, members)
            least = [_least(rule.item[members], y) for y in options]
            total = np.array([row[np.isfinite(row)].sum() for row in least])
            scales = np.stack([left[codes][:, members] @ y for y in options], axis=1)
            gains = np.stack([left[codes][:, members] @ (y * rule.bonus[members]) for y in options], axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                if rule.limit is None:
                    slack = np.where(gains > 0, total / gains, -1.0)
                else:
                    slack = np.where(scales > 0, (total - gains) / scales, -np.inf)
            pick = slack.argmax(axis=1)
            used, frequency = np.unique(pick, return_counts=True)
            if len(used) > max(1, MOST_ROWS // len(masks)):
                keep = np.sort(used[np.argsort(-frequency, kind="stable")[: max(1, MOST_ROWS // len(masks))]])
                pick = keep[slack[:, keep].argmax(axis=1)]
                used = np.unique(pick)
            for option in used:
                here = pick == option
                choice[number, codes[here]] = len(items)
                scale[number, codes[here]] = scales[here, option]
                bonus[number, codes[here]] = gains[here, option]
                y = options[option] * early[members]
                first_scale[number, codes[here]] = left[codes[here]][:, members] @ y
                first_bonus[number, codes[here]] = left[codes[here]][:, members] @ (y * rule.bonus[members])
                items.append(least[option])
                nets.append(_least(rule.net[members], options[option]))
    # Large enough to exceed every budget, small enough to leave the sums their digits.
    huge = 2.0 * (top * float(scale.max(initial=0.0)) + float(bonus.max(initial=0.0))) + 1e-300
    item = np.stack(items)
    item[~np.isfinite(item)] = huge
    return VariantCapacity(
        item=item,
        net=np.stack(nets),
        choice=choice.astype(np.int64),
        scale=scale,
        bonus=bonus,
        first_scale=first_scale,
        first_bonus=first_bonus,
        place=tuple(rule.limit for rule in rules),
        radix=radix,
    )
