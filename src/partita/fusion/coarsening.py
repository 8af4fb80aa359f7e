"""Graph coarsening by operator fusion: groups of operators that a runtime runs as one kernel.

Source: "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices" (2023), §III-B, Table I,
Figure 6 and Algorithm 1 (GCOF). What may be fused is the paper's: a chain of operators whose types are a rule, in which
the result of each but the last has one reader, the next one (Figure 6: direct and multi-input connections, never
multi-output). What ends as a mere part of a rule is released.

Algorithm 1 takes pairs greedily along a depth-first walk, so its answer depends on the order of the walk, and a group
that is released may have kept its operators from others. Here the choice is made at once for all: every operator's only
reader makes a forest, groups are disjoint paths in it, and a dynamic program over the forest finds paths with the most
connections inside, which leaves the fewest operators. So no fewer are fused than by the walk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from partita.fusion.patterns import PatternAutomaton, State
from partita.ground.dags import topological_order

#: How a path that ends at an operator stands in the rules, and whether the operator is all of it.
_Row = tuple[State, bool]
#: The most that is gained up to an operator, beyond what is if no group goes on through it from before, and the row
#: before it on the path with its operator (None at the start).
_Best = tuple[int, tuple[int, _Row] | None]


def coarsen(
    types: Sequence[str],
    edges: Iterable[tuple[int, int]],
    patterns: PatternAutomaton,
    *,
    free: Collection[int] = (),
    kept: Collection[int] = (),
    gains: Sequence[int] | None = None,
    apart: Collection[tuple[int, int]] = (),
) -> list[tuple[int, ...]]:
    """The groups of at least two operators, each along its path, by their last operators in topological order.

    Every operator but the last of a group is read by the next one only. Contracting groups therefore leaves a directed
    acyclic graph: by an order of the operators, groups in the order of their last ones are in an order, too, because
    nobody else reads what is inside.

    Parameters
    ----------
    types
        Of every operator, numbered 0, 1, …; the empty string fuses with nothing.
    edges
        Producer and reader of everything that is handed on; repeated ones count once.
    patterns
        The rules.
    free
        Operators that compute nothing: they do not count for a rule, and are part of a group that goes on behind them.
    kept
        Operators whose results are needed outside of the graph, too.
    gains
        What is saved, besides an operator, if its result stays inside a group: of choices that leave equally many
        operators the one with the larger sum is taken; nothing unless stated.
    apart
        Edges that must not be inside a group.
    """
    count = len(types)
    edges = list(edges)
    link = _links(count, edges, free, kept, apart)
    feeders: list[list[int]] = [[] for _ in range(count)]
    for u, path in link.items():
        feeders[path[-1]].append(u)
    saved = [0] * count if gains is None else list(gains)
    # One connection is worth more than all that is saved.
    unit = 1 + sum(saved)
    order = topological_order(count, edges)
    table: list[dict[_Row, _Best]] = [{} for _ in range(count)]
    closed: list[tuple[int, _Row]] = [(0, (frozenset(), True))] * count
    for v in order:
        rows: dict[_Row, _Best] = {(patterns.begin(types[v]), True): (0, None)}
        for u in sorted(feeders[v]):
            gain = unit + saved[u] + sum(saved[w] for w in link[u][:-1])
            for row, (value, _) in table[u].items():
                state = patterns.move(row[0], types[v])
                reached = value - closed[u][0] + gain
                if state and ((state, False) not in rows or reached > rows[state, False][0]):
                    rows[state, False] = reached, (u, row)
        table[v] = rows
        whole = ((value, row) for row, (value, _) in rows.items() if row[1] or patterns.complete(row[0]))
        closed[v] = max(whole, key=lambda entry: entry[0])
    return _groups(order, link, table, closed, free)


def _links(
    count: int,
    edges: Iterable[tuple[int, int]],
    free: Collection[int],
    kept: Collection[int],
    apart: Collection[tuple[int, int]],
) -> dict[int, tuple[int, ...]]:
    """For operators with one reader the way to it: free operators, if any, and the reader."""
    readers: list[set[int]] = [set() for _ in range(count)]
    for u, v in edges:
        readers[u].add(v)
    found = {}
    for v in range(count):
        if v in free:
            continue
        path: list[int] = []
        at = v
        while len(readers[at]) == 1 and at not in kept:
            (after,) = readers[at]
            if (at, after) in apart:
                break
            path.append(after)
            at = after
            if at not in free:
                found[v] = tuple(path)
                break
    return found


def _groups(
    order: Sequence[int],
    link: dict[int, tuple[int, ...]],
    table: Sequence[dict[_Row, _Best]],
    closed: Sequence[tuple[int, _Row]],
    free: Collection[int],
) -> list[tuple[int, ...]]:
    """Backwards along what was best: paths by their ends, the last one first."""
    taken: set[int] = set()
    groups = []
    for end in reversed(order):
        if end in taken or end in free:
            continue
        path = [end]
        before = table[end][closed[end][1]][1]
        while before is not None:
            u, row = before
            path += [*reversed(link[u][:-1]), u]
            before = table[u][row][1]
        taken.update(path)
        if len(path) > 1:
            groups.append(tuple(reversed(path)))
    return groups[::-1]
