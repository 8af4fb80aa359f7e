"""PipeDream's planner: a path of layers, cut by a dynamic program.

Source: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training" (SOSP 2019), §3.1, without
replication; how branching graphs become a path is from Tarnawski et al. (NeurIPS 2020), §6: branchings are contracted
to single nodes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import rustworkx

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.baselines.base import best_cuts
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver


class PipeDream(Solver):
    """Contract every branching to one node, then cut the resulting path optimally.

    A branching is a biconnected component of the undirected graph: all its operators but the one where its branches
    meet again become one node. Sources that take no time (model inputs) are left out of this, as the planner does with
    input layers; otherwise one attention mask read by every layer would make the whole model one node. The dynamic
    program minimises the largest work plus communication and respects memory, like the published comparison; there is
    no plan if no cut fits. It may use CPUs where a problem has them.
    """

    name = "pipedream"
    summary = "PipeDream's planner: best cuts of a path; contracts branches, ignores replication"

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        instance = build_instance(problem)
        return best_cuts(problem, contract_branches(instance)[instance.group])


def contract_branches(instance: Instance) -> npt.NDArray[np.int64]:
    """Node of the path for every item; what lies on a cycle between nodes is merged when they are contracted."""
    work = np.where(np.isfinite(instance.work), instance.work, 1.0).max(axis=1)
    graph: rustworkx.PyGraph[None, None] = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from([None] * instance.items)
    for u in range(instance.items):
        if not len(instance.graph.before(u)) and work[u] == 0:
            continue
        for v in instance.graph.after(u):
            graph.add_edge(u, int(v), None)
    merged = rustworkx.PyGraph[None, None](multigraph=False)
    merged.add_nodes_from([None] * instance.items)
    tail: dict[int, int] = {}
    for (a, b), component in rustworkx.biconnected_components(graph).items():
        # Items are numbered topologically: the smaller number is the tail.
        u = min(a, b)
        merged.add_edge(tail.setdefault(component, u), u, None)
    node = np.arange(instance.items)
    for members in rustworkx.connected_components(merged):
        node[list(members)] = min(members)
    return node
