"""What happens when a throughput plan runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import RunRequest, TimeLine
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.programs import program_of
from partita.problems.throughput.running import Run
from partita.simulator.program import Program


class ThroughputTimeLine(TimeLine[ThroughputProblem, Plan, Evaluation]):
    """Rounds for inference and free splits, the problem's schedule for training in a row of stages."""

    def program(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation, request: RunRequest) -> Program:
        return program_of(Run(problem, plan, evaluation), request)

    def expected(
        self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation, program: Program
    ) -> Mapping[str, float]:
        return {"a microbatch in the steady state": evaluation.objective}

    def holdings(
        self, problem: ThroughputProblem, plan: Plan, program: Program, place: int
    ) -> Sequence[tuple[str, float, bool]]:
        """Weights with all that is kept of them, activations, and what instance files attach to operators."""
        device = program.places[place].replicas[0][0]
        held = {identity for stage in plan.stages if device in stage.devices for identity in stage.operators}
        found = [
            (p.name, p.weight_bytes + p.gradient_bytes + p.optimizer_bytes, False)
            for p in problem.parameters
            if held.intersection(p.users)
        ]
        found += [(op.label, op.memory_bytes, False) for op in problem.operators if op.id in held]
        if problem.schedule.recompute:
            return found
        return [*found, *((kept.name, kept.bytes, True) for kept in problem.saved if held.intersection(kept.users))]
