"""Stages with the same number of blocks, all with the same degrees.

Source: Piper (NeurIPS 2021), §5, "equi", which follows the planner of PipeDream-2BW (Narayanan et al., ICML 2021).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from partita.problems.hybrid.baselines.layouts import Layouts, LikeBlocks, StageRow, find_blocks, replica_degrees
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver
from partita.run.monitor import Monitor


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    return [k for k in range(1, number + 1) if number % k == 0]


def equal_rows(
    blocks: LikeBlocks, stages: int, data_parallel: int, tensor_parallel: int, *, ends_apart: bool = False
) -> list[StageRow] | None:
    """Equal stages; the model's ends on the first and last, or on stages of their own: None if there are no ends."""
    share = blocks.count // stages
    cuts = [blocks.starts[share * k] for k in range(stages)]
    if ends_apart:
        places = [
            0,
            *([cuts[0]] if cuts[0] > 0 else []),
            *cuts[1:],
            *([blocks.end] if blocks.end < blocks.layers else []),
        ]
        if len(places) == stages:
            return None
    else:
        places = [0, *cuts[1:]]
    return [
        StageRow(start, end, data_parallel, tensor_parallel)
        for start, end in zip(places, [*places[1:], blocks.layers], strict=True)
    ]


class EqualStages(Solver):
    """The best of all equal stages."""

    name: ClassVar[str] = "equal stages"
    summary: ClassVar[str] = "equal blocks per stage, the best stages and degrees for all (Piper's equi)"
    tensor: ClassVar[bool] = True

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """Try every number of stages that divides the blocks with every pair of degrees."""
        layouts = Layouts(problem)
        degrees = problem.degrees() if self.tensor else [1]
        return layouts.best(_every(problem, find_blocks(layouts), degrees), monitor)


class EqualStagesNoTensor(EqualStages):
    """The best of all equal stages with t = 1."""

    name: ClassVar[str] = "equal stages, no tensor"
    summary: ClassVar[str] = "the same without split layers (as PipeDream-2BW plans)"
    tensor: ClassVar[bool] = False


def shortest_step(problem: HybridProblem, monitor: Monitor) -> Outcome:
    """Of all equal stages those with the shortest step, fill and drain included."""
    layouts = Layouts(problem)
    return layouts.best(_every(problem, find_blocks(layouts), problem.degrees()), monitor, by_step=True)


def _every(problem: HybridProblem, blocks: LikeBlocks, degrees: list[int]) -> Iterator[list[StageRow]]:
    """All equal stages, the fewest devices per replica first."""
    for stages in divisors(blocks.count):
        for t in degrees:
            for apart in (False, True):
                rows = equal_rows(blocks, stages, 1, t, ends_apart=apart)
                if rows is None:
                    continue
                most = min(problem.devices // (len(rows) * t), problem.microbatches // len(rows))
                for d in replica_degrees(problem, most, every=1):
                    yield [StageRow(row.start, row.end, d, t) for row in rows]
