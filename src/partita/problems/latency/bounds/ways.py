"""The ways through a block between two separators: see ``kernels.latency.blocks``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.latency.blocks import block_options
from partita.problems.latency.view import View

#: Blocks have at most so many operators, so that sets of them are bits of a number.
MOST_OPERATORS = 60


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
    joins, begins, never, always = _allowed(view, ends, inside, ideals)
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
        ways(cut + joins, cut + begins),
        ways(never, cut + begins),
        ways(cut + joins, always),
        ways(never, always),
        float(work[full]),
        float(memory[full]),
    )


def _allowed(
    view: View, ends: tuple[int, int], inside: Sequence[int], ideals: Longs
) -> tuple[Floats, Floats, Floats, Floats]:
    """By ideal, 0 where it may be X, or I, and infinite elsewhere; then the same for an end on the CPU.

    Classes are in one piece, or on the CPU, where accelerators have one piece each: X and I then part no class. A
    member of the class of an end goes with it.
    """
    joins, begins, never, always = (np.zeros(len(ideals)) for _ in range(4))
    never[np.arange(len(ideals)) != 0] = np.inf
    always[np.arange(len(ideals)) != int(np.argmax(ideals))] = np.inf
    if view.passes > 1 or view.problem.pieces > 1:
        return joins, begins, never, always
    bits: dict[int, int] = {}
    for i, v in enumerate(inside):
        number = int(view.arrays.group.of[v])
        bits[number] = bits.get(number, 0) | 1 << i
    source, target = (int(view.arrays.group.of[v]) for v in ends)
    for number, mask in bits.items():
        held = ideals & mask
        for row in (joins, begins):
            row[(held != 0) & (held != mask)] = np.inf
        if number == source:
            joins[held != mask] = np.inf
            begins[held != mask] = np.inf
        if number == target:
            joins[held != 0] = np.inf
            begins[held != 0] = np.inf
    if source == target:
        for row in (joins, begins):
            row[:] = np.inf
    return joins, begins, never, always
