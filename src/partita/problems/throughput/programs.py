"""Throughput plans as programs for the simulator.

Inference streams through the plan's virtual stages in rounds, whatever the split. Training in a row of stages runs
under the problem's schedule; where a training split is free, its virtual stages stream in rounds, too. What transfers
take of a device is what the problem's ``communication`` says.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from partita.errors import InputError
from partita.problems.facets.model import PER_DEVICE
from partita.problems.facets.timeline import Request
from partita.problems.throughput.evaluation import Evaluation, StageEvaluation
from partita.problems.throughput.nodes import Nodes, nodes_of
from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import Schedule, ThroughputProblem
from partita.problems.throughput.virtual_stages import edges_of, stage_of_operators, virtual_stages
from partita.simulator.program import End, Message, Place, Program, Step, Streams
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import Hop, Stage, StagePipeline, StageWork, staged_program
from partita.simulator.timeline import BACKWARD, FORWARD, SYNC, TRANSFER


class Run:
    """A plan with what its simulation needs.

    Raises
    ------
    InputError
        If some operators cannot run where the plan puts them, or there are none.
    """

    def __init__(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> None:
        if all(not stage.operators for stage in plan.stages):
            raise InputError(f"the plan of problem {problem.name!r} has no operators to run")
        wrong = next((text for text in evaluation.violations if "cannot run on" in text), None)
        if wrong is not None:
            raise InputError(f"the plan of problem {problem.name!r} cannot run: {wrong}")
        self.problem, self.plan, self.evaluation = problem, plan, evaluation
        self.request = Request()
        self.stage_of = stage_of_operators(problem, plan)
        self.edges = edges_of(problem)
        self.backward = np.array([op.backward for op in problem.operators], dtype=bool)
        used = np.unique(self.stage_of).tolist()
        self.count = len(plan.stages)
        self.replicas = [len(stage.devices) for stage in plan.stages]
        self.order = self._row(used)
        given = problem.schedule.microbatches
        #: Microbatches of a batch, where nothing else is asked for: the same for every plan of the problem.
        self.usual_microbatches = given if given > 1 else PER_DEVICE * problem.device_count
        self.microbatches = self.usual_microbatches
        reloads = any(stage.reload > 0 for stage in evaluation.stages)
        #: What is fetched again delays transfers, too: they cannot hide behind it.
        self.streams: Streams = "sum" if reloads else problem.communication
        self.notes = (
            ("What does not fit into memory is fetched one after the other with transfers and work.",)
            if reloads and problem.communication != "sum"
            else ()
        )

    def program(self, request: Request) -> Program:
        """What happens as asked."""
        self.request, problem, name = request, self.problem, request.schedule
        self.microbatches = self.usual_microbatches if request.microbatches is None else request.microbatches
        if name is None and (not problem.training or self.order is None):
            return self.in_rounds()
        if name == "forward" and not problem.training and request.chunks in (None, 1):
            return self.in_rounds()
        if self.order is None:
            raise InputError(
                f"schedule {name} runs stages in a row, but in this split they wait for each other in a circle; "
                "leave --schedule out: virtual stages run in rounds"
            )
        usual = "gpipe" if problem.schedule.name == "gpipe" else "1f1b"
        return self.in_a_row(name or usual)

    def _row(self, used: list[int]) -> list[int] | None:
        """Stages in an order in which forward work goes on and backward work back; None if there is none."""
        after: dict[int, set[int]] = {stage: set() for stage in used}
        for a, b in self.edges:
            source, target = int(self.stage_of[a]), int(self.stage_of[b])
            if source != target and self.backward[a] == self.backward[b]:
                earlier, later = (target, source) if self.backward[a] else (source, target)
                after[later].add(earlier)
        row: list[int] = []
        while len(row) < len(used):
            # The plan's own order, where it is one.
            ready = next((s for s in used if s not in row and after[s] <= set(row)), None)
            if ready is None:
                return None
            row.append(ready)
        return row

    # -- rounds ---------------------------------------------------------------------------------------------------

    def in_rounds(self) -> Program:
        """Virtual stages, each a step of its own."""
        problem, plan = self.problem, self.plan
        nodes, forward = self._phases() if problem.gpipe else self._pieces()
        used = sorted(set(nodes.stage))
        rank = {stage: place for place, stage in enumerate(used)}
        mine = {stage: [n for n, s in enumerate(nodes.stage) if s == stage] for stage in used}
        steps = []
        for node, stage in enumerate(nodes.stage):
            worth, first, last = self.evaluation.stages[stage], node == mine[stage][0], node == mine[stage][-1]
            held = self._held(worth) if problem.training else 0.0
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
        hops, edges, messages = self._transfers(nodes, nodes.stage, len(nodes.stage))
        places = [self._place(stage) for stage in used] + self._links()
        steps += [Step(len(used) + hop.link, -1, "=", TRANSFER, hop.time, outward=hop.outward) for hop in hops]
        for stage in used:
            worth, own = self.evaluation.stages[stage], len(plan.stages[stage].devices)
            if worth.synchronisation > 0:
                place, sort = rank[stage], SYNC
                if not self._in_turn:
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
            microbatches=self.microbatches,
            messages=[replace(m, links=tuple(len(used) + link for link in m.links)) for m in messages],
            interval=self.request.interval,
            contention=self.request.contention,
            schedule="forward" if not problem.training else "rounds",
            barrier=problem.gpipe,
            settles=not problem.gpipe,
            notes=self.notes,
        )

    def _pieces(self) -> tuple[Nodes, list[bool]]:
        """Virtual stages, and which of them go forward."""
        node_of = virtual_stages(self.stage_of, self.count, self.edges)
        nodes = nodes_of(self.problem, self.plan, self.stage_of, node_of, self.edges)
        ahead = set(node_of[~self.backward].tolist())
        return nodes, [node in ahead for node in range(len(nodes.stage))]

    def _phases(self) -> tuple[Nodes, list[bool]]:
        """Virtual stages of the forward part and of the backward part, which comes after all of that.

        What forward operators make belongs to the forward part, whoever reads it, and running them again to the
        backward part: every stage has a node in both.
        """
        node_of = np.zeros(len(self.stage_of), dtype=np.int64)
        used = set(self.stage_of.tolist())
        count = 0
        firsts: list[dict[int, int]] = []
        for phase in (False, True):
            mine = np.flatnonzero(self.backward == phase)
            place = {int(v): number for number, v in enumerate(mine)}
            inner = [(place[a], place[b]) for a, b in self.edges if a in place and b in place]
            first: dict[int, int] = {}
            if len(mine):
                node_of[mine] = count + virtual_stages(self.stage_of[mine], self.count, inner)
                count = int(node_of[mine].max()) + 1
            for v in mine.tolist():
                stage, node = int(self.stage_of[v]), int(node_of[v])
                first[stage] = min(first.get(stage, node), node)
            for stage in sorted(used - first.keys()):
                first[stage] = count
                count += 1
            firsts.append(first)
        ahead = min(firsts[1].values())

        def payer(source: int, stage: int, node: int) -> int:
            return node if self.backward[source] or node < ahead else firsts[0][stage]

        nodes = nodes_of(
            self.problem,
            self.plan,
            self.stage_of,
            node_of,
            self.edges,
            count=count,
            payer=payer,
            again=firsts[1],
        )
        for first in firsts:
            for stage, node in first.items():
                nodes.stage[node] = stage
        return nodes, [node < ahead for node in range(count)]

    @property
    def _in_turn(self) -> bool:
        """Whether synchronising takes the devices' time."""
        return self.problem.communication == "sum" or self.streams == "sum"

    def _held(self, worth: StageEvaluation) -> float:
        """Bytes that each device keeps of each microbatch in flight."""
        return worth.memory.activations / worth.in_flight

    # -- stages in a row ------------------------------------------------------------------------------------------

    def in_a_row(self, name: str) -> Program:
        """Forward and backward parts of every stage under a schedule."""
        problem, plan, order = self.problem, self.plan, self.order
        assert order is not None
        schedule = find_schedule(name)
        count = len(order)
        position = np.full(self.count, -1, dtype=np.int64)
        position[order] = np.arange(count)
        node_of = position[self.stage_of] + np.where(self.backward, count, 0)

        def payer(source: int, stage: int, node: int) -> int:
            """By who made it, as the objective counts it, whoever of a stage reads it first."""
            return int(position[stage]) + (count if self.backward[source] else 0)

        nodes = nodes_of(
            problem,
            plan,
            self.stage_of,
            node_of,
            self.edges,
            count=2 * count,
            payer=payer,
            again={stage: count + place for place, stage in enumerate(order)},
        )
        nodes.waits |= {(place, count + place) for place in range(count)} if problem.training else set()
        hops, edges, messages = self._transfers(nodes, [*order, *order], 2 * count)
        stages = [self._stage(place, stage, nodes, count) for place, stage in enumerate(order)]
        links = self._links()
        for place, stage in enumerate(order):
            worth, own = self.evaluation.stages[stage], len(plan.stages[stage].devices)
            if worth.synchronisation > 0 and not self._in_turn and not problem.weight_sync_per_batch:
                edges.append((place + (count if problem.training else 0), 2 * count + len(hops)))
                hops.append(Hop(len(links), worth.synchronisation * own, True))
                links.append(Place(f"synchronisation of stage {place}", instances=own))
        pipeline = StagePipeline(
            name=problem.name,
            unit=problem.unit,
            stages=tuple(stages),
            edges=tuple(edges),
            links=tuple(links),
            hops=tuple(hops),
            messages=tuple(messages),
            streams=self.streams,
            end_every=problem.schedule.microbatches,
            notes=self.notes,
        )
        request = self.request
        return staged_program(
            pipeline,
            schedule,
            self.microbatches,
            chunks=request.chunks,
            contention=request.contention,
            interval=request.interval,
        )

    def _stage(self, place: int, stage: int, nodes: Nodes, count: int) -> Stage:
        """One stage of the row with what it costs its devices."""
        problem, entry, worth = self.problem, self.plan.stages[stage], self.evaluation.stages[stage]
        order = self.order
        assert order is not None
        own = len(entry.devices)
        kind = next(kind for kind in problem.kinds if kind.name == entry.kind)
        sync = worth.synchronisation * own
        per_batch = problem.weight_sync_per_batch
        each = sync if self._in_turn and not per_batch else 0.0
        back = count + place
        forward = StageWork(nodes.time[place], nodes.incoming[place], nodes.outgoing[place])
        backward = None
        if problem.training:
            backward = StageWork(nodes.time[back] + worth.reload, nodes.incoming[back], nodes.outgoing[back])
        else:
            forward = replace(forward, time=forward.time + worth.reload)
        behind_it = sum(self.replicas[other] for other in order[place:])
        rule = Schedule(name="1f1b", microbatches=self.microbatches)
        in_flight = rule.in_flight(behind_it, own)
        if problem.schedule.name == "1f1b" and self.microbatches == problem.schedule.microbatches:
            in_flight = worth.in_flight
        batch = problem.schedule.microbatches
        total = worth.synchronisation * batch if per_batch else 0.0
        chunked = ((1.0, total),) if self.request.weight_sync == "behind" and total > 0 else ()
        base = self._place(stage)
        return Stage(
            replicas=base.replicas,
            forward=forward,
            backward=backward,
            sync_each=each,
            in_flight=in_flight,
            activation_bytes=self._held(worth),
            memory=base.memory,
            workspace=base.workspace,
            limit=base.limit,
            weight_bytes=worth.memory.weights,
            end=End(sync=total, behind=chunked) if total > 0 else End(),
            link=self._groups()[stage] if problem.groups else -1,
            capacity=_capacity(kind.transfer_time_per_unit),
        )

    # -- what both share ------------------------------------------------------------------------------------------

    def _groups(self) -> list[int]:
        group_of = self.problem.group_of()
        return [group_of.get(stage.device, 0) for stage in self.plan.stages]

    def _links(self) -> list[Place]:
        """The links of groups of devices."""
        return [
            Place(
                f"link of {group.name}",
                streams=self.streams,
                capacity=_capacity(group.transfer_time_per_unit),
            )
            for group in self.problem.groups
        ]

    def _place(self, stage: int) -> Place:
        """The devices of a stage and what they hold."""
        entry, memory = self.plan.stages[stage], self.evaluation.stages[stage].memory
        kind = next(kind for kind in self.problem.kinds if kind.name == entry.kind)
        always = {name: size for name, size in memory.parts.items() if name not in ("activations", "workspace")}
        return Place(
            name=f"stage {stage}",
            replicas=tuple((device,) for device in entry.devices),
            instances=len(entry.devices),
            streams=self.streams,
            memory=always,
            workspace=memory.workspace,
            limit=None if self.problem.streaming else memory.limit,
            capacity=_capacity(kind.transfer_time_per_unit),
        )

    def _transfers(
        self, nodes: Nodes, stage_of_node: list[int], first_hop: int
    ) -> tuple[list[Hop], list[tuple[int, int]], list[Message]]:
        """Hops over groups' links, edges between nodes and hops, and messages."""
        groups = self._groups()
        hops: list[Hop] = []
        edges: list[tuple[int, int]] = []
        out: dict[int, int] = {}
        into: dict[tuple[int, int], int] = {}
        for node, time in sorted(nodes.leaving.items()):
            out[node] = first_hop + len(hops)
            edges.append((node, out[node]))
            hops.append(Hop(groups[nodes.stage[node]], time, True))
        for (node, group), time in sorted(nodes.entering.items()):
            into[node, group] = first_hop + len(hops)
            edges.append((out[node], into[node, group]))
            hops.append(Hop(group, time, False))
        for a, b in sorted(nodes.waits | nodes.crossings.keys()):
            group = groups[stage_of_node[b]]
            crosses = group != groups[stage_of_node[a]] and (a, b) in nodes.crossings
            edges.append((into[a, group], b) if crosses else (a, b))
        messages = []
        latency = {kind.name: kind.transfer_latency for kind in self.problem.kinds}
        for (a, b), crossing in sorted(nodes.crossings.items()):
            ends = stage_of_node[a], stage_of_node[b]
            passed = (groups[ends[0]], groups[ends[1]])
            links = passed if self.problem.groups and passed[0] != passed[1] else ()
            each = max(latency[self.plan.stages[s].kind] for s in ends)
            messages.append(Message(a, b, crossing.size, crossing.count * each, links))
        return hops, edges, messages


def _capacity(time_per_unit: float) -> float:
    """Units of size per unit of time; infinite where moving costs nothing."""
    return 1 / time_per_unit if time_per_unit > 0 else math.inf
