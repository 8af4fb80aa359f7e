"""What happens when a throughput plan runs, as programs for the simulator, and what it asks of physical devices.

Inference streams through the plan's virtual stages in rounds, whatever the split. Training in a row of stages runs
under the problem's schedule; where a training split is free, its virtual stages stream in rounds, too. What transfers
take of a device is what the problem's ``communication`` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.stages import Staging
from partita.problems.facets.timeline import RunRequest, TimeLine
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.lowered import lowered
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.rounds import in_rounds
from partita.problems.throughput.running import Run
from partita.simulator.pipeline import Pipeline
from partita.simulator.program import Program
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import staged_program


def program_of(run: Run, request: RunRequest) -> Program:
    """What happens when a plan runs as asked; an ``InputError`` if it cannot run so."""
    run, training, name = run.asked(request), run.problem.training, request.schedule
    streams = name is None and (not training or run.order is None)
    if streams or (name == "forward" and not training and request.chunks in (None, 1)):
        return in_rounds(run)
    if run.order is None:
        raise InputError(
            f"schedule {name} runs stages in a row, but in this split they wait for each other in a circle; "
            "leave --schedule out: virtual stages run in rounds"
        )
    return staged_program(
        lowered(run),
        find_schedule(name or run.usual_schedule),
        run.microbatches,
        chunks=request.chunks,
        contention=request.contention,
        interval=request.interval,
    )


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


class ThroughputStages(Staging[ThroughputProblem, Plan, Evaluation]):
    """Work of every stage, and tensors, each once for every stage that reads it."""

    def staged(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Pipeline:
        # Where sizes of tensors are times, moving one unit takes one.
        times = any(kind.transfer_time_per_unit == 1.0 for kind in problem.kinds if kind.accelerator)
        if problem.unit != "s" or times:
            raise InputError(
                f"problem {problem.name!r} gives times of transfers, not bytes of tensors, so that links of a topology "
                "mean nothing to it; only plans of models can be placed"
            )
        return lowered(Run(problem, plan, evaluation))
