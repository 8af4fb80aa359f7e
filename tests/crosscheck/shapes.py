"""What families of instances are made of: pools of numbers, shapes of graphs, and limits that bind exactly."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

__all__ = ["POOLS", "SHAPES", "Graph", "binding", "draw_graph", "exact", "pool", "size", "table"]

Draw = Callable[[], float]

#: Pools of numbers by name, each with another way to go wrong: sums that tie, vanish, round, or swallow each other.
POOLS: dict[str, Callable[[random.Random], float]] = {
    "ties": lambda rng: float(rng.choice((1, 1, 2))),
    "zeros": lambda rng: float(rng.choice((0, 0, 0, 1, 3))),
    "halves": lambda rng: rng.randint(0, 12) / 2,
    "whole": lambda rng: float(rng.randint(1, 20)),
    "tenths": lambda rng: rng.randint(1, 30) / 10,
    "few tenths": lambda rng: rng.choice((0.1, 0.2, 0.3)),
    "thirds": lambda rng: rng.randint(1, 20) / 3,
    "smooth": lambda rng: rng.uniform(0.1, 10.0),
    "wide": lambda rng: 10.0 ** rng.uniform(-6.0, 6.0),
    "extreme": lambda rng: rng.choice((0.0, 1e-6, 1e-3, 1.0, 1e3, 1e6)),
    "steep": lambda rng: rng.choice((1e5, 2e5, 1e6)) if rng.random() < 0.2 else rng.randint(0, 4) / 10,
    "one large": lambda rng: 1e6 * rng.randint(1, 3) if rng.random() < 0.15 else float(rng.randint(1, 9)),
}

#: Pools whose sums are the same in any order.
_EXACT = ("ties", "zeros", "halves", "whole")


def pool(rng: random.Random, *names: str) -> Draw:
    """A way to draw numbers of one pool, any of those named or of all."""
    chosen = POOLS[rng.choice(names or tuple(POOLS))]
    return lambda: chosen(rng)


def exact(rng: random.Random) -> Draw:
    """A way to draw numbers whose sums do not round."""
    return pool(rng, *_EXACT)


def size(rng: random.Random, least: int = 2, most: int = 36) -> int:
    """How many operators: few as often as many."""
    middle = min(most, max(least, 9))
    return rng.randint(least, middle) if rng.random() < 0.5 else rng.randint(middle, most)


def table(rng: random.Random, rows: int, columns: int, draw: Draw, *, diagonal: float = 0.0) -> list[list[float]]:
    """A matrix of transfers between devices, symmetric or not, sometimes the same everywhere."""
    alike, both = (draw() if rng.random() < 0.3 else None), rng.random() < 0.5
    found = [[draw() if alike is None else alike for _ in range(columns)] for _ in range(rows)]
    for a in range(rows):
        for b in range(columns):
            if a == b:
                found[a][b] = diagonal
            elif both and b < a < columns and b < rows:
                found[a][b] = found[b][a]
    return found


@dataclass(frozen=True)
class Graph:
    """A directed acyclic graph whose edges lead to larger numbers.

    Attributes
    ----------
    count
        Nodes.
    edges
        Pairs of nodes, each once.
    alike
        For every node a number that nodes share which are at the same place of equal blocks.
    """

    count: int
    edges: tuple[tuple[int, int], ...]
    alike: tuple[int, ...]

    def costs(self, draw: Draw) -> list[float]:
        """A number for every node, the same for nodes that are alike."""
        drawn = {key: draw() for key in dict.fromkeys(self.alike)}
        return [drawn[key] for key in self.alike]

    def sizes(self, draw: Draw) -> list[float]:
        """A number for every edge, the same for edges between nodes that are alike."""
        keys = [(self.alike[u], self.alike[v]) for u, v in self.edges]
        drawn = {key: draw() for key in dict.fromkeys(keys)}
        return [drawn[key] for key in keys]

    def readers(self) -> list[list[int]]:
        """By node, the nodes that read it."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        for u, v in self.edges:
            found[u].append(v)
        return found

    def shuffled(self, rng: random.Random) -> list[int]:
        """Other numbers for the nodes, neither small nor in order."""
        return rng.sample(range(3 * self.count + 5), self.count)


def _graph(count: int, edges: Sequence[tuple[int, int]], alike: Sequence[int] | None = None) -> Graph:
    return Graph(count, tuple(dict.fromkeys(edges)), tuple(range(count) if alike is None else alike))


def _chain(rng: random.Random, n: int) -> Graph:
    return _graph(n, list(itertools.pairwise(range(n))), [v % 3 for v in range(n)] if rng.random() < 0.3 else None)


def _skips(rng: random.Random, n: int) -> Graph:
    """A row whose outputs are read again further on."""
    edges = list(itertools.pairwise(range(n)))
    edges += [(v, v + k) for v in range(n) if v + (k := rng.randint(2, 4)) < n and rng.random() < 0.4]
    return _graph(n, edges)


def _layered(rng: random.Random, n: int) -> Graph:
    width = rng.randint(2, 4)
    edges = []
    for v in range(width, n):
        before = range((v // width - 1) * width, v // width * width)
        edges += [(u, v) for u in before if rng.random() < 0.6] or [(rng.choice(before), v)]
    return _graph(n, edges)


def _apart(rng: random.Random, n: int) -> Graph:
    """Hardly any edges."""
    return _graph(n, [(u, v) for u in range(n) for v in range(u + 1, n) if rng.random() < 1.0 / (2 * n)])


def _dense(rng: random.Random, n: int) -> Graph:
    n = min(n, 16)
    share = rng.choice((0.2, 0.5, 0.9))
    return _graph(n, [(u, v) for u in range(n) for v in range(u + 1, n) if rng.random() < share])


def _tree(rng: random.Random, n: int) -> Graph:
    """Everything comes from the first node, or all leads to the last."""
    out = [(rng.randint(max(0, v - 4), v - 1), v) for v in range(1, n)]
    return _graph(n, out if rng.random() < 0.5 else sorted((n - 1 - v, n - 1 - u) for u, v in out))


def _columns(rng: random.Random, n: int) -> Graph:
    """Rows beside each other with an edge across here and there."""
    columns = rng.randint(2, 3)
    edges = [(v, v + columns) for v in range(n - columns)]
    edges += [(v, v + columns + 1) for v in range(n - columns - 1) if rng.random() < 0.25]
    return _graph(n, edges)


def _body(rng: random.Random, width: int) -> list[tuple[int, int]]:
    """What is between two separators: parallel nodes with an edge here and there; 0 is before them, -1 after."""
    edges: list[tuple[int, int]] = []
    for v in range(1, width + 1):
        edges += [(u, v) for u in range(1, v) if rng.random() < 0.25] or [(0, v)]
    closed = {u for u, _ in edges}
    edges += [(v, -1) for v in range(1, width + 1) if v not in closed]
    return [*edges, *([(0, -1)] if not width or rng.random() < 0.3 else [])]


def _blocks(rng: random.Random, n: int, *, repeated: bool) -> Graph:
    """Separators with blocks between them, all of their own or many the same."""
    kinds = [(w, _body(rng, w)) for w in (rng.randint(0, 4) for _ in range(rng.randint(1, 2) if repeated else n))]
    edges: list[tuple[int, int]] = []
    alike, last, number = [0], 0, 0
    while last + 1 < n or number == 0:
        which = rng.randrange(len(kinds)) if repeated else number
        width, body = kinds[which]
        end = last + width + 1
        edges += [(last + u, end if v < 0 else last + v) for u, v in body]
        base = which if repeated else number
        alike += [1000 * (base + 1) + k for k in range(width + 1)]
        last, number = end, number + 1
    return _graph(last + 1, edges, alike)


def _separators(rng: random.Random, n: int) -> Graph:
    return _blocks(rng, n, repeated=False)


def _repeated(rng: random.Random, n: int) -> Graph:
    return _blocks(rng, n, repeated=True)


def _tied_blocks(rng: random.Random, n: int) -> Graph:
    """Equal blocks, and an edge that passes them by: nothing separates what is between its ends."""
    graph = _repeated(rng, n)
    u, v = sorted(rng.sample(range(graph.count), 2))
    return replace(graph, edges=tuple(dict.fromkeys((*graph.edges, (u, v)))))


SHAPES: dict[str, Callable[[random.Random, int], Graph]] = {
    "chain": _chain,
    "skips": _skips,
    "layered": _layered,
    "apart": _apart,
    "dense": _dense,
    "tree": _tree,
    "columns": _columns,
    "separators": _separators,
    "repeated blocks": _repeated,
    "tied blocks": _tied_blocks,
}


def draw_graph(rng: random.Random, nodes: int, *names: str) -> Graph:
    """A graph of about so many nodes, of one of the shapes that are named or of any."""
    return SHAPES[rng.choice(names or tuple(SHAPES))](rng, max(1, nodes))


def binding(rng: random.Random, sizes: Sequence[float], parts: int) -> float:
    """A limit that the largest part of some split reaches exactly, as one order of adding up rounds it."""
    held = [0.0] * max(1, parts)
    order = list(sizes)
    rng.shuffle(order)
    for one in order:
        place = rng.randrange(len(held)) if rng.random() < 0.2 else held.index(min(held))
        held[place] += one
    return max(held)
