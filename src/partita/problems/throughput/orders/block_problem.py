"""Which problems the searches over orders and partitions take on, and as which blocks."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.ground.rounding import up_to
from partita.problems.throughput.contraction.blocks import blocks_at
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.contraction.sole_readers import absorb, memory_is_ample
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options
from partita.problems.throughput.variants import Variant, refuse_variants

_KNOWN: frozenset[Variant] = frozenset({"streaming"})


def blocks_refusal(problem: ThroughputProblem, options: Options) -> str | None:
    """Why the searches over orders and partitions do not take a problem on; None if they do."""
    if options.contiguity != "acyclic":
        return "it searches acyclic splits; use the solver 'annealing' for free ones"
    used = [problem.kinds[place] for place in problem.present]
    if len(used) != 1:
        names = ", ".join(kind.name for kind in used) or "none"
        return f"it is for identical devices, and there are {names}; use the solver 'slicing'"
    refusal = refuse_variants(problem, _KNOWN)
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


def make_blocks(problem: ThroughputProblem, *, contract: bool = True) -> BlockProblem:
    """Blocks of a problem that ``blocks_refusal`` has nothing against.

    With ``contract`` items that some optimal split keeps together are merged (``absorb``), too. Without it the items
    are those of ``build_instance``, which the bounds know.
    """
    instance = build_instance(problem)
    return blocks_over(problem, absorb(instance) if contract else instance)


def blocks_over(problem: ThroughputProblem, instance: Instance) -> BlockProblem:
    """Blocks over the items of an instance of a problem that ``blocks_refusal`` has nothing against."""
    place = problem.present[0]
    ample = memory_is_ample(instance)
    memory, reload = np.inf, 0.0
    if not ample and problem.streaming:
        memory, reload = float(instance.memory[place]), problem.kinds[place].reload_time_per_byte
    elif not ample:
        memory, reload = up_to(float(instance.memory[place])), np.inf
    return blocks_at(instance, place, min(int(instance.count[place]), instance.items), memory, reload)


def blocks_of(uniform: BlockProblem) -> BlockProblem:
    """The relaxation that the bounds share, for a search: no more blocks than items."""
    return uniform._replace(devices=min(uniform.devices, uniform.items))
