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
_MOST, _SHARES, _ROUNDS = 256, 9, 4


def kinds_need(alone: Floats, shared: Floats, counts: Floats, seats: Sequence[int]) -> float:
    """The largest of these bounds that was found, the best there is for two kinds with few sorts of layers.

    ``alone`` and ``shared`` are (K, n), by kind and sort of layers, with ``counts`` of each sort: what a layer costs by
    itself, and of the largest sum of a seat. Infinite is what a kind cannot run; kinds without ``seats`` run nothing.
    """
    some = [k for k, count in enumerate(seats) if count > 0]
    if not some:
        return np.inf
    a, b = alone[some], shared[some] / np.array(seats, dtype=np.float64)[some, None]
    # A kind that cannot run a layer costs it infinitely much at any weight.
    lacking = ~np.isfinite(a + b)
    a, b = np.where(lacking, np.inf, a), np.where(lacking, 0.0, b)
    if len(some) == 1:
        return float((a[0] + b[0]) @ counts)
    if len(some) == 2:
        return float(_of_two(a, b, counts, np.zeros(1))[0])
    low, high, best = 0.0, 1.0, 0.0
    for _ in range(_ROUNDS):
        shares = np.linspace(low, high, _SHARES)
        values = _of_two(a, b, counts, shares)
        middle, width = float(shares[int(np.argmax(values))]), (high - low) / (_SHARES - 1)
        low, high, best = max(0.0, middle - width), min(1.0, middle + width), max(best, float(values.max()))
    return best


def _of_two(a: Floats, b: Floats, counts: Floats, shares: Floats) -> Floats:
    """The bound at the best weights of the first two kinds, for each share of all others, which have as much each."""
    left = 1.0 - shares[:, None]
    others = a[2:] + shares[:, None, None] / max(1, len(a) - 2) * b[2:]
    least = np.min(others, axis=1, initial=np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where a layer is as dear on both, and where on one of them as on the others.
        meet = [(a[1] + left * b[1] - a[0]) / (b[0] + b[1]), (least - a[0]) / b[0], left - (least - a[1]) / b[1]]
    first = np.concatenate([np.zeros_like(left), left, *meet[: 1 if len(a) == 2 else 3]], axis=1)
    if first.shape[1] > _MOST:
        first = first[:, np.linspace(0, first.shape[1] - 1, _MOST).astype(np.int64)]
    first = np.clip(np.where(np.isfinite(first), first, 0.0), 0.0, left)[:, :, None]
    cost = np.minimum(a[0] + first * b[0], a[1] + (left[:, :, None] - first) * b[1])
    needs: Floats = (np.minimum(cost, least[:, None, :]) @ counts).max(axis=1)
    return needs
