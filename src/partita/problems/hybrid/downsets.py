"""Suffix sets of a graph: sets of layers closed under successors. A stage is the difference of two."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

__all__ = ["Masks", "along_orders", "all_suffix_sets", "suffix_order"]

#: Bit sets of each layer's successors (or predecessors), as integers.
Masks = Sequence[int]


def all_suffix_sets(after: Masks, before: Masks, limit: int) -> set[int] | None:
    """Every set closed under successors, the empty one and the whole included; None if more than ``limit``."""
    start = sum(1 << v for v, mask in enumerate(after) if mask == 0)
    ready = {0: start}
    pending = [0]
    while pending:
        held = pending.pop()
        candidates = ready[held]
        left = candidates
        while left:
            bit = left & -left
            left ^= bit
            bigger = held | bit
            if bigger in ready:
                continue
            if len(ready) >= limit:
                return None
            grown = candidates ^ bit
            nodes = before[bit.bit_length() - 1]
            while nodes:
                other = nodes & -nodes
                nodes ^= other
                if after[other.bit_length() - 1] & ~bigger == 0:
                    grown |= other
            ready[bigger] = grown
            pending.append(bigger)
    return set(ready)


def suffix_order(after: Masks, before: Masks, preference: Sequence[float]) -> list[int]:
    """All layers, each after its successors; among those possible the one with the smallest preference is next."""
    import heapq

    held = 0
    heap = [(preference[v], v) for v, mask in enumerate(after) if mask == 0]
    heapq.heapify(heap)
    order = []
    while heap:
        _, v = heapq.heappop(heap)
        order.append(v)
        held |= 1 << v
        nodes = before[v]
        while nodes:
            bit = nodes & -nodes
            nodes ^= bit
            u = bit.bit_length() - 1
            if after[u] & ~held == 0:
                heapq.heappush(heap, (preference[u], u))
    return order


def along_orders(orders: Iterable[Sequence[int]]) -> set[int]:
    """The suffix sets that are beginnings of some of the orders."""
    found = {0}
    for order in orders:
        held = 0
        for v in order:
            held |= 1 << v
            found.add(held)
    return found


def some_orders(after: Masks, before: Masks, count: int, seed: int) -> list[list[int]]:
    """Different orders: depth first, breadth first, and random ones that keep to a branch for a while."""
    n = len(after)
    depth = [0.0] * n
    for v in range(n - 1, -1, -1):
        nodes = after[v]
        while nodes:
            bit = nodes & -nodes
            nodes ^= bit
            depth[v] = max(depth[v], depth[bit.bit_length() - 1] + 1.0)
    height = [0.0] * n
    for v in range(n):
        nodes = before[v]
        while nodes:
            bit = nodes & -nodes
            nodes ^= bit
            height[v] = max(height[v], height[bit.bit_length() - 1] + 1.0)
    generator = random.Random(seed)
    preferences = [depth, [-h for h in height], [float(-v) for v in range(n)]]
    while len(preferences) < count:
        base = preferences[len(preferences) % 3]
        spread = generator.choice((1.0, 3.0, 10.0))
        preferences.append([value + spread * generator.random() for value in base])
    return [suffix_order(after, before, preference) for preference in preferences[:count]]
