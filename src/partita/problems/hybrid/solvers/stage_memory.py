"""Room for the least times of stages, which decisions remember: stages with layers alike share it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partita.kernels.hybrid.arrays import HybridArrays, HybridKnown
from partita.kernels.hybrid.stages import lay_out
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.instance import HybridInstance

#: Most stages, and most pairs of a kind of stage and a number of microbatches in flight, whose times are remembered.
_MOST_STAGES = 2_000_000
_MOST_TIMES = 10_000_000


def remember(model: HybridInstance, arrays: HybridArrays, sets: list[int]) -> HybridKnown:
    """Room to remember the least times of stages; none where there are too many, or where they depend on replicas."""
    size, ranks = len(sets), len(model.degrees)
    if size * size * ranks <= _MOST_STAGES and not model.problem.shards:
        kind, inner, outer = _kinds(model, sets)
        free, ptr = np.zeros(len(inner) * ranks, dtype=np.int32), np.zeros(len(inner) * ranks + 1, dtype=np.int64)
        times = lay_out(arrays, inner, outer, free, ptr)
        if times <= _MOST_TIMES:
            return HybridKnown(kind, inner, outer, free, ptr, np.full(times + 1, np.nan), np.full(times + 1, np.nan))
    nothing = np.zeros(1, dtype=np.int32)
    return HybridKnown(nothing, nothing, nothing, nothing, np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1))


def _kinds(
    model: HybridInstance, sets: list[int]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The kind of each stage, and an example of each kind.

    Two stages are of one kind if they have equally many layers of every sort; layers of one sort have the same options.
    """
    sorts: dict[object, int] = {}
    of_layer = []
    for v in range(len(model.order)):
        menus = tuple(
            tuple((c.time, c.memory_per_microbatch_bytes, c.memory_bytes) for c in row[v]) for row in model.options
        )
        of_layer.append(sorts.setdefault(menus, len(sorts)))
    size, n = len(sets), len(of_layer)
    bits = as_bits(sets, n)
    counts = np.stack([bits[:, np.array(of_layer) == sort].sum(axis=1) for sort in range(len(sorts))], dtype=np.int64)
    # A subset has no layer outside its superset; the order of the sets puts it first.
    outside = bits.astype(np.float32) @ (1 - bits.astype(np.float32)).T
    inners, outers = np.nonzero(np.triu(outside == 0, 1))
    # Numbers that tell the counts apart unless two happen to collide, which is checked.
    key = np.random.default_rng(0).integers(1, 1 << 62, size=len(sorts)) @ counts
    _, example, found = np.unique(key[outers] - key[inners], return_index=True, return_inverse=True)
    alike = example[found]
    for row in counts:
        difference = row[outers] - row[inners]
        if not np.array_equal(difference, difference[alike]):
            example = found = np.arange(len(inners))
            break
    kind = np.full(size * size, -1, dtype=np.int32)
    kind[inners * size + outers] = found
    return kind, inners[example].astype(np.int32), outers[example].astype(np.int32)
