"""What happens when a throughput plan runs, as programs for the simulator, and what it asks of physical devices.

Inference streams through the plan's virtual stages in rounds, whatever the split. Training in a pipeline runs
under the problem's schedule; where a training split is free, its virtual stages stream in rounds, too. What transfers
take of a device is what the problem's ``communication`` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.stages import Staging
from partita.problems.facets.timeline import RunRequest, TimeLine
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.nodes import Nodes, nodes_of, virtual_stages
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.running import PlanRun, lowered
from partita.simulator.pipeline import Pipeline
from partita.simulator.program import Place, Program, Step
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import staged_program
from partita.simulator.timeline import BACKWARD, FORWARD, SYNC, TRANSFER


def program_of(run: PlanRun, request: RunRequest) -> Program:
    """What happens when a plan runs as asked; an ``InputError`` if it cannot run so."""
    run, training, name = run.asked(request), run.problem.training, request.schedule
    streams = name is None and (not training or run.order is None)
    if streams or (name == "forward" and not training and request.chunks in (None, 1)):
        return _in_rounds(run)
    if run.order is None:
        raise InputError(
            f"schedule {name} runs stages in a row, but in this split they wait for each other in a circle; "
            "leave --schedule out: virtual stages run in rounds"
        )
    return staged_program(
        run.once(lowered),
        find_schedule(name or run.usual_schedule),
        run.microbatches,
        chunks=request.chunks,
        contention=request.contention,
        interval=request.interval,
    )


def _in_rounds(run: PlanRun) -> Program:
    """Virtual stages, each a step of its own."""
    problem, plan = run.problem, run.plan
    nodes, forward = run.once(_phases if problem.gpipe else _pieces)
    used = sorted(set(nodes.stage))
    rank = {stage: place for place, stage in enumerate(used)}
    mine = {stage: [n for n, s in enumerate(nodes.stage) if s == stage] for stage in used}
    steps = []
    for node, stage in enumerate(nodes.stage):
        worth, first, last = run.evaluation.stages[stage], node == mine[stage][0], node == mine[stage][-1]
        held = run.held(worth) if problem.training else 0.0
        steps.append(
            Step(
                place=rank[stage],
                stage=node,
                letter="F" if forward[node] else "B",
                sort=FORWARD if forward[node] else BACKWARD,
                time=nodes.time[node] + (worth.reload if last else 0.0),
                incoming=nodes.incoming[node],
                outgoing=nodes.outgoing[node],
                saves=held if first else 0.0,
                frees=held if last else 0.0,
            )
        )
    hops, edges, messages = run.transfers(nodes, nodes.stage, len(nodes.stage))
    places = [run.place(stage) for stage in used] + run.links()
    steps += [Step(len(used) + hop.link, -1, "=", TRANSFER, hop.time, outward=hop.outward) for hop in hops]
    for stage in used:
        worth, own = run.evaluation.stages[stage], len(plan.stages[stage].devices)
        if worth.synchronisation > 0:
            place, sort = rank[stage], SYNC
            if not run.in_turn:
                # Where transfers hide behind work, weights are synchronised beside both.
                place, sort = len(places), TRANSFER
                places.append(Place(f"synchronisation of stage {rank[stage]}", instances=own))
            edges.append((mine[stage][-1], len(steps)))
            steps.append(Step(place, -1, "S", sort, worth.synchronisation * own))
    return Program(
        name=problem.name,
        unit=problem.unit,
        places=places,
        steps=steps,
        edges=edges,
        orders=None,
        microbatches=run.microbatches,
        messages=[replace(m, links=tuple(len(used) + link for link in m.links)) for m in messages],
        interval=run.request.interval,
        contention=run.request.contention,
        schedule="forward" if not problem.training else "rounds",
        barrier=problem.gpipe,
        settles=not problem.gpipe,
        notes=run.notes,
    )


def _pieces(run: PlanRun) -> tuple[Nodes, list[bool]]:
    """Virtual stages, and which of them go forward."""
    node_of = virtual_stages(run.stage_of, len(run.plan.stages), run.edges)
    nodes = nodes_of(run.problem, run.plan, run.stage_of, node_of, run.edges)
    ahead = set(node_of[~run.backward].tolist())
    return nodes, [node in ahead for node in range(len(nodes.stage))]


def _phases(run: PlanRun) -> tuple[Nodes, list[bool]]:
    """As ``_pieces``, with the backward part after all of the forward part.

    What forward operators make belongs to the forward part, whoever reads it, and running them again to the backward
    part: every stage has a node in both.
    """
    node_of = np.zeros(len(run.stage_of), dtype=np.int64)
    count = 0
    firsts: list[dict[int, int]] = []
    for phase in (False, True):
        mine = np.flatnonzero(run.backward == phase)
        place = {int(v): number for number, v in enumerate(mine)}
        inner = [(place[a], place[b]) for a, b in run.edges if a in place and b in place]
        first: dict[int, int] = {}
        if len(mine):
            node_of[mine] = count + virtual_stages(run.stage_of[mine], len(run.plan.stages), inner)
            count = int(node_of[mine].max()) + 1
        for stage, node in zip(run.stage_of[mine].tolist(), node_of[mine].tolist(), strict=True):
            first[stage] = min(first.get(stage, node), node)
        empty = [stage for stage in run.used if stage not in first]
        first |= {stage: count + number for number, stage in enumerate(empty)}
        count += len(empty)
        firsts.append(first)
    ahead = min(firsts[1].values())

    def payer(source: int, stage: int, node: int) -> int:
        return node if run.backward[source] or node < ahead else firsts[0][stage]

    again = firsts[1]
    nodes = nodes_of(run.problem, run.plan, run.stage_of, node_of, run.edges, count=count, payer=payer, again=again)
    for first in firsts:
        for stage, node in first.items():
            nodes.stage[node] = stage
    return nodes, [node < ahead for node in range(count)]


class ThroughputTimeLine(TimeLine[ThroughputProblem, Plan, Evaluation]):
    """Rounds for inference and free splits, the problem's schedule for training in a pipeline."""

    def program(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation, request: RunRequest) -> Program:
        return program_of(PlanRun(problem, plan, evaluation), request)

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
        return lowered(PlanRun(problem, plan, evaluation))
