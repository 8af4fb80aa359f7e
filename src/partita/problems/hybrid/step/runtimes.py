"""What runtimes run of a step: a runtime's limits as constraints of a problem, and which runtimes execute a plan.

Those that partita exports to are asked for all that their limits say, as for ``--runtime``. Of the others what is known
is here: nanotron has 1F1B, all forward parts first, and ZeRO-1; a fork of Megatron-LM has the zero-bubble schedule H1
(Qi et al., ICLR 2024); FSDP and DeepSpeed without pipelines share out gradients and weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from partita.costs.chain import chain_of
from partita.ground.errors import InputError, PartitaError
from partita.nouns.catalogue.meshes import MeshLimits
from partita.nouns.catalogue.runtimes import Limits, Runtime, find_runtime
from partita.nouns.graph import Graph
from partita.nouns.pipeline import UNSHARED, Plan
from partita.problems.facets.limits import check_training
from partita.problems.facets.model import ModelPlan
from partita.problems.hybrid.layer import Edge, Layer
from partita.problems.hybrid.model_layers import layer_operators, selective_ways
from partita.problems.hybrid.options import HybridPricing, ScheduleName
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.spaces import StrategySpaces
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.free_stages import is_uniform
from partita.problems.hybrid.step.layout import MeshLayout, shares_tokens
from partita.problems.hybrid.training import ZERO_STAGES, StageLimits


def limited_settings(settings: HybridPricing, runtime: Runtime, planned: tuple[ScheduleName, ...]) -> HybridPricing:
    """The settings that keep to the schedules and degrees of a runtime; InputError if others are asked for.

    ``planned`` are the schedules that are looked at unless others are asked for.
    """
    limits = runtime.limits
    if settings.mesh == "free":
        raise InputError(
            f"{runtime.name} has one mesh for all stages, which is planned for a step; leave --mesh free out"
        )

    def runs(schedule: str) -> bool:
        return (not limits.schedules or schedule in limits.schedules) and (limits.chunks or schedule != "interleaved")

    for schedule in settings.schedule:
        if not runs(schedule):
            raise InputError(f"{runtime.name} has no schedule {schedule}; take another one of {', '.join(planned)}")
    chosen = settings.schedule or tuple(filter(runs, planned))
    degrees = settings.tensor_parallel_degrees
    if not limits.tensor:
        if any(degree > 1 for degree in degrees):
            raise InputError(f"{runtime.name} has no tensor parallelism; leave --tensor-parallel-degrees out")
        degrees = (1,)
    allowed = sorted({*limits.meshes.zero, *limits.meshes.zero_alone})
    zero = settings.zero or ((1,) if settings.zero1 else ZERO_STAGES)
    if not set(zero) & set(allowed):
        raise InputError(
            f"{runtime.name} runs pipelines with ZeRO-{' and '.join(map(str, allowed))}; take another stage with --zero"
        )
    if limits.meshes.shared_by_all and any(settings.zero_shards):
        raise InputError(f"{runtime.name} shares out ZeRO's state among all replicas; leave --zero-shards out")
    context, expert = settings.context_parallel_degrees, settings.expert_parallel_degrees
    width = settings.expert_tensor_parallel_degrees
    for what, asked, least, has in (
        ("context", context, 1, limits.context),
        ("expert", expert, 1, limits.expert),
        ("expert-tensor", width, 0, limits.expert),
    ):
        if not has and any(degree > least for degree in asked):
            raise InputError(
                f"{runtime.name} has no {what} parallelism with such splits; leave --{what}-parallel-degrees out"
            )
    for what in ("activations", "optimizer"):
        has = limits.offload or (limits.optimizer_on_host and what == "optimizer")
        if getattr(settings, f"offload_{what}") and not has:
            kept = "its optimizer" if what == "optimizer" else what
            raise InputError(f"{runtime.name} keeps {kept} on its devices; leave --offload-{what} out")
    if limits.tokens == "always" and not settings.sequence_parallel:
        raise InputError(f"tensor-parallel groups of {runtime.name} share out tokens; leave --no-sequence-parallel out")
    return msgspec.structs.replace(
        settings,
        schedule=chosen,
        tensor_parallel_degrees=degrees,
        context_parallel_degrees=context if limits.context else (1,),
        expert_parallel_degrees=expert if limits.expert else (1,),
        expert_tensor_parallel_degrees=width if limits.expert else (0,),
        sequence_parallel=settings.sequence_parallel and limits.tokens != "never",
        zero=tuple(stage for stage in zero if stage in allowed),
        zero1=False,
    )


def check_layout_on(layout: MeshLayout, runtime: Runtime) -> None:
    """Refuse a layout that a runtime does not run, but for what the problem's own limits say of it."""
    limits, name = runtime.limits, runtime.name
    if limits.schedules and layout.runs not in limits.schedules:
        raise InputError(f"layout: {name} has no schedule {layout.runs}; take {' or '.join(limits.schedules)}")
    if layout.chunks > 1 and not limits.chunks:
        raise InputError(f"layout: {name} has one stage on a rank; leave chunks out")
    for what, has in (("tensor", limits.tensor), ("context", limits.context), ("expert", limits.expert)):
        if getattr(layout, what) > 1 and not has:
            raise InputError(f"layout: {name} has no {what} parallelism with such splits; leave {what} out")
    if layout.expert_tensor and not limits.expert:
        raise InputError(f"layout: {name} has no groups of experts with such splits; leave expert_tensor out")
    if layout.tensor > 1 and limits.tokens == ("never" if layout.sequence_parallel else "always"):
        answer = "no" if layout.sequence_parallel else "yes"
        raise InputError(
            f"layout: tensor-parallel groups of {name} {'share out no' if answer == 'no' else 'share out'} tokens; "
            f"give sequence_parallel={answer}"
        )


def on_runtime(
    problem: HybridProblem, graph: Graph, spaces: StrategySpaces, runtime: Runtime, meshes: MeshLimits
) -> HybridProblem:
    """A problem about a step whose stages keep what a runtime can run of the graph, on the meshes that it runs.

    UnsupportedError if the runtime runs chains of blocks, and the model is none.
    """
    limits, operators = runtime.limits, layer_operators(graph, spaces)
    layer_of = {v: identity for identity, members in operators.items() for v in members}
    together: list[tuple[int, ...]] = []
    if limits.ordered:
        whole = chain_of(graph, runtime)
        unit = {identity: max(whole.unit[v] for v in members) for identity, members in operators.items()}
        line = sorted(unit, key=lambda identity: (unit[identity], identity))
        groups = [tuple(alike) for _, alike in itertools.groupby(line, key=unit.__getitem__)]
        first = {unit[group[0]]: group[0] for group in groups}
        handed = tuple((first[a], first[b]) for a, b in whole.handed)
        together += [group for group in groups if len(group) > 1]
        known = {(edge.source, edge.target) for edge in problem.edges}
        # Without bytes, only the order counts.
        chain = tuple(Edge(source=a, target=b, bytes=0.0) for a, b in itertools.pairwise(line) if (a, b) not in known)
        notes = whole.notes
    else:
        handed, chain, notes = (), (), ()
        if limits.ties(graph.training):
            read = [parameter.users for parameter in graph.parameters if not parameter.buffer]
            shared = (tuple(sorted({layer_of[v] for v in users})) for users in read)
            together += [group for group in dict.fromkeys(shared) if len(group) > 1]
    ways = selective_ways(graph, spaces) if limits.recompute else {}
    blocks = block_ids(spaces)
    selective = {ways.get(identity, "selective") for identity in blocks}
    alike: tuple[str, ...] = ()
    training = problem.step
    if limits.alike:
        # Without blocks of its own every layer is one.
        names = {"none": "none", "full": "full", **({} if len(selective) > 1 else {selective.pop(): "selective"})}
        alike = tuple(names[way] for way in limits.recompute if way in names)
    elif limits.recompute:
        problem = _with_ways(problem, ways, limits.recompute)
    found = StageLimits(
        together=tuple(together), handed=handed, blocks=blocks if alike else (), ways=alike, meshes=meshes
    )
    return problem.replace(
        edges=(*problem.edges, *chain),
        training=msgspec.structs.replace(training, limits=found),
        notes=(*problem.notes, *notes),
    )


def block_ids(spaces: StrategySpaces) -> tuple[int, ...]:
    """Ids of the layers that are no end of the model."""
    last = len(spaces.layers) - 1
    ends = {0: "input", last: "output"} if last else {}
    return tuple(space.id for number, space in enumerate(spaces.layers) if ends.get(number) != space.name)


def _with_ways(problem: HybridProblem, ways: dict[int, str], allowed: tuple[str, ...]) -> HybridProblem:
    """A problem whose layers run again what is allowed, and nothing else."""

    def kept(layer: Layer) -> Layer:
        rows = {
            degree: tuple(c for c in row if (ways[layer.id] if c.id == "selective" else c.id) in allowed)
            for degree, row in layer.configurations.items()
        }
        return msgspec.structs.replace(layer, configurations={degree: row for degree, row in rows.items() if row})

    return problem.with_layers(kept)


#: What people call the runtimes that partita exports to.
_EXPORTED = {"megatron": "Megatron-LM", "torchtitan": "torchtitan", "deepspeed": "DeepSpeed"}

#: Those whose optimizer runs on hosts.
_WITH_HOSTS = ("Megatron-LM", "DeepSpeed")


def runtimes_of(answer: ModelPlan[HybridProblem]) -> tuple[str, ...]:
    """Runtimes that execute the plan of an answer about a step; none if none is known."""
    plan = answer.result.plan
    assert plan is not None
    found = tuple(_runtimes(answer, plan)) if is_uniform(plan) else ()
    if answer.priced.settings.offload_optimizer:
        # Their optimizers for hosts are those that share out states.
        apart = plan.stages[0].data_parallel * plan.stages[0].context_parallel > 1
        return tuple(name for name in found if name in _WITH_HOSTS) if plan.zero or not apart else ()
    return found


def _runtimes(answer: ModelPlan[HybridProblem], plan: Plan) -> Iterator[str]:
    first, frozen = plan.stages[0], _frozen(answer)
    ways = {way for stage in plan.stages for way in stage.configurations.values()}
    groups = first.data_parallel * first.context_parallel
    zero = plan.zero if groups > 1 else 0
    plain = first.shared == UNSHARED and ways <= {"none", "full"}
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
    apart = first.expert_tensor_parallel > 0
    return (limits.expert or not apart) and all(degree == 1 or has for degree, has in asked)


def _zero_bubble() -> Runtime:
    megatron = find_runtime("megatron")
    return msgspec.structs.replace(
        megatron, limits=msgspec.structs.replace(megatron.limits, schedules=("zero-bubble",))
    )


def _frozen(answer: ModelPlan[HybridProblem]) -> bool:
    return any(not parameter.trainable and not parameter.buffer for parameter in answer.graph.parameters)
