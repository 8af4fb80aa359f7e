"""Families of random DAGs: classic random graphs made acyclic by a random order, and shapes that networks have.

Sources: Erdős and Rényi (1960), Barabási and Albert (1999), Watts and Strogatz (1998), Holland et al., "Stochastic
blockmodels" (1983). Which of them, and that a random order directs the edges: Paliwal et al., "REGAL" (ICLR 2020),
Appendix A.1.4, as restated by Archer et al. (ICML 2024), Appendix C.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import rustworkx

from partita.ground.dags import directed_graph, ranks

#: Pairs of operators 0 … n − 1; the first makes what the second reads, and is the smaller number.
Edges = list[tuple[int, int]]

EDGE_PROBABILITY = 0.05
ATTACHED = 2
NEIGHBOURS, REWIRED = 4, 0.3
BLOCKS, WITHIN, BETWEEN = 4, 0.3, 0.005
LAYER_WIDTH, LAYER_INPUTS, SKIPPED = 8, 3, 0.1
WIDE_LAYERS = 8
BRANCHES, BRANCH_LENGTH = 4, 5
MOST_READ = 3
JUMPS, FAR, JUMP_LENGTH = 0.3, 0.25, 8


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _erdos_renyi(rng: np.random.Generator, nodes: int) -> Edges:
    """Every pair is joined with probability 0.05."""
    return list(rustworkx.undirected_gnp_random_graph(nodes, EDGE_PROBABILITY, seed=_seed(rng)).edge_list())


def _barabasi_albert(rng: np.random.Generator, nodes: int) -> Edges:
    """Every node is joined to 2 earlier ones, preferably to those with many neighbours."""
    if nodes <= ATTACHED:
        return [(i, i + 1) for i in range(nodes - 1)]
    return list(rustworkx.barabasi_albert_graph(nodes, ATTACHED, seed=_seed(rng)).edge_list())


def _watts_strogatz(rng: np.random.Generator, nodes: int) -> Edges:
    """A ring in which every node is joined to its 4 nearest; one end of each edge moves with probability 0.3."""
    half = NEIGHBOURS // 2
    pairs = {tuple(sorted((i, (i + step) % nodes))) for i in range(nodes) for step in range(1, half + 1)}
    kept = {pair for pair in pairs if pair[0] != pair[1]}
    for pair in sorted(kept):
        if rng.random() >= REWIRED:
            continue
        free = [v for v in range(nodes) if v != pair[0] and tuple(sorted((pair[0], v))) not in kept]
        if free:
            kept.remove(pair)
            kept.add(tuple(sorted((pair[0], free[int(rng.integers(len(free)))]))))
    return sorted((a, b) for a, b in kept)


def _stochastic_block(rng: np.random.Generator, nodes: int) -> Edges:
    """4 blocks of equal size; pairs inside a block are joined with probability 0.3, others with 0.005."""
    sizes = [len(part) for part in np.array_split(np.arange(nodes), BLOCKS)]
    chances = np.full((BLOCKS, BLOCKS), BETWEEN)
    np.fill_diagonal(chances, WITHIN)
    return list(rustworkx.undirected_sbm_random_graph(sizes, chances, False, seed=_seed(rng)).edge_list())


def _layered(rng: np.random.Generator, nodes: int) -> Edges:
    """Layers of 1 to 8 operators; each reads 1 to 3 of the layer before, and one in ten also something earlier."""
    return _in_layers(rng, nodes, 1, LAYER_WIDTH)


def _wide(rng: np.random.Generator, nodes: int) -> Edges:
    """About 8 layers, joined like those of ``layered``."""
    width = max(1, nodes // WIDE_LAYERS)
    return _in_layers(rng, nodes, width, width)


def _in_layers(rng: np.random.Generator, nodes: int, narrowest: int, widest: int) -> Edges:
    edges: set[tuple[int, int]] = set()
    before: list[int] = []
    first = 0
    while first < nodes:
        layer = list(range(first, min(nodes, first + narrowest + int(rng.integers(widest - narrowest + 1)))))
        for v in layer:
            if before:
                count = min(len(before), 1 + int(rng.integers(LAYER_INPUTS)))
                edges.update((int(u), v) for u in rng.choice(before, size=count, replace=False))
                if before[0] > 0 and rng.random() < SKIPPED:
                    edges.add((int(rng.integers(before[0])), v))
        first, before = layer[-1] + 1, layer
    return sorted(edges)


def _branches(rng: np.random.Generator, nodes: int) -> Edges:
    """A chain of blocks: a fork, 1 to 4 branches of 1 to 5 operators in a row, and a join, which is the next fork."""
    edges: set[tuple[int, int]] = set()
    fork, fresh = 0, 1
    while fresh < nodes:
        ends = []
        for _ in range(1 + int(rng.integers(BRANCHES))):
            last = fork
            for _ in range(1 + int(rng.integers(BRANCH_LENGTH))):
                if fresh < nodes - 1:
                    edges.add((last, fresh))
                    last, fresh = fresh, fresh + 1
            ends.append(last)
        edges.update((last, fresh) for last in ends)
        fork, fresh = fresh, fresh + 1
    return sorted(edges)


def _series_parallel(rng: np.random.Generator, nodes: int) -> Edges:
    """A series–parallel graph between one first and one last operator: edges split in a row or doubled at random."""
    if nodes == 1:
        return []
    edges: list[tuple[int, int]] = [(0, 1)]
    for fresh in range(2, nodes):
        place = int(rng.integers(len(edges)))
        u, v = edges[place]
        edges[place] = (u, fresh)
        edges.append((fresh, v))
        # A second edge beside what was split is what makes branches; it carries the same tensor as any other of u.
        if rng.random() < 0.5:
            edges.append((u, v))
    rank = ranks(rustworkx.topological_sort(directed_graph(nodes, edges)))
    return sorted({(int(rank[u]), int(rank[v])) for u, v in edges})


def _preferential(rng: np.random.Generator, nodes: int) -> Edges:
    """Every operator reads 1 to 3 earlier ones; one that r others read is drawn r + 1 times as often as one unread."""
    edges: list[tuple[int, int]] = []
    # Each operator once, and once more for each reader: any entry is as likely as any other.
    drawn_from = [0]
    for v in range(1, nodes):
        read = {drawn_from[int(rng.integers(len(drawn_from)))] for _ in range(1 + int(rng.integers(MOST_READ)))}
        edges.extend((u, v) for u in read)
        drawn_from.extend([*sorted(read), v])
    return sorted(edges)


def _chain(rng: np.random.Generator, nodes: int) -> Edges:
    """Each operator reads the one before; three in ten also another: 2 to 8 places earlier, a quarter of them any."""
    edges = {(v - 1, v) for v in range(1, nodes)}
    for v in range(2, nodes):
        if rng.random() < JUMPS:
            longest = v if rng.random() < FAR else min(v, JUMP_LENGTH)
            edges.add((v - int(rng.integers(2, longest + 1)), v))
    return sorted(edges)


_UNDIRECTED: dict[str, Callable[[np.random.Generator, int], Edges]] = {
    "erdos-renyi": _erdos_renyi,
    "barabasi-albert": _barabasi_albert,
    "watts-strogatz": _watts_strogatz,
    "stochastic-block": _stochastic_block,
}
_DIRECTED: dict[str, Callable[[np.random.Generator, int], Edges]] = {
    "layered": _layered,
    "wide": _wide,
    "branches": _branches,
    "series-parallel": _series_parallel,
    "preferential": _preferential,
    "chain": _chain,
}

#: The base graphs that REGAL names: undirected, a random order directs them.
REGAL_FAMILIES: tuple[str, ...] = tuple(_UNDIRECTED)

#: Every family that ``random_dag`` knows.
FAMILIES: tuple[str, ...] = (*_UNDIRECTED, *_DIRECTED)


def random_dag(rng: np.random.Generator, family: str, nodes: int) -> Edges:
    """Distinct edges of a random DAG of one of ``FAMILIES``, sorted; operators are numbered along the order.

    There is at least one node. Families of small graphs are what is left of their definition.
    """
    if family in _DIRECTED:
        return _DIRECTED[family](rng, nodes)
    pairs = _UNDIRECTED[family](rng, nodes)
    rank = rng.permutation(nodes)
    return sorted({(int(min(rank[u], rank[v])), int(max(rank[u], rank[v]))) for u, v in pairs if u != v})
