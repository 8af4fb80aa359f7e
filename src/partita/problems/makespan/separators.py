"""A makespan problem as a chain of independent blocks between separators, and shortest paths over their devices.

A *separator* is an operator that is comparable with every other one (each must end before it starts, or start after it
ends) and that no flow bypasses. In any schedule all that comes before it, flows included, has ended when it starts, and
nothing after it, flows included, starts before it ends. So for fixed devices of the separators the makespan is the sum
of their times and of the makespans of the blocks between them, each of which is a problem of its own: what the devices
and links do in one block is over before the next one begins.

Two things can couple blocks: memory, which is summed over all of them, and classes that run together. Blocks keep both
inside, so the sum stays a lower bound, and a joined schedule is one if the evaluator says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.ground.dags import ranks
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.problem import MakespanProblem


@dataclass(frozen=True)
class Block:
    """What runs between two separators."""

    instance: MakespanInstance  #: The whole problem.
    members: tuple[int, ...]  #: Operators inside, in topological order.
    #: The separators; −1 before the first and after the last one.
    entry: int
    exit: int

    @cached_property
    def edges(self) -> list[tuple[int, int, int]]:
        """Those with both ends among members, entry and exit; what leads past a separator says nothing more."""
        inside = {*self.members, self.entry, self.exit} - {-1}
        return [edge for edge in self.instance.edges if edge[0] in inside and edge[1] in inside]

    @property
    def operators(self) -> list[int]:
        """Entry, members and exit, as far as they exist: the order of the block's problem."""
        return [v for v in (self.entry, *self.members, self.exit) if v >= 0]

    @cached_property
    def key(self) -> bytes:
        """Equal for blocks whose problems are equal but for ids and names.

        It says all that ``problem`` reads of a block, so what is known of these holds for every block of a
        key. They do not read the times of the ends.
        """
        problem = self.instance.problem
        place = {v: number for number, v in enumerate(self.operators)}
        classes: dict[int, int] = {}
        rows = [
            (
                None if v in (self.entry, self.exit) else problem.operators[v].times,
                problem.operators[v].memory,
                None
                if problem.operators[v].colocation is None
                else classes.setdefault(problem.operators[v].colocation or 0, len(classes)),
            )
            for v in self.operators
        ]
        edges = [(place[u], place[v], None if f < 0 else problem.flows[f].times) for u, v, f in self.edges]
        return msgspec.json.encode((self.entry >= 0, self.exit >= 0, rows, edges))

    def problem(self, *homes: int) -> MakespanProblem:
        """The block with its separators on two devices, or on any if none are given; they take no time here.

        On any one, also where they cannot run: blocks of one key may differ in that, and ask for other pairs.
        """
        whole, devices = self.instance.problem, range(self.instance.devices)
        ops = whole.operators
        times = {
            v: tuple(0.0 if home in (None, d) else None for d in devices)
            for v, home in zip((self.entry, self.exit), homes or (None, None), strict=True)
        }
        return whole.replace(
            operators=tuple(msgspec.structs.replace(ops[v], times=times.get(v, ops[v].times)) for v in self.operators),
            flows=tuple(whole.flows[f] for _, _, f in self.edges if f >= 0),
            precedence=tuple((ops[u].id, ops[v].id) for u, v, f in self.edges if f < 0),
            notes=(),
        )

    def at(self, *homes: int) -> MakespanInstance:
        """The same as arrays."""
        return build_instance(self.problem(*homes))


@dataclass(frozen=True)
class Chain:
    """Separators in order, and the blocks between them."""

    instance: MakespanInstance  #: The problem.
    separators: tuple[int, ...]  #: Operators.
    blocks: tuple[Block, ...]  #: One more than there are separators; the first and the last one may be empty.

    @property
    def helps(self) -> bool:
        """Whether it splits anything: at least two blocks that are not empty, those between separators counting."""
        outer = bool(self.blocks[0].members) + bool(self.blocks[-1].members)
        return len(self.separators) - 1 + outer >= 2

    @cached_property
    def alike(self) -> list[int]:
        """The first block that is equal to each."""
        first: dict[bytes, int] = {}
        return [first.setdefault(block.key, number) for number, block in enumerate(self.blocks)]

    @cached_property
    def rows(self) -> list[list[int]]:
        """Devices on which each separator can run; one place, −1, before the first and after the last block."""
        time = self.instance.arrays.time
        return [[-1], *(np.flatnonzero(np.isfinite(time[s])).tolist() for s in self.separators), [-1]]

    def paths(self, length: Callable[[int, int, int], float]) -> ChainPaths:
        """The shortest paths for the length of every block between two devices; −1 where it has no such end."""
        time, rows = self.instance.arrays.time, self.rows
        own = [np.zeros(1), *(time[s, row] for s, row in zip(self.separators, rows[1:-1], strict=True)), np.zeros(1)]
        steps = [
            np.array([[length(k, a, b) for b in rows[k + 1]] for a in rows[k]], dtype=np.float64)
            for k in range(len(self.blocks))
        ]
        forward, backward = [own[0]], [own[-1]]
        for k, step in enumerate(steps):
            forward.append((forward[-1][:, None] + step).min(axis=0) + own[k + 1])
        for k in range(len(steps) - 1, -1, -1):
            backward.append((steps[k] + backward[-1][None, :]).min(axis=1) + own[k])
        return ChainPaths(steps, forward, backward[::-1])


@dataclass(frozen=True)
class ChainPaths:
    """How far every separator, on every device, is from both ends."""

    steps: list[Floats]  #: For every block the table of its lengths, by the places of its ends in their rows.
    forward: list[Floats]  #: For every node of a row the length of the shortest path to its end, its own time included.
    backward: list[Floats]  #: The same from its start to the end of the whole.

    @property
    def total(self) -> float:
        """Of the shortest path; infinite if there is none."""
        return float(self.forward[-1][0])

    def besides(self, number: int, i: int, j: int) -> float:
        """The shortest path through an arc, without the arc; ends by their place in their rows."""
        return float(self.forward[number][i] + self.backward[number + 1][j])

    def path(self) -> list[tuple[int, int, int]]:
        """Block, and the places of its ends in their rows, of the arcs of a shortest path, the first of equal ones."""
        found, j = [], 0
        for k in range(len(self.steps) - 1, -1, -1):
            i = int((self.forward[k] + self.steps[k][:, j]).argmin())
            found.append((k, i, j))
            j = i
        return found[::-1]


def chain_of(instance: MakespanInstance) -> Chain:
    """All separators of a problem."""
    passed, place = comparable(instance), ranks(instance.order)
    among = set(passed.tolist())
    #: Of those comparable with all, how many come before each operator: those that the order has before it.
    above = np.searchsorted(passed, place)
    bypassed = np.zeros(len(passed) + 1, dtype=bool)
    for u, v, f in instance.edges:
        if f >= 0:
            bypassed[above[u] + (place[u] in among) : above[v]] = True
    kept = passed[~bypassed[:-1]]
    separators = [instance.order[k] for k in kept]
    members: list[list[int]] = [[] for _ in range(len(separators) + 1)]
    for v, block in zip(instance.order, np.searchsorted(kept, np.arange(instance.count)), strict=True):
        if block == len(kept) or separators[block] != v:
            members[block].append(v)
    ends = [-1, *separators, -1]
    blocks = [Block(instance, tuple(row), ends[k], ends[k + 1]) for k, row in enumerate(members)]
    return Chain(instance, tuple(separators), tuple(blocks))


def comparable(instance: MakespanInstance) -> Longs:
    """Places in the order of the operators that all others come before or after.

    All before one lead to it if the first that follows each of them is not behind it: from there on the same holds, up
    to the one itself. What is behind comes after it, likewise.
    """
    n, graph = instance.count, instance.arrays.graph.numbered(instance.ordered)
    first, last = np.full(n, n), np.full(n, -1)
    follows, precedes = np.diff(graph.succ_ptr) > 0, np.diff(graph.pred_ptr) > 0
    first[follows] = graph.succ[graph.succ_ptr[:-1][follows]]
    last[precedes] = graph.pred[graph.pred_ptr[1:][precedes] - 1]
    ahead = np.concatenate(([-1], np.maximum.accumulate(first)[:-1]))
    behind = np.concatenate((np.minimum.accumulate(last[::-1])[::-1][1:], [n]))
    return np.flatnonzero((ahead <= np.arange(n)) & (np.arange(n) <= behind))
