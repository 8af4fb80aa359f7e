"""A throughput plan as it runs, in a few numbers: by simulation, and what rounds of the pipeline say of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import Remembered, RunRequest
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.nodes import between, edges_of, nodes_of, stage_of_operators, virtual_stages
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.running import PlanRun
from partita.problems.throughput.timeline import program_of
from partita.simulator.program import Program
from partita.simulator.simulate import simulate
from partita.simulator.steps import StepSummary, step_summary

#: Microbatches that pass before the one whose latency is looked at, for each round of the pipeline.
_ROUNDS = 4


@dataclass(frozen=True)
class SampleLatency:
    """How long one sample takes through a plan, by formulas, in the problem's time unit."""

    stages: int  #: Devices in use.
    #: Pieces of devices' sets that run without a break; as many as stages for an acyclic inference split.
    virtual_stages: int
    depth: int  #: Most virtual stages that any sample passes one after the other.
    period: float  #: Time per sample in steady state: the objective. A round of the pipeline takes that long.
    #: Time of one sample through the full pipeline: depth × period. All devices advance together, round by round; an
    #: asynchronous pipeline is no slower. A sample stays r rounds on a stage of r replicas.
    latency: float
    #: Time of one sample when no other is in flight: the longest path of virtual stages, each with its own work and the
    #: transfers that its device pays for it, nothing overlapped. Links between groups of devices, weights that are
    #: fetched again and weights that are synchronised are left out.
    latency_alone: float


def sample_latency(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> SampleLatency:
    """Depth and latency of a plan of the problem, given what ``evaluate`` says of it, feasible or not.

    Operators that a device cannot run take no time here.
    """
    device, edges = stage_of_operators(problem, plan), edges_of(problem)
    piece = virtual_stages(device, len(plan.stages), edges)
    nodes = nodes_of(problem, plan, device, piece, edges)
    loads = np.array(nodes.time) + np.array(nodes.incoming) + np.array(nodes.outgoing)
    replicas = np.array([len(plan.stages[stage].devices) for stage in nodes.stage])
    depths, rounds, finish = np.ones(len(loads), dtype=np.int64), replicas.copy(), loads.copy()
    for u, v in between(piece, edges):
        depths[v] = max(depths[v], depths[u] + 1)
        rounds[v] = max(rounds[v], rounds[u] + replicas[v])
        finish[v] = max(finish[v], finish[u] + loads[v])
    return SampleLatency(
        stages=sum(1 for stage in plan.stages if stage.operators),
        virtual_stages=len(loads),
        depth=int(depths.max()),
        period=evaluation.objective,
        latency=int(rounds.max()) * evaluation.objective,
        latency_alone=float(finish.max()),
    )


@dataclass(frozen=True)
class SimulatedPipeline:
    """A plan as it runs, in the problem's time unit."""

    formula: SampleLatency  #: What the rounds of the pipeline say.
    #: Time of one microbatch when the pipeline is full: inference with one every period, training in the middle of a
    #: batch.
    latency: float
    latency_alone: float  #: Time of one microbatch when no other is in flight.
    #: How a batch runs, and the samples in a microbatch.
    schedule: str
    microbatches: int
    samples: int
    step: StepSummary  #: What the batch takes.


def _simulated(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> SimulatedPipeline | None:
    formula, run = sample_latency(problem, plan, evaluation), PlanRun(problem, plan, evaluation)

    def make(microbatches: int, interval: float = 0.0) -> Program:
        return program_of(run, RunRequest(microbatches=microbatches, interval=interval))

    try:
        alone = simulate(make(1))
        usual = run.usual_microbatches
        step = step_summary(make, usual)
    except InputError:
        # Plans that break limits may run all the same; this one does not.
        return None
    if problem.training:
        passed = simulate(make(min(usual, 2 * _ROUNDS * formula.depth))).latencies
        latency = float(passed[len(passed) // 2])
    else:
        passed = simulate(make(_ROUNDS * formula.depth, evaluation.objective)).latencies
        latency = float(passed[len(passed) // 2 :].max())
    samples, order = problem.microbatch_samples, alone.program.schedule
    return SimulatedPipeline(formula, latency, float(alone.latencies[0]), order, usual, samples, step)


#: A plan as it runs; None if it cannot run at all.
simulated_pipeline: Remembered[ThroughputProblem, Plan, Evaluation] = Remembered(_simulated)


def pipeline_document(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> dict[str, Any]:
    """The pipeline as plain values; what formulas say of latencies is beside what happens, or alone if nothing does."""
    run: SimulatedPipeline | None = simulated_pipeline(problem, plan, evaluation)
    if run is None:
        return asdict(sample_latency(problem, plan, evaluation))
    happens = {"latency": run.latency, "latency_alone": run.latency_alone}
    said = {name: getattr(run.formula, name) for name in happens}
    return asdict(run.formula) | happens | {"formula": said}


def step_document(
    problem: ThroughputProblem, plan: Plan | None, evaluation: Evaluation | None
) -> dict[str, Any] | None:
    """A batch as it runs, as plain values; None of no plan, or of one that cannot run."""
    if plan is None or evaluation is None:
        return None
    run: SimulatedPipeline | None = simulated_pipeline(problem, plan, evaluation)
    if run is None:
        return None
    found = asdict(run.step)
    del found["idle"], found["devices"]
    each = run.step.time / run.microbatches
    return {
        "schedule": run.schedule,
        "microbatches": run.microbatches,
        **found,
        "time_per_microbatch": each,
        "time_per_sample": each / run.samples,
        "bubble": run.step.bubble,
    }
