"""What every split with loads up to a target has in common, in the form that programs use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.arrays import Bools
from partita.kernels.throughput.blocks import BlockProblem
from partita.problems.throughput.bounds.forced_transfers import Charges
from partita.problems.throughput.bounds.knowledge import Charged
from partita.problems.throughput.bounds.programs.block_rows import BlockProgram

#: Rows of distances per item, at most: the shortest chains say most.
DISTANCES = 6


@dataclass(frozen=True)
class Facts(Charged):
    """Charged work, and in addition which items cannot share a block.

    Attributes
    ----------
    apart
        (n, n) items that are not in one block.
    """

    apart: Bools


def facts_at(uniform: BlockProblem, target: float, stop: Callable[[], bool]) -> Facts | None:
    """The facts at a target; None if it is refuted: no split has loads up to it."""
    charges = Charges(uniform, stop)
    state = charges.start(target)
    if not charges.settle(state):
        return None
    n = uniform.items
    if state.parts.apart.shape[0] == n:
        apart = np.unpackbits(state.parts.apart.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(bool)
    else:
        apart = np.zeros((n, n), dtype=bool)
    apart |= apart.T
    return Facts(**vars(state.charged()), apart=apart)


def add_distances(blocks: BlockProgram, facts: Facts) -> int:
    """Rows for items that are several blocks apart; the number of pairs.

    What lies between u and v, both included, needs at least ceil(charge / target) blocks, so v is at least one less
    than that many blocks after u: y_v(b+d) <= y_ub. Pairs follow from others where a neighbour of u or v in the order
    is as far from the other.
    """
    uniform, reach = blocks.uniform, blocks.order.reach
    n, last = uniform.items, blocks.count - 1
    need = np.ceil(blocks.order.hulls(facts.work) / facts.target - 1e-9)
    far = np.where(reach, np.maximum(need - 1, 0), 0).astype(np.int64)
    far = np.where(reach & facts.apart, np.maximum(far, 1), far)
    np.fill_diagonal(far, 0)
    implied = np.zeros((n, n), dtype=bool)
    for u, v in blocks.order.edges:
        implied[u] |= far[v] >= far[u]
        implied[:, v] |= far[:, u] >= far[:, v]
    pairs = np.argwhere((far > 0) & ~implied)
    if len(pairs) > DISTANCES * n:
        weight = far[pairs[:, 0], pairs[:, 1]] * facts.target - blocks.order.hulls(facts.work)[pairs[:, 0], pairs[:, 1]]
        pairs = pairs[np.argsort(weight, kind="stable")[: DISTANCES * n]]
    for u, v in pairs.tolist():
        d = int(far[u, v])
        for b in range(max(0, last - d)):
            blocks.row([blocks.early(u, b), blocks.early(v, b + d, -1.0)], lower=0.0)
    return len(pairs)
