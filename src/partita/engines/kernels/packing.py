"""Packing programs: the most that numbers add up to of which no row carries more than 1, by an interior-point method.

max Σ y such that A y <= 1 and y >= 0, with rows of zeros and ones, is the dual of covering columns by as few rows as
possible. Mehrotra's predictor and corrector steps follow the central path from inside; what the method stops with is
feasible, far from the corners, and keeps its distance from all rows alike, which is what column generation wants:
prices at a corner jump with each new row.

Source: Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method" (SIAM J. Optimization 2, 1992).
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.compiled import called, compiled, inlined

#: Part of the way to the nearest wall that a step takes at most.
SHORT = 0.99
#: Steps shorter than this lead nowhere.
STUCK = 1e-6
#: Distance from a wall that rounding may not take away.
INSIDE = 1e-14
#: Pivots up to this are nothing but rounding.
SINGULAR = 1e-30


@inlined
def _pivot(matrix: Floats, k: int, first: int) -> None:
    """Finish row k of the factor, from which rows before ``first`` are subtracted already; a lost pivot is skipped."""
    n = matrix.shape[0]
    row = matrix[k]
    for i in range(first, k):
        factor = matrix[i, k]
        for j in range(k, n):
            row[j] -= factor * matrix[i, j]
    pivot = row[k]
    scale = 1.0 / np.sqrt(pivot) if pivot > SINGULAR else 0.0
    row[k] = np.sqrt(pivot) if pivot > SINGULAR else 1.0
    for j in range(k + 1, n):
        row[j] *= scale


@called
def _factor(matrix: Floats) -> None:
    """Cholesky's factor U with Uᵀ U = matrix, in its upper half; four rows at once read memory less often."""
    n = matrix.shape[0]
    for k in range(0, n, 4):
        last = min(n, k + 4)
        for i in range(k, last):
            _pivot(matrix, i, k)
        if last < k + 4:
            return
        a, b, c, d = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
        for i in range(last, n):
            p, q, r, s = a[i], b[i], c[i], d[i]
            below = matrix[i]
            for j in range(i, n):
                below[j] -= p * a[j] + q * b[j] + r * c[j] + s * d[j]


@called
def _solve(factor: Floats, right: Floats) -> Floats:
    """x with Uᵀ U x = right."""
    n = factor.shape[0]
    x = right.copy()
    for k in range(n):
        x[k] /= factor[k, k]
        value = x[k]
        for j in range(k + 1, n):
            x[j] -= value * factor[k, j]
    for k in range(n - 1, -1, -1):
        value = x[k]
        for j in range(k + 1, n):
            value -= factor[k, j] * x[j]
        x[k] = value / factor[k, k]
    return x


@called
def _carried(ptr: Ints, member: Ints, y: Floats) -> Floats:
    """A y."""
    carried = np.zeros(ptr.shape[0] - 1)
    for i in range(carried.shape[0]):
        for p in range(ptr[i], ptr[i + 1]):
            carried[i] += y[member[p]]
    return carried


@called
def _covered(ptr: Ints, member: Ints, x: Floats, n: int) -> Floats:
    """Aᵀ x."""
    covered = np.zeros(n)
    for i in range(x.shape[0]):
        for p in range(ptr[i], ptr[i + 1]):
            covered[member[p]] += x[i]
    return covered


@called
def _length(values: Floats, change: Floats) -> float:
    """The longest step, at most 1, that leaves all values at least 0."""
    length = 1.0
    for i in range(values.shape[0]):
        if change[i] < 0:
            length = min(length, -values[i] / change[i])
    return length


@compiled
def start_packing(ptr: Ints, member: Ints, n: int) -> tuple[Floats, Floats]:
    """Where ``pack`` begins: numbers (n,) and weights of the rows (m,), inside of both programs."""
    m, largest = ptr.shape[0] - 1, 1
    for i in range(m):
        largest = max(largest, ptr[i + 1] - ptr[i])
    weight = np.ones(m)
    weight *= 1.5 / _covered(ptr, member, weight, n).min()
    return np.full(n, 0.5 / largest), weight


@compiled
def pack(ptr: Ints, member: Ints, y: Floats, x: Floats, gap: float, steps: int) -> tuple[float, bool]:
    """Go on with numbers y (n,) and weights x (m,) of the rows; the most that is possible, and whether they are done.

    Row i has the columns ``member[ptr[i]:ptr[i + 1]]``, ascending, and every column is in a row. No row carries more
    than 1. They are done when the sum lacks at most the share ``gap`` of the most, or no step leads on; at most so many
    ``steps`` are made. What is possible is the value of a dual solution, up to rounding.
    """
    m, n = ptr.shape[0] - 1, y.shape[0]
    s = np.maximum(1.0 - _carried(ptr, member, y), INSIDE)
    z = np.maximum(_covered(ptr, member, x, n) - 1.0, INSIDE)
    matrix = np.empty((n, n))
    for _ in range(steps):
        if x.sum() - y.sum() <= gap * y.sum():
            break
        mean = ((x * s).sum() + (y * z).sum()) / (m + n)
        matrix[:] = 0.0
        for i in range(m):
            weight = x[i] / s[i]
            for p in range(ptr[i], ptr[i + 1]):
                row = matrix[member[p]]
                for q in range(p, ptr[i + 1]):
                    row[member[q]] += weight
        for v in range(n):
            matrix[v, v] += z[v] / y[v]
        _factor(matrix)
        # Both programs stay satisfied, so that only the products x·s and y·z are to be moved.
        dy = _solve(matrix, _covered(ptr, member, x, n) - z)
        ds = -_carried(ptr, member, dy)
        dx = -x - x * ds / s
        dz = _covered(ptr, member, dx, n)
        primal, dual = min(_length(y, dy), _length(s, ds)), min(_length(x, dx), _length(z, dz))
        after = (((x + dual * dx) * (s + primal * ds)).sum() + ((y + primal * dy) * (z + dual * dz)).sum()) / (m + n)
        centre = mean * (after / mean) ** 3
        rows, columns = centre - x * s - dx * ds, centre - y * z - dy * dz
        dy = _solve(matrix, columns / y - _covered(ptr, member, rows / s, n))
        ds = -_carried(ptr, member, dy)
        dx = (rows - x * ds) / s
        dz = _covered(ptr, member, dx, n)
        primal, dual = min(_length(y, dy), _length(s, ds)), min(_length(x, dx), _length(z, dz))
        y += SHORT * primal * dy
        x += SHORT * dual * dx
        # Computed anew, so that rounding does not add up.
        s = np.maximum(1.0 - _carried(ptr, member, y), INSIDE)
        z = np.maximum(_covered(ptr, member, x, n) - 1.0, INSIDE)
        if max(primal, dual) < STUCK:
            return x.sum() / min(1.0, _covered(ptr, member, x, n).min()), True
    most = x.sum() / min(1.0, _covered(ptr, member, x, n).min())
    return most, bool(x.sum() - y.sum() <= gap * y.sum())
