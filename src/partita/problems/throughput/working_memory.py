"""Peak working memory: what a stage holds for tensors while its operators run one after another.

A stage S that runs its operators in an order π holds a tensor from the first to the last operator of S that makes or
reads it: what comes from elsewhere arrives just before its first use, and what only others read is sent at once. While
v runs, its workspace is held as well. peak(S, π) is the largest sum, peak(S) the least over all orders that run makers
before readers.

*Monotone.* Take v out of S and out of the best order of S: no tensor's span grows and no other operator's need, so
peak(S − v) ≤ peak(S). Every bound on a part of S, such as the largest need of a single operator, is one on S.

*Running at once.* Let I be the operators that have run, f(I) what is held between operators then, and v one that can
run within the limit with f(I + v) ≤ f(I). Then some order from I that stays within the limit, if there is one, runs v
next: move v to the front. For a later u, with J ⊇ I run before it, tensors that u touches cannot end while u waits, so
v only adds among them; the rest of v's change to what is held is thus at most 0, and, f restricted to tensors being
submodular, not more with J than with I. So no operator needs more than it did.

Sources: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), eq. 2; the rule of
running at once is folklore of scheduling for memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.graph_arrays import csr, graph_of
from partita.ground.dags import ranks, topological_order
from partita.ground.errors import InputError
from partita.ground.rounding import lowered, raised
from partita.problems.throughput.problem import ThroughputProblem

if TYPE_CHECKING:
    from partita.engines.kernels.throughput.working_memory import PeakArrays, PeakScratch
    from partita.nouns.pipeline import Plan

#: Most states of one search for an order.
NODES = 4000
#: Limits tried for one set.
_PROBES = 24


@dataclass(frozen=True)
class Ordered:
    """An order of a set of operators (ids, or places where a ``PeakTable`` gives it), and the bytes held at most in it.

    No order needs less than ``lower``, which equals ``peak`` where the order is proven best.
    """

    operators: tuple[int, ...]
    peak: float
    lower: float


def peak_of_order(problem: ThroughputProblem, operators: Sequence[int]) -> float:
    """Most bytes held while these operators (ids) run in turn; see the module."""
    place = {identity: number for number, identity in enumerate(operators)}
    change = np.zeros(len(operators) + 1)
    for tensor in problem.tensors:
        pins = [place[v] for v in (tensor.producer, *tensor.consumers) if v in place]
        if pins:
            change[min(pins)] += tensor.size
            change[max(pins) + 1] -= tensor.size
    held = np.cumsum(change[:-1])
    for op in problem.operators:
        if op.id in place:
            held[place[op.id]] += op.workspace_bytes
    return float(held.max(initial=0.0))


def order_violation(problem: ThroughputProblem, operators: Sequence[int]) -> tuple[int, int] | None:
    """A maker and its reader that runs before it, None if there are none."""
    place = {identity: number for number, identity in enumerate(operators)}
    pairs = ((tensor.producer, reader) for tensor in problem.tensors for reader in tensor.consumers)
    return next((pair for pair in pairs if place.get(pair[1], math.inf) < place.get(pair[0], -1)), None)


class PeakTable:
    """Orders of sets of a problem's operators, each searched for once in at most so many states (``nodes``).

    Without a problem there are no operators, for searches in which memory depends on no order.

    Not for several threads at a time.
    """

    def __init__(self, problem: ThroughputProblem | None, nodes: int = NODES) -> None:
        self.nodes = nodes
        operators = () if problem is None else problem.operators
        tensors = () if problem is None else problem.tensors
        self.place_of = place_of = {op.id: place for place, op in enumerate(operators)}
        n = len(operators)
        touched: list[list[int]] = [[] for _ in range(n)]
        readers: list[set[int]] = [set() for _ in range(n)]
        for number, tensor in enumerate(tensors):
            maker, pins = place_of[tensor.producer], [place_of[v] for v in tensor.consumers]
            readers[maker].update(pins)
            for pin in (maker, *pins):
                touched[pin].append(number)
        self.size = np.array([tensor.size for tensor in tensors], dtype=np.float64)
        self.scratch = np.array([op.workspace_bytes for op in operators], dtype=np.float64)
        edges = [(u, v) for u, row in enumerate(readers) for v in sorted(row)]
        self._touched, self._graph = csr(touched), graph_of(edges, n)
        #: What each operator needs by itself.
        self.own = self.scratch + np.array([sum(self.size[t] for t in row) for row in touched], dtype=np.float64)
        #: No set needs more than this.
        self.most = float(self.size.sum() + self.scratch.max(initial=0.0))
        #: Place of every operator in a topological order.
        self.rank = ranks(topological_order(n, edges))
        self._found: dict[bytes, Ordered] = {}

    @functools.cached_property
    def _workspace(self) -> PeakScratch:
        from partita.engines.kernels.throughput.working_memory import peak_scratch

        n = len(self.own)
        return peak_scratch(n, len(self.size), max(self.nodes, 2 * n))

    def arrays(self, items: Sequence[Sequence[int]] = (), *, backwards: bool = False) -> PeakArrays:
        """The kernels' input; ``items`` are sets of places that run in turn, listed back to front if ``backwards``.

        With ``backwards`` what comes first is what runs last: for makers and readers, too.
        """
        from partita.engines.kernels.throughput.working_memory import PeakArrays

        sign = -1 if backwards else 1
        item_ptr, item_ops = csr([sorted(row, key=lambda v: sign * int(self.rank[v])) for row in items])
        graph = self._graph.turned() if backwards else self._graph
        return PeakArrays(graph, *self._touched, self.size, self.scratch, item_ptr, item_ops)

    def order(self, places: Ints, hint: Sequence[int] | None = None) -> Ordered:
        """The best order found for a set of operators (places, any order); the same again if asked again.

        It is at least as good as the ``hint``, an order of them that is possible.
        """
        from partita.engines.kernels.throughput.working_memory import peak_along

        places = np.sort(places).astype(np.int32)
        key = places.tobytes()
        if key not in self._found:
            self._found[key] = self._search(places)
        known = self._found[key]
        if hint is not None and known.peak > known.lower:
            x = self._workspace
            x.order[: len(hint)] = hint
            peak = float(peak_along(self.arrays(), x, len(hint)))
            if peak < known.peak:
                known = self._found[key] = Ordered(tuple(int(v) for v in hint), peak, known.lower)
        return known

    def order_of(self, operators: Sequence[int], *, possible: bool = False) -> Ordered:
        """As ``order`` by ids; with ``possible`` the operators are given in an order that is."""
        places = [self.place_of[v] for v in operators]
        found = self.order(np.array(places, dtype=np.int32), places if possible else None)
        ids = list(self.place_of)
        return replace(found, operators=tuple(ids[v] for v in found.operators))

    def known(self, places: Ints) -> Ordered:
        """As ``order`` for a set that was asked for before; any thread may ask."""
        return self._found[np.sort(places).astype(np.int32).tobytes()]

    def _search(self, places: Ints) -> Ordered:
        """Greedy from either end, then limits between what is found and what is proven."""
        from partita.engines.kernels.throughput.working_memory import FITS, OVER, fit, peak_along

        x, count = self._workspace, len(places)
        ends = [self.arrays(), self.arrays(backwards=True)]
        nodes = max(self.nodes, 2 * count)
        # Rounding: what is not possible below this is not possible by more than it.
        lower = float(self.own[places].max(initial=0.0))
        best: tuple[tuple[int, ...], float] = ((), np.inf)

        def attempt(limit: float) -> int:
            nonlocal best
            answer = OVER
            for step, k in zip((1, -1), ends, strict=True):
                x.members[:count] = places
                answer = int(fit(k, x, count, limit, nodes))
                peak = float(peak_along(k, x, count)) if answer == FITS else np.inf
                if peak < best[1]:
                    best = (tuple(x.order[:count][::step].tolist()), peak)
                if answer == OVER or (answer == FITS and np.isfinite(limit)):
                    break
            return answer

        attempt(np.inf)
        undecided = lower
        for probe in range(_PROBES):
            if best[1] <= raised(lower):
                break
            close = probe % 2 == 1 or undecided > 0.99 * best[1]
            limit = lowered(best[1]) if close else (max(lower, undecided) + best[1]) / 2
            answer = attempt(limit)
            if answer == OVER:
                lower = best[1] if close else limit
            elif answer != FITS:
                undecided = max(undecided, limit)
                if close:
                    break
        lower = min(lower, best[1])
        return Ordered(best[0], best[1], lower)


def best_order(problem: ThroughputProblem, operators: Sequence[int], nodes: int = NODES) -> Ordered:
    """The best order found for a set of operators (ids): proven best on small sets, otherwise with a lower bound.

    ``nodes`` is the most states of each search. An unknown id is an ``InputError``.
    """
    table = PeakTable(problem, nodes)
    unknown = next((identity for identity in operators if identity not in table.place_of), None)
    if unknown is not None:
        raise InputError(f"problem {problem.name!r} has no operator {unknown}")
    return table.order_of(operators)


def ordered_plan(problem: ThroughputProblem, plan: Plan) -> Plan:
    """The plan with the operators of every stage in the best order found; the plan itself if memory needs no order."""
    if problem.working_memory != "peak":
        return plan
    table = PeakTable(problem)
    stages = []
    for stage in plan.stages:
        if any(v not in table.place_of for v in stage.operators) or len(set(stage.operators)) < len(stage.operators):
            return plan  # the evaluator says what is wrong
        found = table.order_of(stage.operators, possible=order_violation(problem, stage.operators) is None)
        stages.append(msgspec.structs.replace(stage, operators=found.operators))
    return msgspec.structs.replace(plan, stages=tuple(stages))
