"""How people lay out training by hand: one stage, equal stages, and what Megatron-LM's authors do.

Sources: Piper (NeurIPS 2021), §5, "equi", which follows the planner of PipeDream-2BW (Narayanan et al., ICML 2021);
Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021), §3,
takeaways 1 and 2: tensor parallelism up to the devices of a machine, pipeline parallelism until the model fits, the
rest data parallelism, with equal blocks, embedding first, head last.
"""

from __future__ import annotations

from collections.abc import Iterator

from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.blocks import LikeBlocks, divisors, find_blocks
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions, Outcome, Solver
from partita.problems.hybrid.steady.baselines.layouts import LaidOut, LaidOutStage, LayoutPlanner, replica_degrees

#: Tensor parallelism is not usual beyond this many devices; a machine has as many where nothing is said about that.
_MOST = 8


def _replicas(layouts: LayoutPlanner) -> Iterator[list[LaidOutStage]]:
    """One stage on every number of replicas of one device."""
    problem = layouts.problem
    for d in replica_degrees(problem, min(problem.devices, problem.microbatches)):
        yield [LaidOutStage(0, len(layouts.order), d, 1)]


def _split(layouts: LayoutPlanner) -> Iterator[list[LaidOutStage]]:
    """One stage without replicas, on every degree above 1."""
    for t in layouts.problem.degrees():
        if t > 1:
            yield [LaidOutStage(0, len(layouts.order), 1, t)]


def equal_stages(
    blocks: LikeBlocks, stages: int, data_parallel: int, tensor_parallel: int, *, ends_apart: bool = False
) -> list[LaidOutStage] | None:
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
        LaidOutStage(start, end, data_parallel, tensor_parallel)
        for start, end in zip(places, [*places[1:], blocks.layers], strict=True)
    ]


def every(layouts: LayoutPlanner, *, tensor: bool = True) -> Iterator[list[LaidOutStage]]:
    """All equal stages, the fewest devices per replica first; only with t = 1 without ``tensor``."""
    problem, blocks = layouts.problem, find_blocks(layouts.order)
    for stages in divisors(len(blocks.starts)):
        for t in problem.degrees() if tensor else [1]:
            for apart in (False, True):
                layout = equal_stages(blocks, stages, 1, t, ends_apart=apart)
                if layout is None:
                    continue
                most = min(problem.devices // (len(layout) * t), problem.microbatches // len(layout))
                for d in replica_degrees(problem, most, every=1):
                    yield [LaidOutStage(laid.start, laid.end, d, t) for laid in layout]


class MegatronRecipe(Solver):
    """The first number of stages that fits and leaves no device idle; without one, the first that fits."""

    name = "Megatron's recipe"
    summary = "tensor parallel in a machine, as few pipeline stages as fit, the rest data parallel"

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        layouts = LayoutPlanner(problem)
        blocks = find_blocks(layouts.order)
        shared = set.intersection(*(set(layer.configurations) for layer in layouts.order))
        machine = options.machine_devices if problem.hierarchy is None else problem.devices_per_machine
        most = min(_MOST, machine or _MOST, problem.devices)
        degree = max((t for t in shared if t <= most), default=None)
        if degree is None:
            return Outcome(None, reason=f"the layers share no tensor-parallel degree up to {most}")
        reason = ""
        first: Outcome | None = None
        for stages in divisors(len(blocks.starts)):
            replicas = problem.replicas(min(problem.devices // (stages * degree), problem.microbatches // stages))
            layout = equal_stages(blocks, stages, replicas[-1], degree) if replicas else None
            if layout is None:
                reason = reason or f"{stages} stages of {degree} devices are more than there are"
                break
            outcome = layouts.best([layout], monitor)
            if outcome.plan is None:
                reason = outcome.reason
            elif outcome.plan.device_count == problem.devices:
                return outcome
            else:
                first = first or outcome
        return first or Outcome(None, reason=reason)


PURE_DATA_PARALLEL = LaidOut("pure data parallel", "the whole model on every device", _replicas)
PURE_TENSOR_PARALLEL = LaidOut(
    "pure tensor parallel",
    "every layer split over one group of devices",
    _split,
    without="no layer can be split over several of the devices",
)
EQUAL_STAGES = LaidOut(
    "equal stages", "equal blocks per stage, the best stages and degrees for all (Piper's equi)", every
)
EQUAL_STAGES_NO_TENSOR = LaidOut(
    "equal stages, no tensor",
    "the same without split layers (as PipeDream-2BW plans)",
    lambda layouts: every(layouts, tensor=False),
)
