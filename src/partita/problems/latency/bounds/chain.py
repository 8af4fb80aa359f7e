"""The best time through a chain of blocks between separators: the strongest bound where models are chains of blocks.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.latency.blocks import block_options
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.fronts import front
from partita.ground.rounding import rounded_down
from partita.problems.kind import BoundMethod
from partita.problems.latency.bounds.relaxation import RelaxedChain, chain_of, side_times, spine_of
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.view import View

#: Blocks have at most so many operators, so that sets of them are bits of a number.
MOST_OPERATORS = 60
#: Operators of the spine that others may pass by, and ideals of a block, of the attempts, cheap ones first.
ATTEMPTS = ((1, 1_000), (12, 1_000), (math.inf, 1_000), (12, 20_000), (math.inf, 20_000))


@dataclass(frozen=True)
class Ways:
    """Some ways through a block."""

    #: Time from the end of the work before the block until the work after it may begin, work inside included.
    cost: Floats
    pieces: Longs  #: Pieces between, of which there are that many at least.
    #: Memory of what joins the piece before, and of what is in the piece after.
    joins: Floats
    begins: Floats


@dataclass(frozen=True)
class BlockWays:
    """All ways through a block, by where the separators before and after it are."""

    #: Both in pieces, but not in one; only the one after; only the one before; both on the CPU.
    both: Ways
    opening: Ways
    closing: Ways
    neither: Ways
    #: Of all operators of the block on one accelerator.
    work: float
    memory: float


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
        # Left with the spine alone, a block has few closed sets. Times stay: what was charged was so with all.
        for some in (inside, [v for v in inside if v in chain.spine], ()):
            block = block_ways(view, acc, ends, some, chain.after, most_ideals)
            if block is not None:
                break
            whole = False
        assert block is not None
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

        def step(before: Floats | float, ways: Ways, used: int, opens: bool) -> None:
            """Reach the next separator by all ways through the block, which opens a piece with it or is on the CPU."""
            for pieces in (0, 1):
                chosen, after = ways.pieces == pieces, used + opens + pieces
                if after > self.most or not (opens or chosen.any()):
                    continue
                times = np.broadcast_to(before, chosen.shape)[chosen] + ways.cost[chosen]
                if opens:
                    found[after].append((times + acc, ways.begins[chosen] + mem))
                else:
                    following.on_cpu[after] = min(following.on_cpu[after], (times + cpu).min())

        for used in range(self.most + 1):
            times, held = self.open[used]
            if len(times):
                found[used].append((times + block.work + acc, held + block.memory + mem))
                step(_least_within(times, held, self.limit - block.closing.joins), block.closing, used, False)
                step(_least_within(times, held, self.limit - block.both.joins), block.both, used, True)
            if self.on_cpu[used] < np.inf:
                step(self.on_cpu[used], block.neither, used, False)
                step(self.on_cpu[used], block.opening, used, True)
        following.open = [_front(rows, self.limit) for rows in found]
        return following


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
    best = front(held, times)
    return times[best], held[best]


def block_ways(
    view: View,
    acc: Floats,
    ends: tuple[int, int],
    inside: Sequence[int],
    after: Sequence[Sequence[int]],
    most_ideals: int,
) -> BlockWays | None:
    """The ways through the operators between two separators; None if it has too many predecessor-closed sets.

    ``acc`` are the times on an accelerator.
    """
    a, n = view.arrays, len(inside)
    if n > MOST_OPERATORS:
        return None
    source, target = ends
    bit = {v: i for i, v in enumerate(inside)} | {target: n}
    reads = [sum(1 << bit[w] for w in after[v] if w in bit) for v in inside]
    first = sum(1 << bit[w] for w in after[source] if w in bit)
    # Bit n of ``before`` is the separator before the block, of ``reads`` the one after it.
    before = np.array(
        [sum(1 << u for u in range(n) if reads[u] >> v & 1) | (first >> v & 1) << n for v in range(n)], np.int64
    )
    ideals = np.zeros(1, np.int64)
    for v in range(n):
        needed = before[v] & ~np.int64(1 << n)
        ready = ideals[(ideals & needed) == needed]
        ideals = np.concatenate([ideals, ready | np.int64(1 << v)])
        if len(ideals) > most_ideals:
            return None
    cut = np.where((first & ~ideals) != 0, a.comm[source], 0.0)
    work, rest, memory, others = (np.zeros(len(ideals)) for _ in range(4))
    for i, v in enumerate(inside):
        has = (ideals >> i & 1) == 1
        cut += np.where(has & ((reads[i] & ~ideals) != 0), a.comm[v], 0.0)
        work += np.where(has, acc[v], 0.0)
        rest += np.where(has, 0.0, acc[v])
        # Both are sums of what is there: a difference would keep the rounding of what is not, however large that is.
        memory += np.where(has, a.mem[v], 0.0)
        others += np.where(has, 0.0, a.mem[v])
    full = int(np.argmax(ideals))
    whole, never, always = _allowed(view, ends, inside, ideals)
    numbers = list(inside)
    order = np.argsort(memory, kind="stable")
    comm = np.append(a.comm[numbers], a.comm[source])
    readers = np.array(reads, np.int64)

    def ways(out: Floats, into: Floats) -> Ways:
        cost, pieces, joins, begins = block_options(
            ideals, order, out, into, work, rest, a.cpu[numbers], acc[numbers], comm, before, readers
        )
        return Ways(cost, pieces, memory[joins], others[begins])

    return BlockWays(
        ways(cut + whole, cut + whole),
        ways(never, cut + whole),
        ways(cut + whole, always),
        ways(never, always),
        float(work[full]),
        float(memory[full]),
    )


def _allowed(view: View, ends: tuple[int, int], inside: Sequence[int], ideals: Longs) -> tuple[Floats, Floats, Floats]:
    """By ideal, 0 where it may be X or I, and infinite elsewhere; then as X, and as I, beside an end on the CPU.

    Classes are in one piece, or on the CPU, where accelerators have one piece each: X and I then part no class. A
    member of the class of an end goes with it.
    """
    whole, never, always = (np.zeros(len(ideals)) for _ in range(3))
    never[np.arange(len(ideals)) != 0] = np.inf
    always[np.arange(len(ideals)) != int(np.argmax(ideals))] = np.inf
    if view.passes > 1 or view.problem.pieces > 1:
        return whole, never, always
    of = view.arrays.group.of
    source, target = (of[v] for v in ends)
    for number in dict.fromkeys(of[list(inside)].tolist()):
        mask = sum(1 << i for i, v in enumerate(inside) if of[v] == number)
        held = ideals & mask
        parted = (held != mask) & ((held != 0) | (number == source)) | (held != 0) & (number == target)
        whole[parted] = np.inf
    if source == target:
        whole[:] = np.inf
    return whole, never, always
