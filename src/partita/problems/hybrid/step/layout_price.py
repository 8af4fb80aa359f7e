"""What a given layout costs, without search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partita.ground.checks import check_at_least
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.evaluation import StepEvaluation
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.spaces import utilisation
from partita.problems.hybrid.step.degrees import DegreeChoices
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.layout import MeshLayout, check_layout, options_of
from partita.problems.hybrid.step.least_recompute import stated_plan
from partita.problems.hybrid.step.pricing import step_spaces


@dataclass(frozen=True)
class LayoutPrice:
    """A layout with what it costs."""

    #: The layout, the problem that it is a plan of, and the plan.
    layout: MeshLayout
    problem: HybridProblem
    plan: Plan
    evaluation: StepEvaluation  #: Its step time, the parts of it, the memory of every stage, and what does not fit.
    #: Useful operations of the step over what all devices of the layout could do in its time.
    model_flops_utilisation: float

    @property
    def step_time(self) -> float:
        """Time of one optimizer step, in the problem's unit."""
        return self.evaluation.objective

    @property
    def memory_bytes(self) -> float:
        """Memory that the fullest device needs, working memory not included."""
        return max(stage.memory_bytes for stage in self.evaluation.stages)


def price_layout(
    graph: Graph,
    cluster: Cluster,
    layout: MeshLayout,
    *,
    microbatches: int,
    gradient_dtype: str = "float32",
    expert_capacity: float = 1.0,
    **pricing: Any,
) -> LayoutPrice:
    """Price a layout of a model on a cluster, balanced as a runtime would.

    Parameters
    ----------
    graph, cluster
        The model, traced for training with one microbatch, and the devices; those that the layout does not use stay
        idle.
    layout
        Degrees, schedule and recomputation.
    microbatches
        Of a step, over all replicas: the global batch over the samples of a microbatch.
    gradient_dtype, pricing
        As for ``pricing.strategy_spaces``.
    expert_capacity
        Rows of the busiest device that shares out experts, relative to the mean.

    Raises
    ------
    InputError
        If the layout does not suit the model, the cluster or the batch.
    """
    check_at_least("microbatches", microbatches)
    training = layout.training(overlap=True)
    spaces = step_spaces(
        graph,
        cluster,
        training,
        microbatches=microbatches,
        degrees=(layout.tensor,),
        memory_options=options_of(layout, (layout.recompute,)),
        sequence_parallel=layout.sequence_parallel,
        gradient_dtype=gradient_dtype,
        sharing=DegreeChoices.of(layout.shared, expert_capacity),
        **pricing,
    )
    problem = spaces.problem
    check_layout(problem, layout)
    plan = stated_plan(problem, layout)
    evaluation = evaluate(problem, plan)
    each = evaluation.per_microbatch
    return LayoutPrice(layout, problem, plan, evaluation, utilisation(graph, cluster, each, layout.devices))
