"""A problem with identical devices as the bounds of the hierarchy see it: blocks without a memory limit."""

from __future__ import annotations

from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.problems.throughput.contraction.blocks import blocks_at
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.problem import ThroughputProblem


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


def uniform(problem: ThroughputProblem, *, free: bool = False) -> BlockProblem:
    """The uniform relaxation, contracted to what acyclic splits keep together; infinite work where nothing can run.

    With ``free`` only what every split keeps together is contracted, and the order may have cycles.

    Raises
    ------
    ValueError
        If ``uniform_refusal`` has something against the problem.
    """
    refusal = uniform_refusal(problem)
    if refusal is not None:
        raise ValueError(refusal)
    return uniform_of(problem, build_instance(problem, free=free))


def uniform_of(problem: ThroughputProblem, instance: Instance) -> BlockProblem:
    """The relaxation over the items of an instance of the problem, which ``uniform_refusal`` has nothing against."""
    return blocks_at(instance, problem.present[0], problem.device_count)
