"""Downsets of a graph: sets of layers closed under successors. A stage is the difference of two."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from partita.ground.dags import members_of, ranks, topological_order

#: Bit sets of each layer's successors (or predecessors), as integers.
Masks = Sequence[int]


def as_bits(sets: Sequence[int], layers: int) -> npt.NDArray[np.uint8]:
    """Sets as rows of an array with a 1 for each of the layers that is in it."""
    raw = b"".join(members.to_bytes((layers + 7) // 8, "little") for members in sets)
    packed = np.frombuffer(raw, dtype=np.uint8).reshape(len(sets), -1)
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :layers]


def all_downsets(after: Masks, before: Masks, limit: int) -> set[int] | None:
    """Every set closed under successors, the empty one and the whole included; None if more than ``limit``."""
    start = sum(1 << v for v, mask in enumerate(after) if mask == 0)
    ready = {0: start}
    pending = [0]
    while pending:
        held = pending.pop()
        candidates = ready[held]
        # The loops over members are written out: this runs once for each of very many sets.
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


def downset_order(before: Masks, preference: Sequence[float]) -> list[int]:
    """All layers, each after its successors; among those possible the one with the smallest preference is next."""
    backwards = [(v, u) for v, mask in enumerate(before) for u in members_of(mask)]
    return topological_order(len(before), backwards, ranks(np.argsort(preference, kind="stable")))


def along_orders(orders: Iterable[Sequence[int]]) -> set[int]:
    """The downsets that are beginnings of some of the orders."""
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
    depth, height = [0.0] * n, [0.0] * n
    for v in range(n - 1, -1, -1):
        depth[v] = max((depth[u] + 1.0 for u in members_of(after[v])), default=0.0)
    for v in range(n):
        height[v] = max((height[u] + 1.0 for u in members_of(before[v])), default=0.0)
    generator = random.Random(seed)
    preferences = [depth, [-h for h in height], [float(-v) for v in range(n)]]
    while len(preferences) < count:
        base = preferences[len(preferences) % 3]
        spread = generator.choice((1.0, 3.0, 10.0))
        preferences.append([value + spread * generator.random() for value in base])
    return [downset_order(before, preference) for preference in preferences[:count]]
