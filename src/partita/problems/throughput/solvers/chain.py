"""Proven optimal splits of a chain of units: a dynamic program from its end to its begin.

A stage is a run of units. From the last stage to the first, the number of devices to the end is known, and with it the
memory of a stage. For every first unit and numbers of devices used of each kind, the least of the largest loads is
kept; all stages have equally many replicas, so that their number is tried one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.graph_arrays import Sets
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import rounded_down, up_to
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.contiguity import colocated, colocation_classes, order_pairs
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem, UnitChain
from partita.problems.throughput.protocol import Outcome, Solver, ThroughputOptions
from partita.problems.throughput.solvers.exact import MOST_CODES
from partita.problems.throughput.variants import refuse_variants


class ChainCuts(Solver):
    """Exact solver of chains."""

    name = "row"
    summary = "chains of units with proof: the best runs by a dynamic program; for problems with a chain only"
    argument = "a dynamic program went through every way to cut the chain"

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        if problem.row is None:
            return "it cuts a chain of units, and the problem has none; use the solver 'exact'"
        if options.contiguity != "acyclic":
            return "it makes contiguous splits only; leave --contiguity free out"
        counts = [kind.count + 1 for kind in problem.kinds]
        if math.prod(counts) > MOST_CODES:
            return f"{self.name} counts used devices by kind, and there are too many kinds with too many devices"
        return refuse_variants(problem, ("row", "overlap", "gpipe", "replicas"))

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        """Try every number of replicas; without proof if it is stopped."""
        assert problem.row is not None
        costs = ChainCosts(problem, problem.row)
        best: tuple[float, Plan] | None = None
        for replicas in range(1, problem.max_replicas + 1):
            counts = [kind.count // replicas for kind in problem.kinds]
            if not any(counts):
                break
            program = _Program(problem, problem.row, costs, replicas, counts, monitor)
            found = program.best(math.inf if best is None else best[0])
            if program.stopped:
                return Outcome(plan=None if best is None else best[1])
            if found is not None and (best is None or found[0] < best[0]):
                best = found
                monitor.report(objective=best[0])
        if best is None:
            return Outcome(plan=None, infeasible=True)
        # Loads are sums over operators and tensors; with gpipe, forward work is a difference of such.
        terms = len(problem.operators) + len(problem.tensors)
        return Outcome(plan=best[1], bound=rounded_down(best[0], 3 * best[0], terms))


class Runs(NamedTuple):
    """Runs from one first unit, by their number of units less one, over k device kinds."""

    #: (k, runs) all of it, and the part of the backward phase.
    work: Floats
    backward_work: Floats
    transfers: Floats
    backward_transfers: Floats
    #: (runs,) bytes held once, held for every microbatch in flight, of forward tensors that enter, needed while it
    #: runs, and of what replicas exchange.
    fixed: Floats
    active: Floats
    entering: Floats
    workspace: Floats
    synchronised: Floats


class ChainCosts:
    """The chain of a problem, as arrays over its ``units``, which is their number, in order.

    ``next_cut`` (units,) is, by the first unit of a stage, the least unit at which the next stage may begin; the end is
    always one. ``cuts`` (units + 1,) tells whether a stage may begin there; the end counts.
    """

    def __init__(self, problem: ThroughputProblem, chain: UnitChain) -> None:
        self.units = len(chain.units)
        unit_of = {identity: number for number, unit in enumerate(chain.units) for identity in unit}
        units = np.array([unit_of[op.id] for op in problem.operators])
        self.instance = build_instance(colocated(problem.replace(row=None), units), free=True)
        place = np.empty(self.units, dtype=np.int64)
        place[self.instance.group] = units
        self.item = np.argsort(place)
        self._nets = _sorted_pins(place, self.instance.net)
        self._covers = _sorted_pins(place, self.instance.cover)
        source = self.instance.net_source
        self._source = np.where(source >= 0, place[source], -1)
        self.cuts = np.ones(self.units + 1, dtype=bool)
        classes = colocation_classes(problem)
        pairs = units[order_pairs(problem, classes)]
        back = [(int(b), int(a)) for a, b in pairs if b < a]
        # Where something is handed back, or must share a device, nothing between may be cut.
        spans = [units[classes == number] for number in range(int(classes.max()) + 1)]
        for first, last in [*back, *((int(span.min()), int(span.max())) for span in spans)]:
            self.cuts[first + 1 : last + 1] = False
        self.next_cut = np.arange(1, self.units + 1)
        for first, last in chain.handed:
            # With a cut between the two, the next one comes behind the second.
            within = slice(first + 1, last + 1)
            self.next_cut[within] = np.maximum(self.next_cut[within], last + 1)

    def runs(self, first: int) -> Runs:
        """What the runs from a unit on cost."""
        i, item = self.instance, self.item[first:]

        def summed(values: Floats) -> Floats:
            return np.cumsum(values[item], axis=0)

        cut, crossing = self._cut_nets(first)
        held = self._held(first, self._covers)
        return Runs(
            work=summed(i.work).T,
            backward_work=summed(i.work_backward).T,
            transfers=(cut @ i.net_cost).T,
            backward_transfers=(cut @ i.net_backward).T,
            fixed=summed(i.fixed) + held @ i.cover_fixed,
            active=summed(i.active) + held @ i.cover_active,
            entering=crossing @ i.net_entering,
            workspace=np.maximum.accumulate(i.workspace[item]),
            synchronised=summed(i.sync) + held @ i.cover_sync,
        )

    def _held(self, first: int, pins: Sequence[Longs]) -> Floats:
        """(runs, sets) 1 where a run has one of a set of units."""
        found = np.zeros((self.units - first, len(pins)))
        for number, places in enumerate(pins):
            nearest = places[np.searchsorted(places, first) :]
            if len(nearest):
                found[nearest[0] - first :, number] = 1.0
        return found

    def _cut_nets(self, first: int) -> tuple[Floats, Floats]:
        """(runs, nets) 1 for nets with a pin inside and one outside, and for those whose source is outside."""
        cut = self._held(first, self._nets)
        crossing = cut.copy()
        for number, places in enumerate(self._nets):
            if places[0] >= first:
                cut[places[-1] - first :, number] = 0.0
            source = self._source[number]
            if source < 0:
                crossing[:, number] = 0.0
            elif source >= first:
                crossing[source - first :, number] = 0.0
        return cut, crossing


def _sorted_pins(place: Longs, sets: Sets) -> list[Longs]:
    """Units of every set, ascending."""
    return [np.sort(place[sets.members(row)]) for row in range(len(sets.ptr) - 1)]


#: A stage: its first unit, the first one behind it, and its kind.
_Run = tuple[int, int, int]


@dataclass
class _Program:
    """The dynamic program of one number of replicas."""

    problem: ThroughputProblem
    chain: UnitChain
    costs: ChainCosts
    replicas: int
    counts: list[int]
    monitor: Monitor
    stopped: bool = False

    def best(self, below: float) -> tuple[float, Plan] | None:
        """The best plan with an objective under ``below``; None if there is none."""
        if not self.problem.gpipe:
            found = self._cut(math.inf)
            return None if found is None or found[0] >= below else (found[0], self._plan(found[2]))
        # Largest forward and backward loads add up: each cap on the former gives the least of the latter, and the next
        # cap is just under what that plan has.
        answer: tuple[float, Plan] | None = None
        cap = math.inf
        while (found := self._cut(cap)) is not None:
            backward, forward, runs = found
            if forward + backward < below:
                below = forward + backward
                answer = below, self._plan(runs)
            if forward <= 0:
                break
            cap = float(np.nextafter(forward, -math.inf))
        return answer

    def _cut(self, cap: float) -> tuple[float, float, list[_Run]] | None:
        """The least largest (backward) load with forward loads within a cap, the largest of these, and the runs."""
        # Kinds that cannot run what comes later.
        late = {k for k, kind in enumerate(self.problem.kinds) if self.chain.hosts_first and not kind.accelerator}
        n, shape = self.costs.units, tuple(count + 1 for count in self.counts)
        value = {used: np.full(n + 1, math.inf) for used in itertools.product(*map(range, shape))}
        choice: dict[tuple[tuple[int, ...], int], tuple[int, int]] = {}
        value[(0,) * len(shape)][n] = -math.inf
        for first in range(n - 1, -1, -1):
            if not self.costs.cuts[first] and first > 0:
                continue
            if self.monitor.stopping:
                self.stopped = True
                return None
            runs = self.costs.runs(first)
            loads = [self._loads(runs, kind) for kind in range(len(self.counts))]
            allowed = self.costs.cuts[first + 1 :].copy()
            if first > 0:
                allowed[: self.costs.next_cut[first] - first - 1] = False
            allowed[-1] = True
            for used in value:
                devices = self.replicas * sum(used)
                for kind, (forward, backward) in enumerate(loads):
                    if used[kind] == 0 or (first > 0 and kind in late):
                        continue
                    before = (*used[:kind], used[kind] - 1, *used[kind + 1 :])
                    fits = allowed & (forward <= cap) & self._fits(runs, kind, devices)
                    reached = np.where(fits, np.maximum(backward, value[before][first + 1 :]), math.inf)
                    place = int(reached.argmin())
                    if reached[place] < value[used][first]:
                        value[used][first] = reached[place]
                        choice[used, first] = first + 1 + place, kind
        used = min(value, key=lambda key: (value[key][0], sum(key), key))
        if value[used][0] == math.inf:
            return None
        least, first, found, most = float(value[used][0]), 0, [], -math.inf
        while first < self.costs.units:
            end, kind = choice[used, first]
            most = max(most, float(self._loads(self.costs.runs(first), kind)[0][end - first - 1]))
            found.append((first, end, kind))
            used, first = (*used[:kind], used[kind] - 1, *used[kind + 1 :]), end
        return least, most, found

    def _loads(self, runs: Runs, kind: int) -> tuple[Floats, Floats]:
        """Forward and backward loads of the runs on a kind; both are the load where they have no maxima of their own.

        The same as ``evaluate`` says.
        """
        problem, r = self.problem, self.replicas
        batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
        sync = (r - 1) * runs.synchronised * problem.kinds[kind].sync_time_per_byte / (r * batch)

        def load(work: Floats, transfers: Floats, synchronised: Floats | float) -> Floats:
            overlap = problem.communication != "sum"
            each = (np.maximum(work, transfers) if overlap else work + transfers) / r
            return np.maximum(each, synchronised) if overlap else each + synchronised

        if not problem.gpipe:
            whole = load(runs.work[kind], runs.transfers[kind], sync)
            return np.where(np.isfinite(whole), -math.inf, math.inf), whole
        works = np.isfinite(runs.work[kind])
        work, later = np.where(works, runs.work[kind], 0.0), np.where(works, runs.backward_work[kind], math.inf)
        ahead = np.where(works, work - np.where(works, later, 0.0), math.inf)
        forward = load(ahead, runs.transfers[kind] - runs.backward_transfers[kind], 0.0)
        return forward, load(later, runs.backward_transfers[kind], sync)

    def _fits(self, runs: Runs, kind: int, devices: int) -> Bools:
        """Whether the runs fit on a kind, with so many devices from the stage to the end."""
        limit = self.problem.kinds[kind].memory_bytes
        if limit is None:
            return np.ones(len(runs.fixed), dtype=bool)
        in_flight = self.problem.schedule.in_flight(devices, self.replicas)
        held = runs.fixed + runs.workspace
        again = self.costs.instance.recompute
        held = held + runs.active + in_flight * runs.entering if again else held + in_flight * runs.active
        return np.asarray(held <= up_to(limit))

    def _plan(self, runs: list[_Run]) -> Plan:
        """The plan of the runs; stages take the devices of a kind one after the other."""
        taken = [0] * len(self.counts)
        stages = []
        for first, end, kind in runs:
            name = self.problem.kinds[kind].name
            names = tuple(f"{name}:{taken[kind] + number}" for number in range(self.replicas))
            taken[kind] += self.replicas
            operators = tuple(itertools.chain(*self.chain.units[first:end]))
            stages.append(Stage(kind=name, devices=names, operators=operators, data_parallel=self.replicas))
        return Plan(stages=tuple(stages))
