"""Directed graphs whose nodes are the numbers 0, 1, …: their order, or the cycle that leaves them without one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import rustworkx

from partita.errors import InputError

__all__ = ["check_acyclic", "directed_graph", "ranks", "topological_order"]


def directed_graph(nodes: int, edges: Iterable[tuple[int, int]]) -> rustworkx.PyDiGraph[int, None]:
    """The graph with these edges, as rustworkx has it; every node's weight is its number."""
    graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph()
    graph.add_nodes_from(list(range(nodes)))
    graph.add_edges_from_no_data(list(edges))
    return graph


def topological_order(
    nodes: int, edges: Iterable[tuple[int, int]], preference: Sequence[int] | npt.NDArray[np.int64] | None = None
) -> list[int]:
    """All nodes, each after those with an edge to it; of those possible the one preferred most is next.

    Parameters
    ----------
    nodes, edges
        An acyclic graph; of any other, nodes of a cycle and what comes after them are left out.
    preference
        Smallest first, not negative; the nodes' own numbers unless stated.
    """
    rank = range(nodes) if preference is None else preference
    graph = directed_graph(nodes, edges)
    return list(rustworkx.lexicographical_topological_sort(graph, key=lambda node: f"{rank[node]:012d}"))


def ranks(order: Iterable[int]) -> npt.NDArray[np.int64]:
    """The place of every node in an order of all."""
    places = np.fromiter(order, dtype=np.int64)
    rank = np.empty(len(places), dtype=np.int64)
    rank[places] = np.arange(len(places))
    return rank


def check_acyclic(where: str, what: str, ids: Sequence[int], edges: Iterable[tuple[int, int]]) -> None:
    """Refuse edges (pairs of places among ``ids``) with a cycle, naming its members by id.

    Raises
    ------
    InputError
        Naming ``where`` and ``what`` (``operators``).
    """
    graph = directed_graph(len(ids), edges)
    if rustworkx.is_directed_acyclic_graph(graph):
        return
    cycle = [ids[v] for v, _ in rustworkx.digraph_find_cycle(graph)]
    shown = " → ".join(str(v) for v in [*cycle, cycle[0]][:8])
    raise InputError(f"{where} has a cycle: {shown}{' …' if len(cycle) > 7 else ''}; {what} must form a DAG")
