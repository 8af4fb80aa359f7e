"""How long one training step takes: a batch of microbatches, with the pipeline filling and draining.

The objective of a hybrid problem is the steady state of an endless row of microbatches. A synchronous step has an end:
stages wait for their first microbatch and after their last one, weights are synchronised, and the optimizer runs.

With stage i taking τ_i for a microbatch, forward and backward with its transfers, on each of its d_i replicas, and N
microbatches that the replicas take in turn, a step is

    max over j of (Σ_{i ≠ j} τ_i + ⌈N / d_j⌉ · τ_j) + longest synchronisation + longest update:

one microbatch goes through all the other stages while stage j works on its own share. Under 1F1B with equal stages and
degrees this is what happens, (N/d + stages − 1)·τ; with equal degrees and backward parts that take the same multiple of
the forward parts it is never less than what happens. Where degrees differ, replicas that take turns may also wait for
each other, which is left out. The sum of stage times and the slowest stage is how Zheng et al., "Alpa" (OSDI 2022,
§5.1), count a pipeline, there without replicas that take turns.

A link between machines counts as one more stage of the row, with the machines of its group as replicas.

If the problem synchronises weights for every d microbatches, that is part of τ; if once per batch, it comes at the end,
not overlapped. So a step takes at least N times the objective, and in the limit of many microbatches just that.
"""

from __future__ import annotations

from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.evaluation import HybridEvaluation, StepTime
from partita.problems.hybrid.problem import HybridProblem


def step_time(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> StepTime:
    """The time of one step of ``problem.microbatches`` microbatches; the module says what is counted.

    Parameters
    ----------
    problem, plan, evaluation
        A plan and what it is worth; it need not be feasible.
    """
    batch = problem.microbatches
    # Links between machines are passed like stages: (time of one microbatch, microbatches of each in turn).
    turns: list[tuple[float, int]] = []
    sync: dict[int, float] = {}
    for stage, worth in zip(plan.stages, evaluation.stages, strict=True):
        turn = worth.compute + worth.transfer
        group = stage.machine_group or 0
        if problem.weight_sync_per_batch:
            sync[group] = max(sync.get(group, 0.0), worth.weight_sync * batch)
        else:
            turn += worth.weight_sync
        turns.append((turn * stage.data_parallel, -(-batch // stage.data_parallel)))
    for group, link in enumerate(evaluation.machine_groups):
        turn = link.transfer
        if problem.weight_sync_per_batch:
            sync[group] = sync.get(group, 0.0) + link.weight_sync * batch
        else:
            turn += link.weight_sync
        turns.append((turn * link.machines, -(-batch // link.machines)))
    return StepTime(
        microbatches=batch,
        pipeline=sum(turn for turn, _ in turns) + max((count - 1) * turn for turn, count in turns),
        weight_sync=max(sync.values(), default=0.0),
        update=max((update_time(problem, stage) for stage in plan.stages), default=0.0),
        steady=batch * evaluation.objective,
    )


def update_time(problem: HybridProblem, stage: Stage) -> float:
    """Time of the optimizer's step on each device of a stage: of all replicas alike, or each its share."""
    held = set(stage.operators)
    whole = sum(layer.update_times.get(stage.tensor_parallel, 0.0) for layer in problem.layers if layer.id in held)
    return whole / stage.data_parallel if problem.update_shared else whole
