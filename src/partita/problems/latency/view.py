"""A latency problem as arrays, and the way back to a plan."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.graph_arrays import graph_of, lists, partition_of
from partita.engines.kernels.latency.arrays import LatencyArrays
from partita.ground.dags import directed_graph, ranks
from partita.ground.rounding import up_to
from partita.problems.latency.plan import LatencyPlan, homes
from partita.problems.latency.problem import LatencyProblem


class View:
    """A problem whose operators are numbered in topological order."""

    def __init__(self, problem: LatencyProblem) -> None:
        self.problem = problem
        #: Place in the problem of every operator, and the number of the operator at every place.
        self.place = problem.order()
        rank = ranks(self.place)
        self.number: list[int] = rank.tolist()
        graph = graph_of(sorted((self.number[u], self.number[v]) for u, v in problem.links()), len(self.place))
        #: The operators that each reads, and that read it.
        self.before, self.after = lists(graph.pred_ptr, graph.pred), lists(graph.succ_ptr, graph.succ)
        of = np.array(problem.classes())[self.place]
        group = partition_of(of, int(of.max()) + 1)
        self.classes = lists(group.ptr, group.members)  #: The operators of every colocation class.
        ops = [problem.operators[p] for p in self.place]
        self.passes = 2 if problem.training else 1
        single = len({op.backward for op in ops}) == 1
        acc = [np.inf if op.accelerator_time is None else op.accelerator_time for op in ops]

        def floats(values: Iterable[float]) -> Floats:
            return np.array(list(values), np.float64)

        self.arrays = LatencyArrays(
            graph=graph,
            group=group,
            cpu=floats(op.cpu_time for op in ops),
            acc=floats(acc),
            comm=floats(op.transfer_time if row else 0.0 for op, row in zip(ops, self.after, strict=True)),
            mem=floats(op.memory_bytes for op in ops),
            part=np.array([0 if single else int(op.backward) for op in ops], np.int32),
            shape=np.array([problem.accelerators, self.passes, problem.pieces], np.int32),
            limit=np.array([up_to(problem.limit_bytes)]),
        )

    @property
    def count(self) -> int:
        """Operators."""
        return len(self.place)

    @cached_property
    def barred(self) -> list[bool]:
        """By class, whether it runs on no accelerator: a class is on one device, so what one cannot, none can."""
        a, limit = self.arrays, float(self.arrays.limit[0])
        return [any(a.acc[v] == np.inf for v in row) or sum(map(float, a.mem[row])) > limit for row in self.classes]

    @property
    def slots(self) -> int:
        """Places for pieces; the number itself stands for the CPU."""
        return self.problem.accelerators * self.passes * self.problem.pieces

    def merged(self) -> tuple[list[list[int]], set[tuple[int, int]]]:
        """Classes in groups that depend on each other both ways, and which group is read by which.

        Only forward operators make edges; backward ones follow their class (NeurIPS 2020, Appendices E and F).
        """
        import rustworkx

        of, part = self.arrays.group.of.tolist(), self.arrays.part
        links = ((u, v) for v in range(self.count) for u in self.before[v] if part[u] == 0 and part[v] == 0)
        edges = {(of[u], of[v]) for u, v in links if of[u] != of[v]}
        graph = directed_graph(len(self.classes), sorted(edges))
        groups = [sorted(one) for one in rustworkx.strongly_connected_components(graph)]
        home = {number: i for i, one in enumerate(groups) for number in one}
        return groups, {(home[x], home[y]) for x, y in edges if home[x] != home[y]}

    def plan(self, slot: Ints) -> LatencyPlan:
        """The plan of a placement; empty pieces are left out."""
        each = self.passes * self.problem.pieces
        rows: list[list[tuple[int, ...]]] = [[] for _ in range(self.problem.accelerators)]
        held: dict[int, list[int]] = {}
        for v, s in enumerate(slot.tolist()):
            if s < self.slots:
                held.setdefault(s, []).append(self.problem.operators[self.place[v]].id)
        for s in sorted(held):
            rows[s // each].append(tuple(held[s]))
        return LatencyPlan(accelerators=tuple(tuple(row) for row in rows))

    def slot(self, plan: LatencyPlan) -> Ints:
        """The placement of a plan that keeps every limit, pieces of the backward part after those of the forward part.

        That order may not be the plan's; the caller looks at what it is worth.
        """
        home = homes(self.problem, plan)
        each, pieces = self.passes * self.problem.pieces, self.problem.pieces
        part = {self.problem.operators[p].id: int(self.arrays.part[v]) for v, p in enumerate(self.place)}
        number: dict[tuple[int, int], int] = {}
        for device, row in enumerate(plan.accelerators):
            counts = [0, 0]
            for i, piece in enumerate(row):
                which = part[piece[0]]
                number[device, i] = device * each + which * pieces + counts[which]
                counts[which] += 1
        slot = np.full(self.count, self.slots, np.int32)
        for v, p in enumerate(self.place):
            key = home.get(self.problem.operators[p].id)
            if key is not None:
                slot[v] = number[key]
        return slot
