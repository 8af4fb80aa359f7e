"""What the baselines of the hybrid problem share."""

from __future__ import annotations

from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options

#: Devices of one machine where nothing is said about that.
_USUAL = 8


class Recipe:
    """A usual way to lay out training by hand; it tries any problem, and says what does not apply."""

    def supports(self, problem: HybridProblem, options: Options) -> str | None:
        """Every problem."""
        return None


def machine_devices(problem: HybridProblem, options: Options) -> int:
    """Devices of one machine, among which tensor parallelism is cheap."""
    if problem.hierarchy is not None:
        return problem.devices_per_machine
    return options.machine_devices or _USUAL
