"""What happens when a mapped pipeline runs: replicas take turns at microbatches, each pays for its own links.

What a replica does once in the problem is its share of a batch. A batch is as many microbatches as give every replica
the same number of turns, one where all stages have as many replicas, or a multiple of that; the ring follows the last
one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from partita.ground.dags import topological_order
from partita.ground.errors import InputError
from partita.problems.facets.timeline import RunRequest, TimeLine
from partita.problems.mapping.evaluate import MappingEvaluation
from partita.problems.mapping.instance import bandwidths
from partita.problems.mapping.problem import MappingProblem, Placement
from partita.simulator.pipeline import Handover, Pipeline, PipelineStage, StageWork
from partita.simulator.placed import all_reduce_s, placed_program
from partita.simulator.program import End, Program
from partita.simulator.simulate import simulate

#: Microbatches times stages that are simulated at most.
_MOST = 200_000


class MappingTimeLine(TimeLine[MappingProblem, Placement, MappingEvaluation]):
    """One batch; all of a ring waits for its slowest link."""

    def program(
        self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation, request: RunRequest
    ) -> Program:
        if request.schedule is not None or request.chunks is not None:
            raise InputError(
                f"problem {problem.name!r} does not say what of a stage's time is backward, so that it runs in one "
                "direction; leave --schedule and --chunks out, or simulate the plan that was mapped"
            )
        return mapping_program(problem, plan, request.microbatches)

    def expected(
        self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation, program: Program
    ) -> Mapping[str, float]:
        return {"the slowest replica": evaluation.objective}


def mapping_program(problem: MappingProblem, plan: Placement, microbatches: int | None = None) -> Program:
    """What happens in a batch; by default of as few microbatches as give every replica the same number.

    Raises ``InputError`` if these do not, are too many, or stages wait for each other in a circle.
    """
    turn = math.lcm(*problem.counts)
    total = turn if microbatches is None else microbatches
    if total % turn:
        raise InputError(
            f"problem {problem.name!r}: {total} microbatches do not give every replica as many; take a multiple of "
            f"{turn}"
        )
    if total * len(problem.stages) > _MOST:
        raise InputError(
            f"problem {problem.name!r}: {total} microbatches are too many to simulate, and it takes {turn} to give "
            "every replica as many; numbers of replicas that divide each other need fewer"
        )
    bandwidth = bandwidths(problem)
    pipeline = lowered(problem, total)
    layout = tuple(tuple((device,) for device in plan.placement[number]) for number in pipeline.numbers)
    kinds = _kinds(problem)
    program = placed_program(pipeline, layout, bandwidth, kinds=kinds, microbatches=total)
    rings = [all_reduce_s(stage, row, bandwidth) for stage, row in zip(pipeline.ranks, layout, strict=True)]
    # Pipelines in one direction have none of their own.
    return dataclasses.replace(program, ends=tuple(End(sync=time) for time in rings) if any(rings) else ())


def _kinds(problem: MappingProblem) -> list[str]:
    """By device, the number of the first one on which all stages take as long."""
    stated = [stage.times_s for stage in problem.stages if stage.times_s is not None]
    first: dict[tuple[float, ...], str] = {}
    every = zip(*stated, strict=True) if stated else ((),) * problem.device_count
    return [first.setdefault(times, str(device)) for device, times in enumerate(every)]


def simulated_step(problem: MappingProblem, plan: Placement) -> float | None:
    """The time of a batch; None if it cannot run."""
    try:
        return float(simulate(mapping_program(problem, plan)).step_time)
    except InputError:
        return None


def lowered(problem: MappingProblem, total: int) -> Pipeline:
    """The pipeline with so many microbatches in a batch; its devices are known by their numbers."""
    moved: dict[tuple[int, int], float] = {}
    for one in problem.transfers if problem.form != "all-reduce" else ():
        # Both ways between two stages: what comes back waits for nothing that is not there.
        ends = min(one.source, one.target), max(one.source, one.target)
        back = any(other.source == one.target and other.target == one.source for other in problem.transfers)
        pair = ends if back else (one.source, one.target)
        moved[pair] = moved.get(pair, 0.0) + one.bytes * problem.replicas / total
    count = len(problem.stages)
    order = topological_order(count, list(moved))
    row = len(order) == count
    numbers = tuple(order if row else range(count))
    place = {stage: rank for rank, stage in enumerate(numbers)}
    stages = []
    kinds = sorted(set(_kinds(problem)))
    for number in numbers:
        stage, replicas = problem.stages[number], problem.counts[number]
        turns = total / replicas
        times = {kind: stage.time_s if stage.times_s is None else stage.times_s[int(kind)] for kind in kinds}
        work_s = {kind: ((time or 0.0) / turns, 0.0) for kind, time in times.items()}
        stages.append(
            PipelineStage(
                name=stage.name,
                replicas=(("",),) * replicas,
                forward=StageWork(work_s["0"][0]),
                kind="0",
                work_s=work_s,
                parameter_bytes=0.0 if problem.form == "point-to-point" else stage.parameter_bytes,
            )
        )
    return Pipeline(
        name=problem.name,
        unit="s",
        stages=tuple(stages),
        handovers=tuple(Handover(place[a], place[b], size) for (a, b), size in sorted(moved.items())),
        microbatches=total,
        schedule="forward",
        row=row,
        numbers=numbers,
    )
