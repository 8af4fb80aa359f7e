"""The most of some weights that a block with an item can hold, by Lagrange multipliers and minimum cuts.

A block S with v costs f(S) <= T and avoids what cannot be beside v. For any price µ >= 0 per unit of load,

    z(S) <= µ·T + max over such S of (z(S) - µ·f(S)),

and the maximum is a minimum cut. As a function of µ the right side is the maximum of one line for each set, so a few
sets and the crossings of their lines lead to the least value. Without items to avoid this could always take everything,
which has no cut nets; with them, it says how much a block must pay to be large.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.forced_cuts import TargetFacts
from partita.engines.kernels.throughput.mincut import BlockNetwork, cheapest_block, new_flow, respect_order
from partita.ground.rounding import TOLERANCE

#: Most cuts for each item.
CUTS = 5


@compiled
def heaviest_blocks(
    a: BlockProblem,
    parts: TargetFacts,
    network: BlockNetwork,
    weight: Floats,
    limit: float,
    start: int,
    count: int,
    rates: Floats,
    most: Floats,
) -> None:
    """Lower ``most`` of ``count`` items from ``start``: an upper bound on the weight of any feasible block with it.

    ``weight`` is (n,), not negative; ``limit`` is the largest load of a block, at which the ``parts`` hold, and the
    network has their nets forced. ``rates`` (n,) keeps the load that a unit of weight was worth in the end, where to
    start from the next time; 0 for not known.
    """
    n = a.work.shape[0]
    flow = new_flow(network)
    sink = flow.sink
    supply = np.zeros(n)
    avoid = np.zeros(n, np.int8)
    sources = np.empty(n, np.int32)
    for v in range(start, min(n, start + count)):
        everything = 0.0
        for u in range(n):
            avoid[u] = has(parts.apart[v], u)
            if not avoid[u]:
                everything += weight[u]
        most[v] = min(most[v], everything * (1 + 1e-12))
        # Lines: weight + µ·(limit - cost), of a cheap and of a dear set; a unit of weight is worth ``rate`` load.
        low_weight, low_room = weight[v], 0.0
        high_weight, high_room = everything, 0.0
        rate = rates[v] if rates[v] > 0 else limit / max(most[v], 1e-300)
        lowest = np.inf
        have_low, have_high = False, False
        for _ in range(CUTS):
            constant = 0.0
            found = 0
            sink[:] = network.sink
            for u in range(n):
                supply[u] = 0.0
                if u == v:
                    supply[u] = np.inf
                    constant -= rate * weight[u]
                    sources[found] = u
                    found += 1
                elif not avoid[u]:
                    gain = rate * weight[u] - sink[u]
                    if gain > 0:
                        supply[u] = gain
                        sink[u] = 0.0
                        constant -= gain
                        sources[found] = u
                        found += 1
                    else:
                        sink[u] = -gain
            flow.capacity[:] = network.capacity
            respect_order(network, parts.later[v], parts.earlier[v], flow.capacity)
            cost = cheapest_block(network, sources[:found], supply, avoid, np.inf, flow)
            least = cost + constant
            # Rounding of the flow may be as large as ``network.tiny`` on each arc; it is far below this.
            value = (limit - least) / rate * (1 + TOLERANCE) + 1e-12
            most[v] = min(most[v], value)
            if value < lowest:
                lowest = value
                rates[v] = rate
            held = 0.0
            for u in range(n):
                if flow.level[u] >= 0:
                    held += weight[u]
            # f of the set, as the cut counts it.
            load = least + rate * held
            if load > limit:
                if have_high and held >= high_weight - 1e-12:
                    break
                high_weight, high_room, have_high = held, limit - load, True
            else:
                if have_low and held <= low_weight + 1e-12:
                    break
                low_weight, low_room, have_low = held, limit - load, True
            if load <= limit and held >= most[v] - TOLERANCE:
                break
            if have_low and have_high:
                if high_weight <= low_weight or low_room - high_room <= 0:
                    break
                # The crossing of both lines; µ = 1 / rate.
                rate = (low_room - high_room) / (high_weight - low_weight)
            elif have_high:
                rate *= 0.7
            else:
                rate *= 1.4
