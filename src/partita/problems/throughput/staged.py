"""What a throughput plan asks of physical devices."""

from __future__ import annotations

from partita.catalogue.loader import load_catalogue
from partita.errors import InputError
from partita.problems.facets.stages import Stages
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.evaluation import StageEvaluation as Worth
from partita.problems.throughput.plan import Plan, Stage
from partita.problems.throughput.problem import Operator, ThroughputProblem
from partita.problems.throughput.programs import Run
from partita.rounding import leq
from partita.simulator.placed import Handover, StageDemand, StagedPlan


class ThroughputStages(Stages[ThroughputProblem, Plan, Evaluation]):
    """Work of every stage, and tensors, each once for every stage that reads it."""

    def staged(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> StagedPlan:
        if problem.unit != "s" or not _in_bytes(problem):
            raise InputError(
                f"problem {problem.name!r} gives times of transfers, not bytes of tensors, so that links of a topology "
                "mean nothing to it; only plans of models can be placed"
            )
        run = Run(problem, plan, evaluation)
        places = {op.id: op for op in problem.operators}
        stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
        moved: dict[tuple[int, int, bool], float] = {}
        for tensor in problem.tensors:
            source, backward = stage_of[tensor.producer], places[tensor.producer].backward
            for target in sorted({stage_of[consumer] for consumer in tensor.consumers} - {source}):
                key = source, target, backward
                moved[key] = moved.get(key, 0.0) + tensor.size
        used = [number for number, stage in enumerate(plan.stages) if stage.operators]
        number_of = {stage: number for number, stage in enumerate(used)}
        stages = tuple(
            _demand(
                problem, plan.stages[stage], evaluation.stages[stage], [places[v] for v in plan.stages[stage].operators]
            )
            for stage in used
        )
        usual = "gpipe" if problem.schedule.name == "gpipe" else "1f1b"
        return StagedPlan(
            name=problem.name,
            stages=stages,
            handovers=tuple(
                Handover(number_of[source], number_of[target], size, backward)
                for (source, target, backward), size in sorted(moved.items())
                if size > 0
            ),
            microbatches=run.usual_microbatches,
            training=problem.training,
            schedule=usual if problem.training else "forward",
            order=None if run.order is None else tuple(number_of[stage] for stage in run.order),
        )


def _in_bytes(problem: ThroughputProblem) -> bool:
    """Whether sizes of tensors are bytes: where they are times, moving one unit takes one."""
    return all(kind.transfer_time_per_unit != 1.0 for kind in problem.kinds if kind.accelerator)


def _demand(problem: ThroughputProblem, stage: Stage, worth: Worth, operators: list[Operator]) -> StageDemand:
    work: dict[str, tuple[float, float]] = {}
    again = problem.schedule.recompute and problem.training
    for place, kind in enumerate(problem.kinds):
        limit = None if problem.streaming else kind.memory_bytes
        if kind.name != stage.kind and limit is not None and not leq(worth.memory.total, limit):
            continue
        forward = backward = 0.0
        for op in operators:
            time = op.times[place]
            if time is None:
                break
            if op.backward:
                backward += time
            else:
                forward += time
                backward += time if again else 0.0
        else:
            reload = worth.reload
            work[kind.name] = (forward, backward + reload) if problem.training else (forward + reload, 0.0)
    memory = worth.memory
    return StageDemand(
        name=stage.device if len(stage.devices) == 1 else f"{stage.device} and {len(stage.replicas)} more",
        replicas=len(stage.devices),
        group=1,
        work_s=work,
        kind=stage.kind,
        parameter_bytes=(memory.gradients if problem.parameters else memory.operators) if problem.training else 0.0,
        update_s=_update(worth) if problem.training else 0.0,
        own=tuple((int(device.rpartition(":")[2]),) for device in stage.devices),
    )


def _update(worth: Worth) -> float:
    """Least time of the optimizer's step: gradients are read, weights and states read and written (docs/menus.md)."""
    spec = load_catalogue().devices.get(worth.kind)
    if spec is None:
        return 0.0
    moved = 3.0 * worth.memory.gradients + 2.0 * worth.memory.optimizer
    return moved / (spec.memory_bandwidth_bytes_per_s * spec.memory_efficiency)
