"""A throughput plan with what running it needs, in rounds or in a row: devices, links, what nodes hand on."""

from __future__ import annotations

import copy
import math

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.model import PER_DEVICE
from partita.problems.facets.timeline import RunRequest
from partita.problems.throughput.evaluate import preferred_order
from partita.problems.throughput.evaluation import Evaluation, StageEvaluation
from partita.problems.throughput.nodes import Nodes
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.virtual_stages import edges_of, stage_of_operators
from partita.simulator.pipeline import Hop
from partita.simulator.program import Message, Place, Streams


class Run:
    """A plan and how it is asked to run.

    Attributes
    ----------
    order
        Its stages in a row; None if they wait for each other in a circle.
    usual_microbatches
        Of a batch, where nothing else is asked for: the same for every plan of the problem.
    streams
        What transfers take of a device: what is fetched again delays them, too, so that they cannot hide behind it.
    in_turn
        Whether synchronising takes the devices' time.

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
        self.request = RunRequest()
        self.stage_of = stage_of_operators(problem, plan)
        self.edges = edges_of(problem)
        self.backward = np.array([op.backward for op in problem.operators], dtype=bool)
        self.used: list[int] = np.unique(self.stage_of).tolist()
        self.order = self._in_a_row()
        self.groups = problem.stage_groups(plan)
        given = problem.schedule.microbatches
        self.usual_microbatches = given if given > 1 else PER_DEVICE * problem.device_count
        self.usual_schedule = "gpipe" if problem.gpipe else "1f1b" if problem.training else "forward"
        self.microbatches = self.usual_microbatches
        reloads = any(stage.reload > 0 for stage in evaluation.stages)
        self.streams: Streams = "sum" if reloads else problem.communication
        self.in_turn = self.streams == "sum"
        self.notes: tuple[str, ...] = ()
        if reloads and problem.communication != "sum":
            self.notes = ("What does not fit into memory is fetched one after the other with transfers and work.",)

    def asked(self, request: RunRequest) -> Run:
        """The same as it is asked to run."""
        found = copy.copy(self)
        found.request = request
        found.microbatches = self.usual_microbatches if request.microbatches is None else request.microbatches
        return found

    def _in_a_row(self) -> list[int] | None:
        """Stages in an order in which forward work goes on and backward work back; None if there is none.

        The plan's own order, where it is one.
        """
        pairs = set()
        for a, b in self.edges:
            if self.backward[a] == self.backward[b]:
                ends = int(self.stage_of[a]), int(self.stage_of[b])
                pairs.add(ends[::-1] if self.backward[a] else ends)
        return preferred_order(self.used, pairs)

    def held(self, worth: StageEvaluation) -> float:
        """Bytes that each device keeps of each microbatch in flight."""
        return worth.memory.activations / worth.in_flight

    def links(self) -> list[Place]:
        """The links of groups of devices."""
        return [
            Place(f"link of {group.name}", streams=self.streams, capacity=capacity_of(group.transfer_time_per_unit))
            for group in self.problem.groups
        ]

    def place(self, stage: int) -> Place:
        """The devices of a stage and what they hold."""
        entry, memory = self.plan.stages[stage], self.evaluation.stages[stage].memory
        always = {name: size for name, size in memory.parts.items() if name not in ("activations", "workspace")}
        return Place(
            name=f"stage {stage}",
            replicas=tuple((device,) for device in entry.devices),
            instances=len(entry.devices),
            streams=self.streams,
            memory=always,
            workspace=memory.workspace,
            limit=None if self.problem.streaming else memory.limit,
            capacity=capacity_of(self.problem.kind_named(entry.kind).transfer_time_per_unit),
        )

    def transfers(
        self, nodes: Nodes, stage_of_node: list[int], first_hop: int
    ) -> tuple[list[Hop], list[tuple[int, int]], list[Message]]:
        """Hops over groups' links, edges between nodes and hops, and messages."""
        group = [self.groups[stage] for stage in stage_of_node]
        hops: list[Hop] = []
        edges: list[tuple[int, int]] = []
        out: dict[int, int] = {}
        into: dict[tuple[int, int], int] = {}
        for node, time in sorted(nodes.leaving.items()):
            out[node] = first_hop + len(hops)
            edges.append((node, out[node]))
            hops.append(Hop(self.groups[nodes.stage[node]], time, True))
        for (node, entered), time in sorted(nodes.entering.items()):
            into[node, entered] = first_hop + len(hops)
            edges.append((out[node], into[node, entered]))
            hops.append(Hop(entered, time, False))
        for a, b in sorted(nodes.waits | nodes.crossings.keys()):
            crosses = group[b] != group[a] and (a, b) in nodes.crossings
            edges.append((into[a, group[b]], b) if crosses else (a, b))
        messages = []
        for (a, b), crossing in sorted(nodes.crossings.items()):
            links = (group[a], group[b]) if self.problem.groups and group[a] != group[b] else ()
            kinds = [self.problem.kind_named(self.plan.stages[stage_of_node[node]].kind) for node in (a, b)]
            latency = crossing.count * max(kind.transfer_latency for kind in kinds)
            messages.append(Message(a, b, crossing.size, latency, links))
        return hops, edges, messages


def capacity_of(time_per_unit: float) -> float:
    """Units of size per unit of time; infinite where moving costs nothing."""
    return 1 / time_per_unit if time_per_unit > 0 else math.inf
