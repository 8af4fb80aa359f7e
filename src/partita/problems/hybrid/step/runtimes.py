"""Which training runtimes execute a plan of a step.

Those that partita exports to are asked for all that their limits say, as for ``--runtime``. Of the others what is known
is here: nanotron has 1F1B, all forward parts first, and ZeRO-1; a fork of Megatron-LM has the zero-bubble schedule H1
(Qi et al., ICLR 2024); FSDP and DeepSpeed without pipelines share out gradients and weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from partita.ground.errors import PartitaError
from partita.nouns.catalogue.runtimes import Limits, Runtime, find_runtime
from partita.nouns.pipeline import Plan
from partita.problems.facets.limits import check_training
from partita.problems.facets.model import ModelPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.free_stages import is_uniform
from partita.problems.hybrid.step.layout import shares_tokens
from partita.problems.hybrid.step.runtime_limits import on_runtime

#: What people call the runtimes that partita exports to.
_EXPORTED = {"megatron": "Megatron-LM", "torchtitan": "torchtitan", "deepspeed": "DeepSpeed"}


def runtimes_of(answer: ModelPlan[HybridProblem]) -> tuple[str, ...]:
    """Runtimes that execute the plan of an answer about a step; none if none is known."""
    plan = answer.result.plan
    assert plan is not None
    return tuple(_runtimes(answer, plan)) if is_uniform(plan) else ()


def _runtimes(answer: ModelPlan[HybridProblem], plan: Plan) -> Iterator[str]:
    first, frozen = plan.stages[0], _frozen(answer)
    ways = {way for stage in plan.stages for way in stage.configurations.values()}
    groups = first.data_parallel * first.context_parallel
    zero = plan.zero if groups > 1 else 0
    plain = first.context_parallel == 1 and first.expert_parallel == 1 and ways <= {"none", "full"}
    for name, called in _EXPORTED.items():
        if runs(answer, plan, find_runtime(name)):
            yield called
    if plan.schedule == "zero-bubble" and runs(answer, plan, _zero_bubble()):
        yield "Megatron-LM with zero-bubble schedules"
    if plain and not frozen and zero < 2 and plan.schedule in ("1f1b", "gpipe"):
        yield "nanotron"
    if len(plan.stages) == 1 and zero > 1:
        if plain and first.tensor_parallel == 1:
            yield "PyTorch FSDP"
            yield "DeepSpeed"
        elif plain and not frozen:
            yield "Megatron-LM with FSDP"


def runs(answer: ModelPlan[HybridProblem], plan: Plan, runtime: Runtime) -> bool:
    """Whether a runtime's limits leave a plan as it is."""
    limits, settings, first = runtime.limits, answer.priced.settings, plan.stages[0]
    sequence = shares_tokens(settings)
    if not _degrees(plan, limits) or (
        limits.schedules and len(plan.stages) > 1 and plan.schedule not in limits.schedules
    ):
        return False
    if first.tensor_parallel > 1 and limits.tokens == ("never" if sequence else "always"):
        return False
    graph = answer.graph
    try:
        meshes = check_training(
            runtime, graph, settings, gradient_dtype=settings.gradient_dtype, sequence_parallel=sequence
        )
        problem = on_runtime(answer.problem, graph, answer.priced.details, runtime, meshes)
        return not evaluate(problem, plan).violations
    except PartitaError:
        return False


def _degrees(plan: Plan, limits: Limits) -> bool:
    """Whether a runtime has the degrees of a plan that are more than 1."""
    first = plan.stages[0]
    asked = (
        (first.tensor_parallel, limits.tensor),
        (first.context_parallel, limits.context),
        (first.expert_parallel, limits.expert),
        (plan.chunks, limits.chunks),
    )
    return all(degree == 1 or has for degree, has in asked)


def _zero_bubble() -> Runtime:
    megatron = find_runtime("megatron")
    return msgspec.structs.replace(
        megatron, limits=msgspec.structs.replace(megatron.limits, schedules=("zero-bubble",))
    )


def _frozen(answer: ModelPlan[HybridProblem]) -> bool:
    return any(not parameter.trainable and not parameter.buffer for parameter in answer.graph.parameters)
