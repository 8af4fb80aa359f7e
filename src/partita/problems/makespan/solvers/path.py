"""The search for the shortest path over separators and devices, whose arcs are solved as they are needed.

Lower ends of the arcs make a bound, upper ends a schedule. Source of the idea to evaluate only edges of the shortest
path by lower estimates: lazy shortest path search (Dellin and Srinivasa, "A unifying formalism for shortest path
problems with expensive edge evaluations via lazy best-first search over paths with edge selectors", 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import numpy as np

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import lowered
from partita.problems.makespan.chain_path import Lengths, lengths, rows_of
from partita.problems.makespan.local_search import offer, search
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.protocol import Options
from partita.problems.makespan.schedules import left_shifted
from partita.problems.makespan.separators import Chain
from partita.problems.makespan.solvers.arcs import FIRST_S, Arc, Arcs

#: Rounds of annealing of the whole problem after an arc that stayed open.
_ROUNDS = 4
#: Sums of bounds may round up by less than this.


class ShortestPath:
    """One search; what it finds goes to the incumbent."""

    def __init__(self, chain: Chain, best: Incumbent[Schedule], options: Options, monitor: Monitor) -> None:
        self.chain, self.best, self.options, self.monitor = chain, best, options, monitor
        self.arcs, self.rows = Arcs(chain, best.stop), rows_of(chain)
        self.joined = math.inf

    def close(self) -> None:
        """Solve arcs until the path is proven, the run is over, or every arc that matters is solved."""
        if not self._look():
            return
        turns = 0
        while not (self.best.done or self.monitor.stopping):
            low = self._lower()
            if math.isinf(low.total):
                self.best.refute("separators")
                return
            self.best.prove(lowered(low.total), "separators")
            self._join()
            waiting = [(arc, step) for step in low.path() if (arc := self._arc(*step)).open]
            if self.best.done or not waiting:
                # What is shortest is known; if it is no schedule, blocks are coupled.
                break
            # The least tried ones first, of these those of which least is known; each once, wherever it stands.
            waiting.sort(key=lambda entry: (entry[0].patience_s, entry[0].low - entry[0].high))
            chosen = list({id(arc): (arc, step) for arc, step in reversed(waiting)}.values())[::-1]
            chosen = chosen[: self.options.threads]
            share = msgspec.structs.replace(self.options, threads=max(1, self.options.threads // len(chosen)))
            left = self.monitor.remaining_s
            self._all(partial(arc.prove, self._cut(low, *step), self._stop, left, share) for arc, step in chosen)
            if all(arc.patience_s > 2 * FIRST_S and arc.open for arc, _ in chosen):
                turns += 1
                search(self.chain.instance, self.best, seed=self.options.seed + turns, rounds=_ROUNDS)
        known = self.arcs.known.values()
        self.best.counters |= {"arcs": len(known), "arcs_solved": sum(arc.patience_s > FIRST_S for arc in known)}

    def _stop(self) -> bool:
        return self.best.done

    def _arc(self, number: int, i: int, j: int) -> Arc:
        """Of a block, by the places of its ends in their rows."""
        return self.arcs.arc(number, self.rows[number][i], self.rows[number + 1][j])

    def _cut(self, low: Lengths, number: int, i: int, j: int) -> float:
        """What an arc must stay below to be part of a schedule better than the best."""
        return self.best.value - low.besides(number, i, j)

    def _lower(self) -> Lengths:
        return lengths(self.chain, self.rows, lambda k, a, b: self.arcs.arc(k, a, b).low)

    def _look(self) -> bool:
        """Simple bounds of all arcs, and a first schedule of those that may matter; false if told to stop."""
        for k in range(len(self.chain.blocks)):
            for i in range(len(self.rows[k])):
                for j in range(len(self.rows[k + 1])):
                    self._arc(k, i, j)
                    if self.best.done:
                        return False
        low = self._lower()
        steps = ((k, i, j) for k, table in enumerate(low.steps) for i, j in np.ndindex(*table.shape))
        near = {
            id(arc := self._arc(*step)): arc for step in steps if low.steps[step[0]][step[1:]] <= self._cut(low, *step)
        }
        self._all(partial(arc.search, self.options.seed, self._stop) for arc in near.values())
        return not self.best.done

    def _all(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run jobs that do not touch each other, on as many threads as there may be."""
        with ThreadPoolExecutor(max(1, self.options.threads)) as pool:
            running = [pool.submit(job) for job in jobs]
            try:
                for job in running:
                    job.result()
            except BaseException:
                # The others look at the stop button.
                self.best.end()
                raise

    def _join(self) -> None:
        """The schedule of the shortest path by the upper ends, if it is new."""
        high = lengths(self.chain, self.rows, lambda k, a, b: self.arcs.arc(k, a, b).high)
        if not high.total < min(self.joined, self.best.value):
            return
        self.joined = high.total
        instance = self.chain.instance
        device, start = [0] * instance.count, [0.0] * instance.count
        flow_start = [0.0] * len(instance.problem.flows)
        offset = 0.0
        for k, i, j in high.path():
            arc, block = self._arc(k, i, j), self.chain.blocks[k]
            plan = arc.best.answer
            if plan is None:
                return
            for v, op in zip(block.operators, arc.instance.problem.operators, strict=True):
                if v != block.entry:
                    placed = plan.operators[op.id]
                    device[v], start[v] = placed.device, offset + placed.start
            moved = [f for _, _, f in block.edges if f >= 0]
            for f, flow in zip(moved, arc.instance.problem.flows, strict=True):
                if flow.id in plan.flows:
                    flow_start[f] = offset + plan.flows[flow.id].start
            offset += arc.high
            if block.exit >= 0:
                start[block.exit] = offset
                offset += float(instance.arrays.time[block.exit, device[block.exit]])
        offer(instance, self.best, left_shifted(instance, device, start, flow_start), "separators")
