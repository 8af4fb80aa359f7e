"""What happens when a hybrid plan runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import RunRequest, TimeLine
from partita.problems.hybrid.lowered import configuration_of, lowered
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.evaluate import meshes_of
from partita.problems.hybrid.step_time import step_time
from partita.problems.hybrid.worth import HybridEvaluation
from partita.simulator.program import Program
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import staged_program


class HybridTimeLine(TimeLine[HybridProblem, Plan, HybridEvaluation]):
    """Stages under 1F1B unless another schedule is asked for."""

    def program(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, request: RunRequest) -> Program:
        return hybrid_program(problem, plan, evaluation, request)

    def expected(
        self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, program: Program
    ) -> Mapping[str, float]:
        if program.microbatches != problem.microbatches or program.schedule != plan.schedule:
            return {}
        if problem.training is not None:
            return {"the step": evaluation.objective}
        return {
            "the step": step_time(problem, plan, evaluation).step,
            "a microbatch in the steady state": evaluation.objective,
        }

    def holdings(
        self, problem: HybridProblem, plan: Plan, program: Program, place: int
    ) -> Sequence[tuple[str, float, bool]]:
        """Layers with their state, and with what they keep of each microbatch in flight."""
        stage = plan.stages[place]
        mesh = None if problem.training is None else meshes_of(problem, plan)[place]
        layers = {layer.id: layer for layer in (problem if mesh is None else mesh.problem).layers}
        found = []
        for identity in stage.operators:
            layer = layers[identity]
            choice = configuration_of(problem, layer.configurations, place, stage, identity)
            name = layer.name or f"layer {identity}"
            if mesh is not None:
                held = mesh.exchanges.held([mesh.place[identity]]) + choice.memory_bytes
                found += [(f"{name}: state", held, False)]
                found += [(f"{name}: activations", choice.memory_per_microbatch_bytes, True)]
                continue
            state = choice.memory_bytes + choice.sharded_bytes / stage.data_parallel
            found += [(f"{name}: state", state, False)]
            found += [(f"{name}: activations", choice.memory_per_microbatch_bytes, True)]
        return found


def hybrid_program(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, request: RunRequest) -> Program:
    """What happens when a plan runs.

    Raises
    ------
    InputError
        If it cannot run, or not as asked.
    """
    schedule = find_schedule(request.schedule or plan.schedule)
    microbatches = problem.microbatches if request.microbatches is None else request.microbatches
    if not schedule.training:
        raise InputError(f"schedule {schedule.name} is for inference, and hybrid plans are for training")
    pipeline = lowered(problem, plan, evaluation, behind=request.weight_sync == "behind")
    return staged_program(
        pipeline,
        schedule,
        microbatches,
        chunks=request.chunks,
        contention=request.contention,
        interval=request.interval,
    )
