"""A split of a model as a pipeline whose stages can be placed on devices."""

from __future__ import annotations

from partita.errors import InputError
from partita.problems.facets.pipeline import Pipeline, PipelineStage
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem


def pipeline(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Pipeline:
    """Stages with what each of their replicas computes, moves and reduces in one batch.

    A tensor goes once from its producer's stage to every other stage that reads it, for every microbatch; of m
    microbatches and R replicas a replica takes m/R. Gradients are reduced once.

    Raises
    ------
    InputError
        If the problem states transfer times instead of bytes, its unit is not the second, or stages differ in replicas.
    """
    where = f"problem {problem.name!r}"
    if problem.unit != "s" or all(kind.transfer_time_per_unit in (0.0, 1.0) for kind in problem.kinds):
        raise InputError(f"{where} states no bytes and seconds, which placing its stages needs; plan a model instead")
    counts = {len(stage.devices) for stage in plan.stages}
    if len(counts) > 1:
        raise InputError(
            f"the plan's stages have {' and '.join(map(str, sorted(counts)))} replicas; only stages with as many each "
            "can be placed"
        )
    replicas = counts.pop()
    share = problem.schedule.microbatches / replicas if problem.training else 1.0
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    moved: dict[tuple[int, int], float] = {}
    for tensor in problem.tensors:
        source = stage_of[tensor.producer]
        for target in {stage_of[reader] for reader in tensor.consumers} - {source}:
            moved[source, target] = moved.get((source, target), 0.0) + tensor.size * share
    return Pipeline(
        name=problem.name,
        replicas=replicas,
        stages=tuple(
            PipelineStage(f"stage {number}", worth.compute * share, worth.memory.gradients)
            for number, worth in enumerate(evaluation.stages)
        ),
        transfers=tuple((source, target, size) for (source, target), size in sorted(moved.items())),
        notes=(f"made from a plan of {problem.name}: times and bytes of {share:g} microbatches of one replica",),
    )
