"""Plans and bounds where memory couples blocks: prices (``partita.problems.makespan.bounds.priced``), then a program.

At the best prices the shortest path is nearly a plan, but equal blocks choose alike, so that devices hold too much or
too little. Which of the entries near to it to take, so that all fits, is a small integer program; blocks whose entries
it takes are searched through, and it is solved again until these are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import solve_program
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import lowered
from partita.problems.makespan.bounds.priced import PricedChain, PricedPath
from partita.problems.makespan.local_search import search
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import left_shifted
from partita.problems.makespan.thinning import Thinned

#: Steps of the ascent in prices; entries of one program, its seconds, the gap at which it ends, and programs at most.
_STEPS, _ENTRIES, _PROGRAM_S, _GAP, _PROGRAMS = 400, 1_000, 5.0, 1e-3, 3
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
    if not chain.fill(lambda: best.done or monitor.stopping):
        return False
    least = chain.path(np.zeros(thinned.whole.devices)).value
    path = chain.ascend(best.value if math.isfinite(best.value) else 2 * least, _STEPS, monitor, best.stop)
    if math.isinf(path.value):
        best.refute("memory prices")
        return True
    best.prove(path.value, "memory prices")
    for _ in range(_PROGRAMS):
        if best.done or monitor.stopping:
            break
        entries = _program(chain, chain.path(path.price), best, options, monitor)
        if entries is None:
            break
        new = False
        for entry in entries:
            new |= chain.table(entry.number).refine(entry.way, entry.source, entry.target, best.stop)
        plan = _joined(chain, entries)
        if plan is not None:
            state = thinned.put_back(plan, best)
            if state is not None and not new:
                search(thinned.whole, best, seed=options.seed + 1, rounds=_ROUNDS, states=[state])
        if not new:
            break
    return bool(path.price.any()) and all(table.small for table in chain.tables.values())


def _program(
    chain: PricedChain, path: PricedPath, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor
) -> list[_Entry] | None:
    """Entries of a short path that fits; None if none was found."""
    rows, memory = chain.chain.rows, chain.chain.instance.arrays.memory
    time = chain.chain.instance.arrays.time
    every = np.sort(np.concatenate([through.ravel() for through in path.through]))
    near = float(every[: _ENTRIES + 1][-1])
    model, entries = MixedProgram(), list[_Entry]()
    nodes: list[list[list[tuple[int, float]]]] = [[[] for _ in row] for row in rows]
    held: list[list[tuple[int, float]]] = [[] for _ in range(chain.whole.devices)]
    for k, through in enumerate(path.through):
        table, block = chain.table(k), chain.chain.blocks[k]
        for way, i, j in np.argwhere(through <= near).tolist():
            source, target = rows[k][i], rows[k + 1][j]
            cost = float(table.least[way, max(source, 0), max(target, 0)])
            own = table.held[way].copy()
            if source >= 0:
                cost += float(time[block.entry, source])
                own[source] += memory[block.entry]
            if not math.isfinite(cost):
                continue
            entries.append(_Entry(k, way, i, j, source, target))
            x = model.add_binary(cost)
            nodes[k][i].append((x, 1.0))
            nodes[k + 1][j].append((x, -1.0))
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
    answer = solve_program(
        model,
        "highs",
        time_limit_s=min(_PROGRAM_S, monitor.remaining_s),
        seed=options.seed,
        gap=_GAP,
        callbacks=Callbacks(stop=lambda: best.done),
    )
    # A schedule that takes another entry ends later than its path.
    best.prove(lowered(min(near, answer.bound)), "memory program")
    if answer.values is None:
        return None
    return [entry for entry, taken in zip(entries, answer.values, strict=False) if taken > 0.5]


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
