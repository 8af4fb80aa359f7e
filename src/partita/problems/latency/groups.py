"""Operators that a contiguous split keeps together, as for the paper's baselines (NeurIPS 2020, App. E, F)."""

from __future__ import annotations

from partita.ground.dags import directed_graph, topological_order
from partita.problems.latency.problem import LatencyProblem


def contracted(problem: LatencyProblem) -> list[list[int]]:
    """Places of operators by group, in topological order of the groups.

    Colocation classes are merged, and strongly connected components that arise. For training only forward operators
    make edges; backward ones follow their class.
    """
    import rustworkx

    of = problem.classes()
    forward = [not op.backward or not problem.training for op in problem.operators]
    edges = sorted({(of[u], of[v]) for u, v in problem.links() if forward[u] and forward[v] and of[u] != of[v]})
    count = max(of) + 1
    components = rustworkx.strongly_connected_components(directed_graph(count, edges))
    component = {number: i for i, one in enumerate(components) for number in one}
    groups: list[list[int]] = [[] for _ in components]
    for v, number in enumerate(of):
        groups[component[number]].append(v)
    # Groups are preferred by the first of their operators in the problem's own order.
    pairs = {(component[a], component[b]) for a, b in edges if component[a] != component[b]}
    first = [min(row) for row in groups]
    return [groups[i] for i in topological_order(len(groups), sorted(pairs), first)]
