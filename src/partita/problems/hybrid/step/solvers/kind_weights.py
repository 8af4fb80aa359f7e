"""What several kinds of devices need together, at least: every kind's time has a price, and layers go where it is low.

On kind k, with seats for s_k stages, layer v costs a_vk by itself, and its stage b_vk, of which the dearest stage
counts. With weights w_k ≥ 0, Σ s_k·w_k ≤ 1, the largest of these is no less than their weighted sum, so that any plan
costs Σ_v min_k (a_vk + w_k·b_vk) or more: the Lagrangean dual of handing out layers that may be split. It is concave
in w; of two kinds the best weights are where some layer costs as much on both. Source: own; the dual is that of Fisher,
"The Lagrangian Relaxation Method for Solving Integer Programming Problems" (Management Science, 1981).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.arrays import Floats

#: Weights of two kinds that are tried; of more kinds, shares of the others at a time, and how often these are refined.
_MOST, _SHARES, _ROUNDS = 64, 9, 4


def kinds_need(alone: Floats, shared: Floats, seats: Sequence[int]) -> float:
    """The largest of these bounds that was found, the best there is for two kinds with few sorts of layers.

    ``alone`` and ``shared`` are (K, n), not negative, by kind and layer: what the layer costs on its own, and of the
    largest sum of a seat. Infinite is what a kind cannot run; kinds without ``seats`` run nothing.
    """
    some = [k for k, count in enumerate(seats) if count > 0]
    if not some:
        return np.inf
    both = np.concatenate([alone[some], shared[some] / np.array(seats, dtype=np.float64)[some, None]])
    sorts, counts = np.unique(both, axis=1, return_counts=True)
    return _best(sorts[: len(some)], sorts[len(some) :], counts.astype(np.float64))


def _best(a: Floats, b: Floats, counts: Floats) -> float:
    """The same of sorts of layers, weights being shares of one."""
    kinds = a.shape[0]
    if kinds == 1:
        return float((a[0] + b[0]) @ counts)
    if kinds == 2:
        return _of_two(a, b, counts, 0.0)
    low, high, best = 0.0, 1.0, 0.0
    for _ in range(_ROUNDS):
        shares = np.linspace(low, high, _SHARES)
        values = [_of_two(a, b, counts, float(share)) for share in shares]
        middle, width = float(shares[int(np.argmax(values))]), (high - low) / (_SHARES - 1)
        low, high, best = max(0.0, middle - width), min(1.0, middle + width), max(best, *values)
    return best


def _of_two(a: Floats, b: Floats, counts: Floats, share: float) -> float:
    """The best weights of the first two kinds, given the share of all others, which have as much each."""
    left = 1.0 - share
    least = np.min(_weighed(a[2:], share / max(1, len(a) - 2), b[2:]), axis=0, initial=np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where a layer is as dear on both, and where on one of them as on the others.
        meet = np.concatenate(
            [(a[1] + left * b[1] - a[0]) / (b[0] + b[1]), (least - a[0]) / b[0], left - (least - a[1]) / b[1]]
        )
    meet = np.unique(np.clip(meet[np.isfinite(meet)], 0.0, left))
    if len(meet) > _MOST:
        meet = meet[np.linspace(0, len(meet) - 1, _MOST).astype(np.int64)]
    first = np.concatenate([[0.0, left], meet])[:, None]
    cost = np.minimum(np.minimum(_weighed(a[0], first, b[0]), _weighed(a[1], left - first, b[1])), least)
    return float((cost @ counts).max())


def _weighed(a: Floats, weight: Floats | float, b: Floats) -> Floats:
    """a + weight·b; a kind that cannot run a layer costs it infinitely much at any weight."""
    return np.where(np.isfinite(a + b), a, np.inf) + weight * np.where(np.isfinite(b), b, 0.0)
