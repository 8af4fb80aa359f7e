"""How Megatron-LM's authors set the three degrees by hand.

Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021),
§3, takeaways 1 and 2: tensor parallelism up to the devices of a machine, pipeline parallelism until the model fits, the
rest data parallelism. Its layout (equal blocks, embedding first, head last) is that of ``baselines/megatron.py``.
"""

from __future__ import annotations

from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.baselines.equal_stages import divisors, equal_rows
from partita.problems.hybrid.baselines.layouts import Layouts
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver

#: Tensor parallelism is not usual beyond this many devices; a machine has as many where nothing is said about that.
_MOST = 8


class Megatron(Solver):
    """The first number of stages that fits and leaves no device idle; without one, the first that fits."""

    name = "Megatron's recipe"
    summary = "tensor parallel in a machine, as few pipeline stages as fit, the rest data parallel"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        layouts = Layouts(problem)
        blocks = find_blocks(layouts.order)
        shared = set.intersection(*(set(layer.configurations) for layer in layouts.order))
        machine = options.machine_devices if problem.hierarchy is None else problem.devices_per_machine
        most = min(_MOST, machine or _MOST, problem.devices)
        degree = max((t for t in shared if t <= most), default=None)
        if degree is None:
            return Outcome(None, reason=f"the layers share no tensor-parallel degree up to {most}")
        reason = ""
        first: Outcome | None = None
        for stages in divisors(len(blocks.starts)):
            replicas = problem.replicas(min(problem.devices // (stages * degree), problem.microbatches // stages))
            rows = equal_rows(blocks, stages, replicas[-1], degree) if replicas else None
            if rows is None:
                reason = reason or f"{stages} stages of {degree} devices are more than there are"
                break
            outcome = layouts.best([rows], monitor)
            if outcome.plan is None:
                reason = outcome.reason
            elif outcome.plan.device_count == problem.devices:
                return outcome
            else:
                first = first or outcome
        return first or Outcome(None, reason=reason)
