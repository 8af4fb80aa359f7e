"""Machines one after the other: the best flow that the largest numbers of layers allow, and whether there is any row.

For a flow f a machine holds at most the k layers with rate(k) >= f, and a row of machines is enough if these are as
many as the model has; the best such f is a rate of some machine. Where links are many and wide, this is often the
largest flow. Source: own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.problems.layer_placement.instance import LayerInstance

#: Machines up to which all sets of them are tried for any row.
FEW = 12


def best_chains(instance: LayerInstance) -> Iterator[tuple[float, dict[int, tuple[int, int]]]]:
    """Flows from the largest down for which machines in a row hold all layers, with such a row along wide links."""
    for flow in np.unique(instance.rate[instance.rate > 0])[::-1].tolist():
        alone = instance.alone(flow)
        if int(alone.sum()) >= instance.layers:
            held = fitted(instance, flow, _along_links(instance, alone))
            if held is not None:
                yield flow, held


def two_chains(instance: LayerInstance, more: float) -> Iterator[tuple[float, dict[int, tuple[int, int]]]]:
    """Two rows beside each other, with a flow above ``more`` together: machines are shared out by kinds.

    Flows are pairs of rates, the largest sums first; for each, one kind after the other, of every number of layers that
    the first row may hold the most that the second one holds then.
    """
    rates = np.unique(instance.rate[instance.rate > 0])[::-1]
    sums = [(float(a + b), float(a), float(b)) for n, a in enumerate(rates) for b in rates[n:] if a + b > more]
    room = {float(rate): instance.alone(float(rate)) for rate in rates}
    for total, first, second in sorted(sums, reverse=True):
        one, two = room[first], room[second]
        if np.maximum(one, two).sum() < 2 * instance.layers:
            continue
        shares = _shared(instance, [(int(one[m[0]]), int(two[m[0]]), len(m)) for m in instance.kinds])
        if shares is None:
            continue
        held: dict[int, tuple[int, int]] = {}
        for flow, alone, part in ((first, one, 0), (second, two, 1)):
            members = np.zeros_like(alone)
            for kind, count in zip(instance.kinds, shares, strict=True):
                chosen = kind[:count] if part == 0 else kind[count:]
                members[chosen] = alone[chosen]
            row = fitted(instance, flow, _along_links(instance, members))
            held |= row or {}
        yield total, held


def _shared(instance: LayerInstance, kinds: list[tuple[int, int, int]]) -> list[int] | None:
    """Of every kind the machines in the first of two rows, so that both hold all layers; None if they cannot.

    Kinds are layers of one machine in the first and in the second row, and the number of machines.
    """
    layers = instance.layers
    # By layers of the first row, no more than are needed, the most of the second.
    best = np.full(layers + 1, -1, dtype=np.int64)
    best[0] = 0
    choices = []
    for a, b, count in kinds:
        now, choice = np.full(layers + 1, -1, dtype=np.int64), np.zeros(layers + 1, dtype=np.int64)
        came = np.zeros(layers + 1, dtype=np.int64)
        for n in range(count + 1):
            for before in np.flatnonzero(best >= 0):
                at, value = min(layers, int(before) + n * a), int(best[before]) + (count - n) * b
                if value > now[at]:
                    now[at], choice[at], came[at] = value, n, before
        best = now
        choices.append((choice, came))
    if best[layers] < layers:
        return None
    at, found = layers, []
    for choice, came in reversed(choices):
        found.append(int(choice[at]))
        at = int(came[at])
    return found[::-1]


def _along_links(instance: LayerInstance, alone: Ints) -> list[int]:
    """The machines that hold layers, each after one that has a wide link to it; those that hold the most first."""
    count, left = instance.count, set(np.flatnonzero(alone).tolist())
    ends = instance.link[:, count + 1]
    order: list[int] = []
    before = count
    while left:
        # What the sink takes from is kept for the end where links are alike.
        before = min(left, key=lambda j: (-instance.link[before, j], ends[j] > 0, -int(alone[j]), j))
        order.append(before)
        left.remove(before)
    return order


def fitted(instance: LayerInstance, flow: float, order: list[int]) -> dict[int, tuple[int, int]] | None:
    """Layers for machines in an order, those at its end left out, so that each passes the flow; None if there are none.

    Numbers of layers are chosen from the tables so that they add up to those of the model.
    """
    layers = instance.layers

    def sizes_of(place: int, *, last: bool) -> list[int]:
        rates = instance.rates(order[place], first=place == 0, last=last)
        return [k for k in np.flatnonzero(rates >= flow).tolist() if 0 < k <= layers]

    able: list[list[int]] = []
    reached = [1]
    full = (1 << layers) - 1
    for place in range(len(order)):
        # It may be the end of the row, where it passes what it does with what is behind the last layer.
        ends = sizes_of(place, last=True)
        if any(reached[-1] >> (layers - k) & 1 for k in ends):
            able.append(ends)
            break
        able.append(sizes_of(place, last=False))
        now = 0
        for k in able[-1]:
            now |= reached[-1] << k
        reached.append(now & full)
    else:
        return None
    held: dict[int, tuple[int, int]] = {}
    behind = layers
    for place in range(len(able) - 1, -1, -1):
        size = next(k for k in reversed(able[place]) if k <= behind and reached[place] >> (behind - k) & 1)
        held[order[place]] = (behind - size, behind)
        behind -= size
    return held


def any_row(instance: LayerInstance) -> dict[int, tuple[int, int]] | None:
    """Some machines in a row over which tokens flow, by all sets of them; None if there are none at all.

    For ``FEW`` machines: of every set and last machine the positions where it can end are the bits of a number.
    """
    layers, count = instance.layers, instance.count
    full = (1 << (layers + 1)) - 1
    sizes = [[k for k in np.flatnonzero(row > 0).tolist() if k <= layers] for row in instance.rate]
    linked = instance.link > 0
    ends: dict[tuple[int, int], int] = {}
    for j in range(count):
        if linked[count, j]:
            ends[1 << j, j] = sum(1 << k for k in sizes[j])
    order = list(ends)
    came: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for among, last in order:
        bits = ends[among, last]
        if bits >> layers & 1 and linked[last, count + 1]:
            return _traced(instance, sizes, ends, came, (among, last))
        for j in range(count):
            if linked[last, j] and not among >> j & 1:
                new = _extended(bits, sizes[j], overlap=instance.problem.overlap) & full
                state = (among | 1 << j, j)
                if new and state not in ends:
                    ends[state] = 0
                    # Sets grow by one machine, so that all of one size come before those of the next.
                    order.append(state)
                if new:
                    ends[state] |= new
                    came.setdefault(state, []).append((among, last))
    return None


def _extended(bits: int, sizes: list[int], *, overlap: bool) -> int:
    """Where a machine can end that begins at one of some positions, or, with overlap, holds one of them."""
    found = 0
    for k in sizes:
        if not overlap:
            found |= bits << k
            continue
        for step in range(1, k + 1):
            found |= (bits << step) >> k << k
    return found


def _traced(
    instance: LayerInstance,
    sizes: list[list[int]],
    ends: dict[tuple[int, int], int],
    came: dict[tuple[int, int], list[tuple[int, int]]],
    state: tuple[int, int],
) -> dict[int, tuple[int, int]]:
    """The row that ends with all layers in a state."""
    held: dict[int, tuple[int, int]] = {}
    behind = instance.layers
    while True:
        last = state[1]
        options = came.get(state, [])
        starts = [(k, behind - k) for k in sizes[last] if k <= behind]
        if not options:
            size = next(k for k, first in starts if first == 0)
            held[last] = (0, size)
            return held
        for before in options:
            spots = {k: (range(first, behind) if instance.problem.overlap else (first,)) for k, first in starts}
            choice = next(((k, p) for k, ps in spots.items() for p in ps if ends[before] >> p & 1), None)
            if choice is not None:
                held[last] = (behind - choice[0], behind)
                state, behind = before, choice[1]
                break
