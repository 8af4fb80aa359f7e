"""How Megatron-LM's authors set the three degrees by hand.

Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021),
§3, takeaways 1 and 2: tensor parallelism up to the devices of a machine, pipeline parallelism until the model fits, the
rest data parallelism. Its layout (equal blocks, embedding first, head last) is that of ``baselines/megatron.py``.
"""

from __future__ import annotations

from typing import ClassVar

from partita.problems.hybrid.baselines.equal_stages import divisors, equal_rows
from partita.problems.hybrid.baselines.layouts import Layouts, find_blocks, replica_degrees
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver
from partita.run.monitor import Monitor

#: Tensor parallelism is not usual beyond this many devices.
_MOST = 8

#: Devices of one machine where nothing is said about that.
_USUAL = 8


class Megatron(Solver):
    """Tensor parallelism inside the machine, then pipeline for memory, then data parallelism."""

    name: ClassVar[str] = "Megatron's recipe"
    summary: ClassVar[str] = "tensor parallel in a machine, as few pipeline stages as fit, the rest data parallel"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """The first number of stages that fits and leaves no device idle; without one, the first that fits."""
        layouts = Layouts(problem)
        blocks = find_blocks(layouts)
        shared = set.intersection(*(set(layer.configurations) for layer in layouts.order))
        most = min(_MOST, _machine_devices(problem, options), problem.devices)
        degree = max((t for t in shared if t <= most), default=None)
        if degree is None:
            return Outcome(None, reason=f"the layers share no tensor-parallel degree up to {most}")
        reason = ""
        first: Outcome | None = None
        for stages in divisors(blocks.count):
            replicas = replica_degrees(
                problem, min(problem.devices // (stages * degree), problem.microbatches // stages), every=1
            )
            rows = equal_rows(blocks, stages, replicas[-1], degree) if replicas else None
            if rows is None:
                reason = reason or f"{stages} stages of {degree} devices are more than there are"
                break
            outcome = layouts.best([rows], monitor)
            if outcome.plan is None:
                reason = outcome.reason
            elif outcome.plan.devices == problem.devices:
                return outcome
            else:
                first = first or outcome
        return first or Outcome(None, reason=reason)


def _machine_devices(problem: HybridProblem, options: Options) -> int:
    """Devices of one machine, among which tensor parallelism is cheap."""
    if problem.hierarchy is not None:
        return problem.devices_per_machine
    return options.machine_devices or _USUAL
