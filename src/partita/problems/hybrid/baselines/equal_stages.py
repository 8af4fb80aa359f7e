"""Stages with the same number of blocks, all with the same degrees.

Source: Piper (NeurIPS 2021), §5, "equi", which follows the planner of PipeDream-2BW (Narayanan et al., ICML 2021).
"""

from __future__ import annotations

from collections.abc import Iterator

from partita.problems.hybrid.baselines.layouts import (
    LaidOut,
    Layouts,
    StageRow,
    replica_degrees,
)
from partita.problems.hybrid.blocks import LikeBlocks, find_blocks


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    return [k for k in range(1, number + 1) if number % k == 0]


def equal_rows(
    blocks: LikeBlocks, stages: int, data_parallel: int, tensor_parallel: int, *, ends_apart: bool = False
) -> list[StageRow] | None:
    """Equal stages; the model's ends on the first and last, or on stages of their own: None if there are no ends."""
    share = len(blocks.starts) // stages
    places = [blocks.starts[share * k] for k in range(stages)]
    if not ends_apart:
        places[0] = 0
    else:
        places = sorted({0, *places, blocks.end} - {blocks.layers})
        if len(places) == stages:
            return None
    return [
        StageRow(start, end, data_parallel, tensor_parallel)
        for start, end in zip(places, [*places[1:], blocks.layers], strict=True)
    ]


def every(layouts: Layouts, *, tensor: bool = True) -> Iterator[list[StageRow]]:
    """All equal stages, the fewest devices per replica first; only with t = 1 without ``tensor``."""
    problem, blocks = layouts.problem, find_blocks(layouts.order)
    for stages in divisors(len(blocks.starts)):
        for t in problem.degrees() if tensor else [1]:
            for apart in (False, True):
                rows = equal_rows(blocks, stages, 1, t, ends_apart=apart)
                if rows is None:
                    continue
                most = min(problem.devices // (len(rows) * t), problem.microbatches // len(rows))
                for d in replica_degrees(problem, most, every=1):
                    yield [StageRow(row.start, row.end, d, t) for row in rows]


EQUAL_STAGES = LaidOut(
    "equal stages", "equal blocks per stage, the best stages and degrees for all (Piper's equi)", every
)
EQUAL_STAGES_NO_TENSOR = LaidOut(
    "equal stages, no tensor",
    "the same without split layers (as PipeDream-2BW plans)",
    lambda layouts: every(layouts, tensor=False),
)
