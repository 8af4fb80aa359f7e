"""Interchangeable items get an order, so that searches do not try them in every one.

Two items are twins if swapping them changes nothing: equal times, predecessors and successors, nets that become each
other's, and equal memory (unless any one device could hold everything). From any acyclic split in which the first of
two twins lies behind the second, swapping them gives a split with the same loads in which it does not. So an edge
between consecutive twins loses no optimum. Examples are the key and value projections of an attention layer that reads
another layer's output.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np

from partita.problems.throughput.contraction.instance import Instance, ordered_graph
from partita.problems.throughput.contraction.sole_readers import memory_is_ample


def _profile(instance: Instance, item: int, ample: bool) -> tuple[object, ...]:
    """What twins have in common apart from their nets."""
    memory = () if ample else (instance.fixed[item], instance.active[item], instance.workspace[item])
    return (
        instance.work[item].tobytes(),
        instance.work_backward[item].tobytes(),
        memory,
        tuple(sorted(instance.graph.before(item).tolist())),
        tuple(sorted(instance.graph.after(item).tolist())),
        len(instance.net.holding(item)),
        0 if ample else len(instance.cover.holding(item)),
    )


def _surroundings(instance: Instance, item: int, other: int, ample: bool) -> Counter[tuple[object, ...]]:
    """Nets and covers of an item, with the item and its possible twin taken out of their pins."""
    pair = {item, other}
    found: Counter[tuple[object, ...]] = Counter()
    for net in instance.net.holding(item).tolist():
        pins = instance.net.members(net).tolist()
        source = int(instance.net_source[net])
        found[
            "net",
            tuple(sorted(set(pins) - pair)),
            other in pins,
            "self" if source == item else source,
            instance.net_cost[net].tobytes(),
            instance.net_backward[net].tobytes(),
            instance.net_entering[net],
        ] += 1
    for cover in () if ample else instance.cover.holding(item).tolist():
        pins = instance.cover.members(cover).tolist()
        bytes_ = (instance.cover_fixed[cover], instance.cover_active[cover])
        found["cover", tuple(sorted(set(pins) - pair)), other in pins, bytes_] += 1
    return found


def twins(instance: Instance) -> list[list[int]]:
    """Classes of two or more mutual twins, each ascending."""
    ample = memory_is_ample(instance)
    alike: dict[tuple[object, ...], list[int]] = {}
    for item in range(instance.items):
        alike.setdefault(_profile(instance, item, ample), []).append(item)
    classes: list[list[int]] = []
    for group in alike.values():
        found: list[list[int]] = []
        for item in group if len(group) > 1 else ():
            for known in found:
                first = known[0]
                if _surroundings(instance, first, item, ample) == _surroundings(instance, item, first, ample):
                    known.append(item)
                    break
            else:
                found.append([item])
        classes += [members for members in found if len(members) > 1]
    return classes


def order_twins(instance: Instance) -> Instance:
    """The instance with an edge from each twin to the next; items are numbered topologically, so no cycle arises."""
    new = [pair for members in twins(instance) for pair in itertools.pairwise(members)]
    if not new:
        return instance
    edges = np.concatenate([instance.graph.edges, np.array(new)])
    return replace(instance, graph=ordered_graph(edges, instance.items))
