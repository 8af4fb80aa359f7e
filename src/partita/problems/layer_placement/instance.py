"""A layer placement problem as arrays: what bounds and searches compute with."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.search.incumbent import Incumbent
from partita.problems.layer_placement.evaluate import evaluate, plan_of
from partita.problems.layer_placement.network import largest_flow
from partita.problems.layer_placement.pace import capped
from partita.problems.layer_placement.problem import SINK, SOURCE, LayerPlacement, LayerPlacementProblem


class LayerInstance:
    """The machines M, numbered as in the problem, and the numbers of layers 0 … K that one may hold.

    Attributes
    ----------
    layers
        Of the model.
    link
        (M + 2, M + 2) tokens per second from row to column, 0 where there is no link; source M, sink M + 1.
    rate
        (M, K + 1) tokens per second that machines pass with so many layers, but no more than their links bring or take
        away; 0 where they hold no such number.
    first_rate, last_rate
        (M, K + 1) the same of those that hold the first layer, or the last.
    most
        No more flows, whoever holds what: what leaves the source, and what the sink takes.
    """

    def __init__(self, problem: LayerPlacementProblem) -> None:
        self.problem, self.layers = problem, problem.layers
        #: What no placement passes more than: of tokens served, caches hold requests for some time at least.
        tables = capped(problem) if problem.worth == "served" else problem
        self.names = [machine.name for machine in problem.machines]
        self.count = len(self.names)
        number = {name: place for place, name in enumerate((*self.names, SOURCE, SINK))}
        self.link: Floats = np.zeros((self.count + 2, self.count + 2))
        for one in problem.links:
            self.link[number[one.source], number[one.target]] = one.tokens_per_s
        widest = max(min(problem.layers, machine.most_layers) for machine in problem.machines)
        # Sums of links are rounded: no bound is to be smaller for it.
        passed = np.minimum(self.link.sum(axis=0), self.link.sum(axis=1))[: self.count] * (1 + 1e-12)

        def table(first: int) -> Floats:
            """Of intervals from a layer on; from a negative one, to the last."""
            found: Floats = np.zeros((self.count, widest + 1))
            for place, machine in enumerate(tables.machines):
                for k in machine.tokens_per_s:
                    if k <= widest:
                        low = first if first >= 0 else self.layers - k
                        # One that holds all is at both ends, wherever it begins.
                        found[place, k] = machine.passes(low, low + k, self.layers) or 0.0
            capped: Floats = np.minimum(found, passed[:, None])
            return capped

        self.rate: Floats = np.zeros((self.count, widest + 1))
        for place, machine in enumerate(tables.machines):
            for k, rate in machine.tokens_per_s.items():
                if k <= widest:
                    self.rate[place, k] = rate
        self.rate = np.minimum(self.rate, passed[:, None])
        self.first_rate, self.last_rate = table(0), table(-1)
        self.most = float(min(self.link[self.count].sum(), self.link[:, self.count + 1].sum())) * (1 + 1e-12)

    @functools.cached_property
    def kinds(self) -> list[list[int]]:
        """Machines that pass the same, together."""
        found: dict[bytes, list[int]] = {}
        for place in range(self.count):
            tables = (self.rate[place], self.first_rate[place], self.last_rate[place])
            found.setdefault(b"".join(table.tobytes() for table in tables), []).append(place)
        return list(found.values())

    def rates(self, place: int, *, first: bool, last: bool) -> Floats:
        """(K + 1,) of a machine, by whether it holds the first layer, and the last."""
        found: Floats = self.rate[place]
        if first:
            found = np.minimum(found, self.first_rate[place])
        if last:
            found = np.minimum(found, self.last_rate[place])
        return found

    def alone(self, flow: float) -> Ints:
        """(M,) the most layers with which each machine passes a flow by itself; 0 where it does not."""
        sizes = np.arange(self.rate.shape[1])
        found: Ints = np.where(self.rate >= flow, sizes, 0).max(axis=1).astype(np.int32)
        return found

    def components(self, width: float, among: Iterable[int]) -> list[list[int]]:
        """Machines among some by components of the links that carry so much, in either direction."""
        wide = self.link[: self.count, : self.count] >= width
        wide |= wide.T
        left, found = set(among), []
        while left:
            pending = [min(left)]
            left -= {pending[0]}
            part = []
            while pending:
                place = pending.pop()
                part.append(place)
                near = [other for other in np.flatnonzero(wide[place]).tolist() if other in left]
                left.difference_update(near)
                pending += near
            found.append(sorted(part))
        return found

    def part(self, members: Collection[int]) -> LayerPlacementProblem:
        """The problem on some of the machines alone."""
        names = {self.names[i] for i in members} | {SOURCE, SINK}
        return self.problem.replace(
            machines=tuple(self.problem.machines[i] for i in sorted(members)),
            links=tuple(one for one in self.problem.links if one.source in names and one.target in names),
            published=None,
        )

    def flow(self, held: Mapping[int, tuple[int, int]]) -> float:
        """The largest flow of intervals by machine."""
        return float(largest_flow(self.problem, self._named(held)).worth)

    def plan(self, held: Mapping[int, tuple[int, int]]) -> LayerPlacement:
        """The plan of intervals by machine, with a largest flow."""
        return plan_of(self.problem, self._named(held))

    def offer(self, best: Incumbent[LayerPlacement], held: Mapping[int, tuple[int, int]], by: str) -> float:
        """Offer a plan of intervals, without those that tables say nothing of at their ends of the model; its worth."""
        machines = self.problem.machines
        held = {i: layers for i, layers in held.items() if machines[i].passes(*layers, self.layers) is not None}
        if self.problem.worth == "served":
            plan = self.plan(held)
            served = evaluate(self.problem, plan)
            if served.feasible:
                best.offer(served.objective, plan, by)
            return served.tokens_per_s
        flow = self.flow(held)
        if flow > 0 and 1.0 / flow < best.value:
            best.offer(1.0 / flow, self.plan(held), by)
        return flow

    def _named(self, held: Mapping[int, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        return {self.names[place]: layers for place, layers in held.items()}
