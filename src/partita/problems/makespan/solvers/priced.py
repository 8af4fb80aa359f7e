"""Plans and bounds where memory couples blocks: prices (``partita.problems.makespan.bounds.priced``), then a program.

At the best prices the shortest path is nearly a plan, but equal blocks choose alike, so that devices hold too much or
too little. Which of the entries near to it to take, so that all fits, is a small integer program; blocks whose entries
it takes are searched through, and it is solved again until these are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import Callbacks, MixedProgram, ProgramResult
from partita.engines.mip.solve import solve_program
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.rounding import lowered
from partita.problems.makespan.bounds.priced import PricedChain
from partita.problems.makespan.local_search import search
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import left_shifted
from partita.problems.makespan.thinning import Thinned

#: Steps of ascents in prices, the entries near to which are looked up after each; entries of a program at first and
#: at most, its seconds, the gap at which it ends, and programs at most.
_STEPS, _ENTRIES, _MOST, _PROGRAM_S, _GAP, _PROGRAMS = (300, 100, 50), 1_000, 9_000, 6.0, 1e-3, 3
#: Rounds of annealing of the whole after that.
_ROUNDS = 4


@dataclass(frozen=True)
class _Entry:
    """A block, a way of its table, and the devices of its ends, also by their places in their rows."""

    number: int
    way: int
    i: int
    j: int
    source: int
    target: int


def close_priced(thinned: Thinned, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor) -> bool:
    """Prove what prices on memory prove, and offer plans made of the blocks they ask for.

    Whether that is all there is to know of the chain: prices matter, and blocks are small enough for that.
    """
    chain = PricedChain(thinned.chain, thinned.whole, thinned.left_out)
    if not chain.fill(monitor, best.stop):
        return False
    price = np.zeros(thinned.whole.devices)
    goal = best.value if math.isfinite(best.value) else 2 * chain.path(price).value
    most = _ENTRIES
    for steps in _STEPS:
        path = chain.ascend(price, goal, steps, monitor, best.stop)
        if math.isinf(path.value):
            best.refute("memory prices")
            return True
        best.prove(path.value, "memory prices")
        price = path.price
        _look_up(chain, price, most, best, monitor)
    for _ in range(_PROGRAMS):
        if best.done or monitor.stopping:
            break
        entries, near = _look_up(chain, price, most, best, monitor)
        answer = _program(chain, entries, best, options, monitor)
        # A schedule that takes another entry ends later than its path.
        best.prove(lowered(min(near, answer.bound)), "memory program")
        if answer.values is not None:
            taken = [entry for entry, value in zip(entries, answer.values, strict=False) if value > 0.5]
            plan = _joined(chain, taken)
            state = None if plan is None else thinned.put_back(plan, best)
            search(thinned.whole, best, seed=options.seed + 1, rounds=_ROUNDS, states=[] if state is None else [state])
        if answer.status is not Status.OPTIMAL or answer.bound < near or most >= _MOST:
            break
        most *= 3
    return bool(price.any()) and all(table.small for table in chain.tables.values())


def _look_up(
    chain: PricedChain, price: Floats, most: int, best: Incumbent[MakespanPlan], monitor: Monitor
) -> tuple[list[_Entry], float]:
    """About so many entries with the shortest paths through them, searched through, and how long a path of others is.

    All others have paths that are longer.
    """
    rows = chain.chain.rows
    while True:
        path = chain.path(price)
        least = [_smallest(chain.through(path, k).ravel(), most + 1) for k in range(len(rows) - 1)]
        near = float(_smallest(np.concatenate(least), most + 1).max())
        entries = [
            _Entry(k, way, i, j, rows[k][i], rows[k + 1][j])
            for k in range(len(rows) - 1)
            for way, i, j in np.argwhere(chain.through(path, k) <= near).tolist()
        ]
        new = False
        for entry in entries:
            if best.done or monitor.stopping:
                break
            new |= chain.table(entry.number).refine(entry.way, entry.source, entry.target, best.stop)
        if not new:
            break
    finite = [e for e in entries if math.isfinite(chain.table(e.number).at(e.way, e.source, e.target))]
    return finite, near


def _smallest(values: Floats, count: int) -> Floats:
    """So many of the smallest values, or all."""
    found: Floats = values if len(values) <= count else np.partition(values, count - 1)[:count]
    return found


def _program(
    chain: PricedChain,
    entries: list[_Entry],
    best: Incumbent[MakespanPlan],
    options: MakespanOptions,
    monitor: Monitor,
) -> ProgramResult:
    """The shortest path of some entries that fits: first a variable for each of them."""
    rows, memory = chain.chain.rows, chain.chain.instance.arrays.memory
    time = chain.chain.instance.arrays.time
    model = MixedProgram()
    nodes: list[list[list[tuple[int, float]]]] = [[[] for _ in row] for row in rows]
    held: list[list[tuple[int, float]]] = [[] for _ in range(chain.whole.devices)]
    for entry in entries:
        table, source = chain.table(entry.number), entry.source
        cost, own = table.at(entry.way, source, entry.target), table.held[entry.way].copy()
        if source >= 0:
            separator = chain.chain.blocks[entry.number].entry
            cost += float(time[separator, source])
            own[source] += memory[separator]
        x = model.add_binary(cost)
        nodes[entry.number][entry.i].append((x, 1.0))
        nodes[entry.number + 1][entry.j].append((x, -1.0))
        for d in np.flatnonzero(own).tolist():
            held[d].append((x, float(own[d])))
    for row in nodes[1:-1]:
        for terms in row:
            model.add_row(terms, 0.0, 0.0)
    model.add_row(nodes[0][0], 1.0, 1.0)
    for able, size, whole in chain.loose():
        terms = []
        for d in able:
            y = model.add_binary() if whole else model.add_continuous(upper=1.0)
            terms.append((y, 1.0))
            held[d].append((y, size))
        model.add_row(terms, 1.0, 1.0)
    for d in np.flatnonzero(chain.limited).tolist():
        # As shares of what there is.
        scale = float(chain.limit[d]) or 1.0
        model.add_row([(x, size / scale) for x, size in held[d]], upper=float(chain.limit[d]) / scale)
    return solve_program(
        model,
        "highs",
        time_limit_s=min(_PROGRAM_S, monitor.remaining_s),
        seed=options.seed,
        gap=_GAP,
        callbacks=Callbacks(stop=lambda: best.done),
    )


def _joined(chain: PricedChain, entries: list[_Entry]) -> MakespanPlan | None:
    """The schedule of blocks one after the other; None if one of them has none."""
    instance = chain.chain.instance
    device, start = [0] * instance.count, [0.0] * instance.count
    flow_start = [0.0] * len(instance.problem.flows)
    offset = 0.0
    for entry in entries:
        block = chain.chain.blocks[entry.number]
        piece = chain.table(entry.number).known.get((entry.way, entry.source, entry.target))
        if piece is None:
            return None
        for v, at, begun in zip(block.operators, piece.device, piece.start, strict=True):
            if v != block.entry:
                device[v], start[v] = at, offset + begun
        for f, begun in zip((f for _, _, f in block.edges if f >= 0), piece.flow_start, strict=True):
            flow_start[f] = offset + begun
        offset += piece.length
        if block.exit >= 0:
            start[block.exit] = offset
            device[block.exit] = entry.target
            offset += float(instance.arrays.time[block.exit, entry.target])
    return left_shifted(instance, device, start, flow_start)
