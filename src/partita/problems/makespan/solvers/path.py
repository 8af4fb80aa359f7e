"""The search for the shortest path over separators and devices, whose arcs are solved as they are needed.

Lower ends of the arcs make a bound, upper ends a schedule. Source of the idea to evaluate only edges of the shortest
path by lower estimates: lazy shortest path search (Dellin and Srinivasa, "A unifying formalism for shortest path
problems with expensive edge evaluations via lazy best-first search over paths with edge selectors", 2016).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import lowered
from partita.problems.makespan.bounds.chain import BlockBounds
from partita.problems.makespan.bounds.energetic import destructive_bound
from partita.problems.makespan.bounds.multipliers import multiplier_bound
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import offer, search
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import left_shifted
from partita.problems.makespan.separators import Block, Chain, ChainPaths
from partita.problems.makespan.solvers.program import prove_by_program

#: Rounds of annealing of the whole problem after an arc that stayed open.
_ROUNDS = 4
#: Rounds of annealing of a block at first, and before CP-SAT is asked.
_FIRST, _MORE = 2, 8
#: Steps in which everything is tried, while that is enough.
_STEPS = 200_000
#: Seconds of the first attempt at a block, and how much longer each further one is.
_FIRST_S, _LONGER = 1.5, 2.0


class Arc:
    """A block between two devices: ``best`` is what is known of that."""

    def __init__(self, block: Block, source: int, target: int, least: float, stop: Longs) -> None:
        self.block, self.source, self.target = block, source, target
        self.best: Incumbent[MakespanPlan] = Incumbent()
        # One button stops the whole run.
        self.best.stop = stop
        self.patience_s = _FIRST_S  #: Seconds that the next attempt may take.
        self.empty = not block.members
        self.searched = self.bounded = self.ended = False
        self.small = not self.empty
        if math.isinf(least):
            self.best.refute("devices of classes")
        else:
            self.best.prove(least, "simple bounds")

    @cached_property
    def instance(self) -> MakespanInstance:
        """Its problem."""
        return self.block.at(self.source, self.target)

    @property
    def low(self) -> float:
        """What its makespan is at least."""
        return self.best.bound

    @property
    def high(self) -> float:
        """What its makespan is at most."""
        return self.best.value

    @property
    def open(self) -> bool:
        """Whether more can be found out.

        A makespan that CP-SAT has proven to be the best is, up to the rounding of its numbers, all there is to know.
        """
        return not (self.ended or self.best.closed)

    def search(self, seed: int, stop: Callable[[], bool]) -> None:
        """A first schedule, once."""
        if self.searched or not self.open or stop():
            return
        self.searched = True
        search(self.instance, self.best, seed=seed, rounds=0 if self.empty else _FIRST)
        if self.empty and self.best.answer is not None:
            # All its flows go from one device to another: one after the other, or at once, there is no choice.
            self.best.prove(self.best.value, "one way")

    def prove(self, cut: float, stop: Callable[[], bool], left_s: float, options: MakespanOptions) -> None:
        """Find out more: by trying everything, or where that is too much by annealing, the first time, and CP-SAT.

        Makespans above ``cut`` do not matter.
        """
        low, high = self.low, self.high
        if self.small:
            self.small = try_everything(self.instance, self.best, steps=_STEPS, most=max(cut, 0.0))
            self.ended = self.small and (self.low, self.high) == (low, high)
            if self.small or stop():
                return
        if not (self.bounded or self.empty):
            self.bounded = True
            clock = Monitor(left_s if math.isfinite(left_s) else None)
            self.best.prove(destructive_bound(self.instance, self.low, clock), "energetic")
            self.best.prove(multiplier_bound(self.instance, clock), "multipliers")
            if self.open and not stop():
                search(self.instance, self.best, seed=options.seed + 1, rounds=_MORE)
            if not self.open or stop() or self.low > cut:
                return
        low, high = self.low, self.high
        done = prove_by_program(
            self.instance,
            self.best,
            lambda: stop() or self.best.closed,
            time_s=min(self.patience_s, left_s),
            options=options,
            horizon=None if math.isinf(cut) else max(cut, 0.0),
        )
        self.patience_s *= _LONGER
        # Without one within the cut only that is known, and another place may have a larger cut. But where nothing came
        # of it, as where all that is best fails by rounding, nothing comes of it again.
        self.ended = done and (self.high <= cut or (self.low, self.high) == (low, high))


class ShortestPath:
    """One search; what it finds goes to the incumbent."""

    def __init__(self, chain: Chain, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor) -> None:
        self.chain, self.best, self.options, self.monitor = chain, best, options, monitor
        self.arcs: dict[tuple[int, int, int], Arc] = {}
        self._bounds = cache(lambda number: BlockBounds(chain.blocks[number]))
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
            waiting = [(arc, step) for step in low.path() if (arc := self._at(*step)).open]
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
            if all(arc.patience_s > 2 * _FIRST_S and arc.open for arc, _ in chosen):
                turns += 1
                search(self.chain.instance, self.best, seed=self.options.seed + turns, rounds=_ROUNDS)
        known = self.arcs.values()
        self.best.counters |= {"arcs": len(known), "arcs_solved": sum(arc.patience_s > _FIRST_S for arc in known)}

    def _stop(self) -> bool:
        return self.best.done

    def _arc(self, number: int, source: int, target: int) -> Arc:
        """A block's, equal ones once; −1 for a device where it has no such end."""
        key = self.chain.alike[number], source, target
        if key not in self.arcs:
            least = self._bounds(key[0]).bound(source, target)
            self.arcs[key] = Arc(self.chain.blocks[number], source, target, least, self.best.stop)
        return self.arcs[key]

    def _at(self, number: int, i: int, j: int) -> Arc:
        """Of a block, by the places of its ends in their rows."""
        return self._arc(number, self.chain.rows[number][i], self.chain.rows[number + 1][j])

    def _cut(self, low: ChainPaths, number: int, i: int, j: int) -> float:
        """What an arc must stay below to be part of a schedule better than the best."""
        return self.best.value - low.besides(number, i, j)

    def _lower(self) -> ChainPaths:
        return self.chain.paths(lambda *arc: self._arc(*arc).low)

    def _look(self) -> bool:
        """Simple bounds of all arcs, and a first schedule of those that may matter; false if told to stop."""
        for k, ends in enumerate(itertools.pairwise(self.chain.rows)):
            for source, target in itertools.product(*ends):
                self._arc(k, source, target)
                if self.best.done:
                    return False
        low = self._lower()
        steps = ((k, i, j) for k, table in enumerate(low.steps) for i, j in np.ndindex(*table.shape))
        near = {
            id(arc := self._at(*step)): arc for step in steps if low.steps[step[0]][step[1:]] <= self._cut(low, *step)
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
        high = self.chain.paths(lambda *arc: self._arc(*arc).high)
        if not high.total < min(self.joined, self.best.value):
            return
        self.joined = high.total
        instance = self.chain.instance
        device, start = [0] * instance.count, [0.0] * instance.count
        flow_start = [0.0] * len(instance.problem.flows)
        offset = 0.0
        for k, i, j in high.path():
            arc, block = self._at(k, i, j), self.chain.blocks[k]
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
