"""Throughput plans in rounds: virtual stages stream, each a step of its own, whatever the split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partita.problems.throughput.nodes import Nodes, nodes_of
from partita.problems.throughput.running import Run
from partita.problems.throughput.virtual_stages import virtual_stages
from partita.simulator.program import Place, Program, Step
from partita.simulator.timeline import BACKWARD, FORWARD, SYNC, TRANSFER


def in_rounds(run: Run) -> Program:
    """Virtual stages, each a step of its own."""
    problem, plan = run.problem, run.plan
    nodes, forward = _phases(run) if problem.gpipe else _pieces(run)
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


def _pieces(run: Run) -> tuple[Nodes, list[bool]]:
    """Virtual stages, and which of them go forward."""
    node_of = virtual_stages(run.stage_of, len(run.plan.stages), run.edges)
    nodes = nodes_of(run.problem, run.plan, run.stage_of, node_of, run.edges)
    ahead = set(node_of[~run.backward].tolist())
    return nodes, [node in ahead for node in range(len(nodes.stage))]


def _phases(run: Run) -> tuple[Nodes, list[bool]]:
    """Virtual stages of the forward part and of the backward part, which comes after all of that.

    What forward operators make belongs to the forward part, whoever reads it, and running them again to the
    backward part: every stage has a node in both.
    """
    node_of = np.zeros(len(run.stage_of), dtype=np.int64)
    used = set(run.stage_of.tolist())
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
        for v in mine.tolist():
            stage, node = int(run.stage_of[v]), int(node_of[v])
            first[stage] = min(first.get(stage, node), node)
        for stage in sorted(used - first.keys()):
            first[stage] = count
            count += 1
        firsts.append(first)
    ahead = min(firsts[1].values())

    def payer(source: int, stage: int, node: int) -> int:
        return node if run.backward[source] or node < ahead else firsts[0][stage]

    nodes = nodes_of(
        run.problem,
        run.plan,
        run.stage_of,
        node_of,
        run.edges,
        count=count,
        payer=payer,
        again=firsts[1],
    )
    for first in firsts:
        for stage, node in first.items():
            nodes.stage[node] = stage
    return nodes, [node < ahead for node in range(count)]
