"""A latency problem as arrays, and the way back to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from partita.dags import ranks
from partita.kernels.latency.arrays import Floats, Ints, LatencyArrays
from partita.problems.latency.plan import LatencyPlan, homes, readers_of
from partita.problems.latency.problem import LatencyProblem
from partita.units import up_to


def csr(rows: Sequence[Iterable[int]]) -> tuple[Ints, Ints]:
    """Rows of numbers end to end, with where each begins."""
    lists = [list(row) for row in rows]
    ptr = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(row) for row in lists], out=ptr[1:])
    return ptr, np.array([x for row in lists for x in row], np.int32)


class View:
    """A problem whose operators are numbered in topological order.

    Attributes
    ----------
    arrays
        For the kernels.
    place, number
        Place in the problem of every operator, and the number of the operator at every place.
    before, after
        The operators that each reads, and that read it.
    classes
        The operators of every colocation class.
    """

    def __init__(self, problem: LatencyProblem) -> None:
        self.problem = problem
        self.place = problem.order()
        rank = ranks(self.place)
        self.number: list[int] = rank.tolist()
        before, after = readers_of(problem)
        self.before = [sorted(int(rank[u]) for u in before[p]) for p in self.place]
        self.after = [sorted(int(rank[u]) for u in after[p]) for p in self.place]
        of = problem.classes()
        class_of = [of[p] for p in self.place]
        self.classes: list[list[int]] = [[] for _ in range(max(of) + 1)]
        for v, number in enumerate(class_of):
            self.classes[number].append(v)
        ops = [problem.operators[p] for p in self.place]
        self.passes = 2 if problem.training else 1
        single = len({op.backward for op in ops}) == 1
        acc = [np.inf if op.accelerator_time is None else op.accelerator_time for op in ops]

        def floats(values: Iterable[float]) -> Floats:
            return np.array(list(values), np.float64)

        pred_ptr, preds = csr(self.before)
        succ_ptr, succs = csr(self.after)
        class_ptr, members = csr(self.classes)
        self.arrays = LatencyArrays(
            cpu=floats(op.cpu_time for op in ops),
            acc=floats(acc),
            comm=floats(op.transfer_time if row else 0.0 for op, row in zip(ops, self.after, strict=True)),
            mem=floats(op.memory_bytes for op in ops),
            part=np.array([0 if single else int(op.backward) for op in ops], np.int32),
            class_of=np.array(class_of, np.int32),
            class_ptr=class_ptr,
            members=members,
            pred_ptr=pred_ptr,
            preds=preds,
            succ_ptr=succ_ptr,
            succs=succs,
            shape=np.array([problem.accelerators, self.passes, problem.pieces], np.int32),
            limit=np.array([up_to(problem.limit_bytes)]),
        )

    @property
    def count(self) -> int:
        """Operators."""
        return len(self.place)

    @property
    def slots(self) -> int:
        """Places for pieces; the number itself stands for the CPU."""
        return self.problem.accelerators * self.passes * self.problem.pieces

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
