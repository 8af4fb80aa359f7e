"""Layers of one sort have the same options, and stages with equally many of every sort what memory costs them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Longs
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.problem import Configuration

#: The options of every layer at one degree.
Menu = Sequence[Sequence[Configuration]]


def sort_counts(sets: Sequence[int], menus: Sequence[Menu]) -> Longs:
    """(sorts, Z) how many layers of every sort each set has; layers of one sort have the same options on all menus."""
    sorts: dict[object, int] = {}
    of_layer = np.array(
        [
            sorts.setdefault(
                tuple(tuple((c.time, c.memory_per_microbatch_bytes, c.memory_bytes) for c in row) for row in rows),
                len(sorts),
            )
            for rows in zip(*menus, strict=True)
        ]
    )
    bits = as_bits(sets, len(of_layer))
    return np.stack([bits[:, of_layer == sort].sum(axis=1, dtype=np.int64) for sort in range(len(sorts))])


def stage_kinds(
    counts: Longs, inner: Longs, outer: Longs, beside: npt.NDArray[np.float64] | None = None
) -> tuple[Longs, Longs]:
    """Stages with equally many layers of every sort, between inner and outer sets, and the same number ``beside``.

    Returns an example of every kind of stages, and (stages,) the kind of each.
    """
    # Numbers that tell the counts apart unless two happen to collide, which is checked.
    random = np.random.default_rng(0).integers(1, 1 << 62, size=len(counts) + 1)
    key = random[1:] @ counts
    key = key[outer] - key[inner]
    place = None if beside is None else np.unique(beside, return_inverse=True)[1].ravel()
    if place is not None:
        key += random[0] * place
    _, example, found = np.unique(key, return_index=True, return_inverse=True)
    same = example[found]
    differences = (row[outer] - row[inner] for row in counts)
    if any(not np.array_equal(row, row[same]) for row in (*differences, *(() if place is None else (place,)))):
        example = found = np.arange(len(inner))
    return example, found
