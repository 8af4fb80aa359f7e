"""Proven optimal splits of a row of units: a dynamic program from its end to its begin.

A stage is a run of units. From the last stage to the first, the number of devices to the end is known, and with it the
memory of a stage. For every first unit and numbers of devices used of each kind, the least of the largest loads is
kept; all stages have equally many replicas, so that their number is tried one by one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import rounded_down, up_to
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver
from partita.problems.throughput.solvers.exact import MOST_CODES
from partita.problems.throughput.solvers.row_costs import RowCosts, Runs
from partita.problems.throughput.variants import refuse_variants


class RowCuts(Solver):
    """Exact solver of rows."""

    name = "row"
    summary = "rows of units with proof: the best runs by a dynamic program; for problems with a row only"
    argument = "a dynamic program went through every way to cut the row"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        if problem.row is None:
            return "it cuts a row of units, and the problem has none; use the solver 'exact'"
        if options.contiguity != "acyclic":
            return "it makes contiguous splits only; leave --contiguity free out"
        counts = [kind.count + 1 for kind in problem.kinds]
        if math.prod(counts) > MOST_CODES:
            return f"{self.name} counts used devices by kind, and there are too many kinds with too many devices"
        return refuse_variants(problem, ("row", "overlap", "gpipe", "replicas"))

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Try every number of replicas; without proof if it is stopped."""
        costs = RowCosts(problem)
        best: tuple[float, Plan] | None = None
        for replicas in range(1, problem.max_replicas + 1):
            counts = [kind.count // replicas for kind in problem.kinds]
            if not any(counts):
                break
            program = _Program(problem, costs, replicas, counts, monitor)
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


#: A stage: its first unit, the first one behind it, and its kind.
_Run = tuple[int, int, int]


@dataclass
class _Program:
    """The dynamic program of one number of replicas."""

    problem: ThroughputProblem
    costs: RowCosts
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
        row = self.problem.row
        assert row is not None
        # Kinds that cannot run what comes later.
        late = {k for k, kind in enumerate(self.problem.kinds) if row.hosts_first and not kind.accelerator}
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
        return self._row(float(value[used][0]), used, choice)

    def _row(
        self, reached: float, used: tuple[int, ...], choice: dict[tuple[tuple[int, ...], int], tuple[int, int]]
    ) -> tuple[float, float, list[_Run]]:
        """The runs of an answer, and their largest forward load."""
        first, found, forward = 0, [], -math.inf
        while first < self.costs.units:
            end, kind = choice[used, first]
            forward = max(forward, float(self._loads(self.costs.runs(first), kind)[0][end - first - 1]))
            found.append((first, end, kind))
            used, first = (*used[:kind], used[kind] - 1, *used[kind + 1 :]), end
        return reached, forward, found

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
            found: Floats = np.maximum(each, synchronised) if overlap else each + synchronised
            return found

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
        if self.costs.instance.recompute:
            held = held + runs.active + in_flight * runs.entering
        else:
            held = held + in_flight * runs.active
        found: Bools = held <= up_to(limit)
        return found

    def _plan(self, runs: list[_Run]) -> Plan:
        """The plan of the runs; stages take the devices of a kind one after the other."""
        row = self.problem.row
        assert row is not None
        taken = [0] * len(self.counts)
        stages = []
        for first, end, kind in runs:
            name = self.problem.kinds[kind].name
            names = tuple(f"{name}:{taken[kind] + number}" for number in range(self.replicas))
            taken[kind] += self.replicas
            stages.append(
                Stage(
                    kind=name,
                    devices=names,
                    operators=tuple(identity for unit in row.units[first:end] for identity in unit),
                    data_parallel=self.replicas,
                )
            )
        return Plan(stages=tuple(stages))
