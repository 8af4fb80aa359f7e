"""Which entries of block tables to take so that all fits: the program of ``solvers.priced``, and its schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import MixedProgram
from partita.problems.makespan.bounds.priced import PricedChain
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import left_shifted


@dataclass(frozen=True)
class Entry:
    """A block, a way of its table, and the devices of its ends, also by their places in their rows."""

    number: int
    way: int
    i: int
    j: int
    source: int
    target: int


@dataclass(frozen=True)
class Loose:
    """What is in no entry: its size, the devices that can have it, and what it costs there."""

    size: float
    able: Sequence[int]
    costs: Sequence[float]
    whole: bool  #: Whether it is on one of them.


def loose_of(chain: PricedChain) -> Iterator[Loose]:
    """What the tables of a chain say nothing of, for nothing."""
    for able, size, whole in chain.loose():
        yield Loose(size, able, [0.0] * len(able), whole)


def planned_of(chain: PricedChain, later: Floats) -> Iterator[Loose]:
    """What is left out of a chain, at (classes left out, devices) costs; the rest is in schedules of blocks."""
    for able, size, costs in zip(chain.out_able, chain.out_sizes.tolist(), later, strict=True):
        where = np.flatnonzero(able & np.isfinite(costs))
        yield Loose(size, where.tolist(), costs[where].tolist(), True)


def length(chain: PricedChain, entry: Entry) -> float:
    """What an entry takes at least, with its first end."""
    found = chain.table(entry.number).at(entry.way, entry.source, entry.target)
    if entry.source >= 0:
        found += float(chain.chain.instance.arrays.time[chain.chain.blocks[entry.number].entry, entry.source])
    return found


def held_at_least(chain: PricedChain, entry: Entry) -> Floats:
    """(D,) What the heavy ones of an entry and its first end hold."""
    own: Floats = chain.table(entry.number).held[entry.way].copy()
    if entry.source >= 0:
        own[entry.source] += chain.chain.instance.arrays.memory[chain.chain.blocks[entry.number].entry]
    return own


def held_by_schedule(chain: PricedChain, entry: Entry) -> Floats | None:
    """(D,) What all of an entry holds but its last end, by its schedule; None without one."""
    piece, block = chain.piece(entry.number, entry.way, entry.source, entry.target), chain.chain.blocks[entry.number]
    if piece is None:
        return None
    mine = [k for k, v in enumerate(block.operators) if v != block.exit]
    memory = chain.chain.instance.arrays.memory[[block.operators[k] for k in mine]]
    return np.bincount([piece.device[k] for k in mine], memory, chain.whole.devices).astype(np.float64)


def entries_program(
    chain: PricedChain, entries: Sequence[Entry], held: Sequence[Floats], loose: Iterable[Loose]
) -> tuple[MixedProgram, list[list[int]]]:
    """The shortest path of some entries, which hold so much, that fits; first a variable for each of them.

    And the variables of what is loose, by the devices that can have it.
    """
    model, rows = MixedProgram(), chain.chain.rows
    nodes: list[list[list[tuple[int, float]]]] = [[[] for _ in row] for row in rows]
    full: list[list[tuple[int, float]]] = [[] for _ in range(chain.whole.devices)]
    for entry, own in zip(entries, held, strict=True):
        x = model.add_binary(length(chain, entry))
        nodes[entry.number][entry.i].append((x, 1.0))
        nodes[entry.number + 1][entry.j].append((x, -1.0))
        for d in np.flatnonzero(own).tolist():
            full[d].append((x, float(own[d])))
    for row in nodes[1:-1]:
        for terms in row:
            model.add_row(terms, 0.0, 0.0)
    model.add_row(nodes[0][0], 1.0, 1.0)
    placed = []
    for part in loose:
        found = []
        for d, cost in zip(part.able, part.costs, strict=True):
            y = model.add_binary(cost) if part.whole else model.add_continuous(upper=1.0, cost=cost)
            found.append(y)
            full[d].append((y, part.size))
        model.add_row([(y, 1.0) for y in found], 1.0, 1.0)
        placed.append(found)
    for d in np.flatnonzero(chain.limited).tolist():
        # As shares of what there is.
        scale = float(chain.limit[d]) or 1.0
        model.add_row([(x, size / scale) for x, size in full[d]], upper=float(chain.limit[d]) / scale)
    return model, placed


def joined(chain: PricedChain, entries: Iterable[Entry]) -> MakespanPlan | None:
    """The schedule of blocks one after the other; None if one of them has none."""
    instance = chain.chain.instance
    device, start = [0] * instance.count, [0.0] * instance.count
    flow_start = [0.0] * len(instance.problem.flows)
    offset = 0.0
    for entry in entries:
        block = chain.chain.blocks[entry.number]
        piece = chain.piece(entry.number, entry.way, entry.source, entry.target)
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
