"""The best time through a chain of blocks between separators: the strongest bound where models are rows of blocks.

Source: own. Let s and t be neighbouring separators of a relaxed problem (``relaxation``). If one piece holds both, it
holds all between them, because pieces are convex. If s and t are apart, let A be the piece of s and B that of t (or
either on the CPU). In the block between, A holds a predecessor-closed set X and B what is left of another, I ⊇ X. Every
operator of I without X comes after s and before t, and is in neither: it starts when A is done, and B starts when it is
done. So the latency is a sum along the chain: what A pays for s and X, the longest path between, what B pays for what
it reads. Pieces in I without X take at least what a path pays: a path of operators enters a piece and leaves it, and
pays for the tensor both times; an operator outside pieces takes its time on the CPU. With pieces used and memory left
in the open piece as the state, the least sum over all choices is a lower bound. It is the optimum where nothing was
left out and nothing is between in the best choice.

Memory counts per piece, and all pieces of all accelerators are counted together, which relaxes both limits; colocation
is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import rounded_down
from partita.problems.kind import BoundMethod
from partita.problems.latency.bounds.relaxation import RelaxedChain, chain_of, spine_of
from partita.problems.latency.bounds.side_tensors import side_times
from partita.problems.latency.bounds.ways import BlockWays, Ways, block_ways
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.view import View

#: Operators of the spine that others may pass by, and ideals of a block, of the attempts, cheap ones first.
ATTEMPTS = ((1, 1_000), (12, 1_000), (math.inf, 1_000), (12, 20_000), (math.inf, 20_000))


class ChainBound(BoundMethod[LatencyProblem]):
    """The best over some relaxations."""

    name = "chain"
    summary = "best time through the blocks between separators, memory of every piece included; ignores colocation"
    argument = "a dynamic program found the best way through a chain of blocks that every plan passes"

    def bound(self, problem: LatencyProblem, monitor: Monitor) -> Bound:
        value = chain_bound(View(problem), lambda: monitor.stopping)
        return Bound(value, self.name, self.scope, monitor.elapsed_s)


def chain_bound(view: View, stopping: Callable[[], bool]) -> float:
    """The bound; 0 where there was no time."""
    a = view.arrays
    best = 0.0
    spine = spine_of(view, np.minimum(a.cpu, a.acc))
    complete = False
    for span, most in ATTEMPTS:
        if stopping() or (complete and span == math.inf):
            break
        chain = chain_of(view, spine, span)
        found = _through(view, chain, most, stopping)
        if found is not None:
            best = max(best, found[0])
            complete = found[1] and span == math.inf
    return lowered(view, best)


def lowered(view: View, value: float) -> float:
    """A sum along a path, in which every operator and every tensor has part twice at most."""
    return rounded_down(value, value, 4 * view.count)


def _through(
    view: View, chain: RelaxedChain, most_ideals: int, stopping: Callable[[], bool]
) -> tuple[float, bool] | None:
    """The least time through a chain, and whether no block was too large; None if it was stopped."""
    acc = view.arrays.acc + side_times(view, chain)
    state = _Reached(view, acc, chain.separators[0])
    whole = True
    for number, inside in enumerate(chain.blocks):
        if stopping():
            return None
        ends = chain.separators[number], chain.separators[number + 1]
        block = block_ways(view, acc, ends, inside, chain.after, most_ideals)
        if block is None:
            # Left with the spine alone, a block has few closed sets. Times stay: what was charged was so with all.
            whole = False
            spine = [v for v in inside if v in chain.spine]
            block = block_ways(view, acc, ends, spine, chain.after, most_ideals)
        if block is None:
            block = block_ways(view, acc, ends, (), chain.after, most_ideals)
        if block is None:
            return None
        state = state.next(block, ends[1])
    return state.least, whole


class _Reached:
    """Least times when a separator's work is done, by pieces used."""

    def __init__(self, view: View, acc: Floats, first: int | None) -> None:
        self.view, self.acc = view, acc
        self.limit, self.most = float(view.arrays.limit[0]), view.slots
        self.on_cpu = np.full(self.most + 1, np.inf)  #: With the separator on the CPU.
        none = np.zeros(0)
        #: With it in a piece: times, falling, and the memory of that piece, rising.
        self.open: list[tuple[Floats, Floats]] = [(none, none)] * (self.most + 1)
        if first is not None:
            self.on_cpu[0] = view.arrays.cpu[first]
            if self.most and view.arrays.mem[first] <= self.limit and acc[first] < np.inf:
                self.open[1] = np.array([acc[first]]), np.array([view.arrays.mem[first]])

    @property
    def least(self) -> float:
        """The least time of all."""
        return float(min(self.on_cpu.min(), *(times.min() for times, _ in self.open if len(times)), np.inf))

    def next(self, block: BlockWays, target: int) -> _Reached:
        """The state at the next separator."""
        cpu, acc, mem = (float(x[target]) for x in (self.view.arrays.cpu, self.acc, self.view.arrays.mem))
        following = _Reached(self.view, self.acc, None)
        found: list[list[tuple[Floats, Floats]]] = [[] for _ in range(self.most + 1)]
        for used in range(self.most + 1):
            times, held = self.open[used]
            begin = self.on_cpu[used]
            if len(times):
                inside = held + block.memory + mem
                found[used].append((times + block.work + acc, inside))
                self._closed(times, held, block.closing, used, following.on_cpu, cpu)
                before = _least_within(times, held, self.limit - block.both.joins)
                self._opened(before, block.both, used, found, acc, mem)
            if begin < np.inf:
                for way_pieces in (0, 1):
                    chosen = block.neither.pieces == way_pieces
                    if used + way_pieces <= self.most and chosen.any():
                        value = begin + block.neither.cost[chosen].min() + cpu
                        following.on_cpu[used + way_pieces] = min(following.on_cpu[used + way_pieces], value)
                self._opened(np.full(len(block.opening.cost), begin), block.opening, used, found, acc, mem)
        following.open = [_front(rows, self.limit) for rows in found]
        return following

    def _closed(self, times: Floats, held: Floats, ways: Ways, used: int, on_cpu: Floats, cpu: float) -> None:
        """Close the open piece; the next separator is on the CPU."""
        values = _least_within(times, held, self.limit - ways.joins) + ways.cost + cpu
        for pieces in (0, 1):
            chosen = ways.pieces == pieces
            if used + pieces <= self.most and chosen.any():
                on_cpu[used + pieces] = min(on_cpu[used + pieces], values[chosen].min())

    def _opened(
        self, before: Floats, ways: Ways, used: int, found: list[list[tuple[Floats, Floats]]], acc: float, mem: float
    ) -> None:
        """Open a piece with the next separator."""
        for pieces in (0, 1):
            if used + 1 + pieces <= self.most:
                chosen = ways.pieces == pieces
                found[used + 1 + pieces].append((before[chosen] + ways.cost[chosen] + acc, ways.begins[chosen] + mem))


def _least_within(times: Floats, held: Floats, room: Floats) -> Floats:
    """The least time among those with at most so much memory, infinite for none; of a front."""
    at = np.searchsorted(held, room, side="right") - 1
    return np.where(at >= 0, times[np.maximum(at, 0)], np.inf)


def _front(rows: list[tuple[Floats, Floats]], limit: float) -> tuple[Floats, Floats]:
    """Of times and memories those within the limit that no other one is as good as in both."""
    if not rows:
        return np.zeros(0), np.zeros(0)
    times, held = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
    fits = (held <= limit) & (times < np.inf)
    times, held = times[fits], held[fits]
    order = np.lexsort((times, held))
    times, held = times[order], held[order]
    if not len(times):
        return times, held
    least = np.minimum.accumulate(times)
    better = np.concatenate([[True], least[1:] < least[:-1]])
    return times[better], held[better]
