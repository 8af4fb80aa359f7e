"""Problems with identical devices as blocks: for the searches over orders and partitions, and for the bounds."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Ints, as_arrays
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.ground.rounding import up_to
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.contraction.instance import Instance, build_instance, operators_at
from partita.problems.throughput.contraction.lossless import absorb, memory_is_ample
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.variants import refuse_variants


def blocks_at(
    instance: Instance, place: int, devices: int, memory: float = np.inf, reload: float = 0.0
) -> BlockProblem:
    """So many blocks for devices of the kind at a place of an instance.

    The instance may be contracted further than every split allows, or its order say more, as long as some best split is
    left. A block has a limit of ``memory``, and beyond it a ``reload`` time for each byte; infinite for a hard limit.
    """
    share = float(instance.in_flight[1])
    cost = instance.net_cost[:, place]
    kept = np.flatnonzero(cost > 0)
    own = {
        "net": instance.net.chosen(kept),
        "work": instance.work[:, place],
        "cost": cost[kept],
        "held": instance.fixed + share * instance.active,
        "cover_bytes": instance.cover_fixed + share * instance.cover_active,
        "limit": [memory, reload],
        "devices": devices,
        "kept": kept,
    }
    return as_arrays(BlockProblem, vars(instance) | own)


def plan_of(problem: ThroughputProblem, blocks: BlockProblem, label: Ints) -> Plan:
    """The plan of a partition; empty blocks get no stage."""
    names = [(name, problem.kinds[kind].name) for name, kind in problem.device_names()]
    rows = [row for row in operators_at(problem, blocks.group, label, blocks.devices) if row]
    stages = [Stage(kind=k, devices=(d,), operators=row) for (d, k), row in zip(names, rows, strict=False)]
    return Plan(stages=tuple(stages), contiguity="acyclic")


def uniform_refusal(problem: ThroughputProblem) -> str | None:
    """What keeps a problem from being seen as uniform; None if nothing does."""
    if len(problem.present) > 1:
        names = ", ".join(problem.kinds[place].name for place in problem.present)
        return f"it is for identical devices, and there are {names}; use `capacity`, or leave out kinds (--cpus 0)"
    if problem.communication != "sum":
        return f"it adds transfers to work, but the problem lets them overlap ({problem.communication}); use `capacity`"
    if problem.max_replicas > 1:
        return "it is for one device a stage, and stages may be replicated; use `capacity`"
    return None


def uniform(problem: ThroughputProblem, *, free: bool = False, instance: Instance | None = None) -> BlockProblem:
    """The uniform relaxation, contracted to what acyclic splits keep together; infinite work where nothing can run.

    With ``free`` only what every split keeps together is contracted, and the order may have cycles; or the items are
    those of an ``instance`` of the problem. Raises ``ValueError`` if ``uniform_refusal`` has something against it.
    """
    refusal = uniform_refusal(problem)
    if refusal is not None:
        raise ValueError(refusal)
    instance = build_instance(problem, free=free) if instance is None else instance
    return blocks_at(instance, problem.present[0], problem.device_count)


def blocks_refusal(problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
    """Why the searches over orders and partitions do not take a problem on; None if they do."""
    if options.contiguity != "acyclic":
        return "it searches acyclic splits; use the solver 'annealing' for free ones"
    used = [problem.kinds[place] for place in problem.present]
    if len(used) != 1:
        names = ", ".join(kind.name for kind in used) or "none"
        return f"it is for identical devices, and there are {names}; use the solver 'slicing'"
    refusal = refuse_variants(problem, {"streaming"})
    if refusal is not None:
        return refusal
    limited = used[0].memory_bytes is not None
    saves = any(saved.bytes > 0 for saved in problem.saved)
    if limited and problem.training and (problem.schedule.recompute or (problem.schedule.positional and saves)):
        # Only an instance can tell whether the limit matters.
        instance = build_instance(problem)
        if (instance.positional or instance.recompute) and not memory_is_ample(instance):
            return "its memory does not depend on the stages behind, nor on what enters; use the solver 'slicing'"
    return None


def make_blocks(problem: ThroughputProblem, instance: Instance | None = None) -> BlockProblem:
    """Blocks of a problem that ``blocks_refusal`` has nothing against, over the items of an instance of it.

    Unless one is given, ``absorb`` says what is one item.
    """
    instance = absorb(build_instance(problem)) if instance is None else instance
    place = problem.present[0]
    ample = memory_is_ample(instance)
    memory, reload = np.inf, 0.0
    if not ample and problem.streaming:
        memory, reload = float(instance.memory[place]), problem.kinds[place].reload_time_per_byte
    elif not ample:
        memory, reload = up_to(float(instance.memory[place])), np.inf
    return blocks_at(instance, place, min(int(instance.count[place]), instance.items), memory, reload)
