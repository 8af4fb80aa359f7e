"""Directed graphs whose nodes are the numbers 0, 1, …: their order, or the cycle that leaves them without one."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from partita.ground.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import rustworkx


def directed_graph(nodes: int, edges: Iterable[tuple[int, int]]) -> rustworkx.PyDiGraph[int, None]:
    """The graph with these edges, as rustworkx has it; every node's weight is its number."""
    # Problems are imported to ask for help, too, which should not wait for this.
    import rustworkx

    graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph()
    graph.add_nodes_from(list(range(nodes)))
    graph.add_edges_from_no_data(list(edges))
    return graph


def topological_order(
    nodes: int, edges: Iterable[tuple[int, int]], preference: Sequence[int] | npt.NDArray[np.int64] | None = None
) -> list[int]:
    """All nodes, each after those with an edge to it; of those possible the one with the smallest preference is next.

    Nodes of a cycle and what comes after them are left out. A preference is not negative, and the node's own number
    unless stated.
    """
    import rustworkx

    rank = range(nodes) if preference is None else preference
    graph = directed_graph(nodes, edges)
    return list(rustworkx.lexicographical_topological_sort(graph, key=lambda node: f"{rank[node]:012d}"))


def ranks(order: Iterable[int]) -> npt.NDArray[np.int64]:
    """The place of every node in an order of all."""
    import numpy as np

    places = np.fromiter(order, dtype=np.int64)
    rank = np.empty(len(places), dtype=np.int64)
    rank[places] = np.arange(len(places))
    return rank


def row_of_blocks(blocks: Sequence[str], before: Sequence[Iterable[int]]) -> tuple[list[int], list[str]]:
    """The place of every node in a chain of an input part (0), its blocks (1, 2, …) and an output part; their names.

    ``blocks`` names every node's block, empty for none; blocks are numbered as they appear. ``before`` is what each
    node reads; nodes are numbered along an order, and places never fall from what is read. What reads the last block
    and no block reads is the output part; the rest is where the block is that it depends on.
    """
    number = {name: place for place, name in enumerate(dict.fromkeys(name for name in blocks if name), start=1)}
    needed = [bool(name) for name in blocks]
    for v in range(len(blocks) - 1, -1, -1):
        if needed[v]:
            for u in before[v]:
                needed[u] = True
    places: list[int] = []
    for v, name in enumerate(blocks):
        floor = max((places[u] for u in before[v]), default=0)
        if name:
            places.append(max(floor, number[name]))
        else:
            places.append(len(number) + 1 if floor >= len(number) and not needed[v] else floor)
    return places, list(number)


def members_of(mask: int) -> Iterator[int]:
    """The numbers in a bit set, ascending."""
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield bit.bit_length() - 1


def joined(nodes: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """For every node the first one of those that pairs join it with, by whatever detours; itself if it is that."""
    import rustworkx

    together: rustworkx.PyGraph[None, None] = rustworkx.PyGraph()
    together.add_nodes_from([None] * nodes)
    together.add_edges_from_no_data(list(pairs))
    first = {v: min(members) for members in rustworkx.connected_components(together) for v in members}
    return [first[v] for v in range(nodes)]


def check_ends(owner: str, what: str, ends: tuple[int, int], known: Container[int]) -> None:
    """Refuse an edge, named ``owner``, with an end that is no id of a ``what`` (``operator``), or with equal ends."""
    for end in ends:
        if end not in known:
            raise InputError(f"{owner}: there is no {what} with id {end}")
    if ends[0] == ends[1]:
        raise InputError(f"{owner} is a cycle of one {what}; {what}s must form a directed acyclic graph")


def check_acyclic(where: str, what: str, ids: Sequence[int], edges: Iterable[tuple[int, int]]) -> None:
    """Refuse edges (pairs of places among ``ids``) with a cycle of ``what`` (``operators``), naming its ids."""
    import rustworkx

    graph = directed_graph(len(ids), edges)
    if rustworkx.is_directed_acyclic_graph(graph):
        return
    cycle = [ids[v] for v, _ in rustworkx.digraph_find_cycle(graph)]
    shown = " → ".join(str(v) for v in [*cycle, cycle[0]][:8])
    raise InputError(f"{where} has a cycle: {shown}{' …' if len(cycle) > 7 else ''}; {what} must form a DAG")
