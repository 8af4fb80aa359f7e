"""Cuts of a path by a dynamic program that knows work, transfers and memory: between layers, and PipeDream's planner.

Source: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training" (SOSP 2019), §3.1, without
replication; how branching graphs become a path is from Tarnawski et al. (NeurIPS 2020), §6: branchings are contracted
to single nodes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import rustworkx

from partita.engines.kernels.arrays import Longs
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.baselines.layers import find_blocks
from partita.problems.throughput.contiguity import colocated
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, Solver, ThroughputOptions
from partita.problems.throughput.solvers.plain import plain_view
from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
from partita.problems.throughput.solvers.slicing_search import OrderSlicer


class LayerCuts(Solver):
    """Cut the chain of layers, as runtimes that move modules, not operators, can run it; no plan if no cut fits.

    What it loses against a plan is what cutting at layers only costs.
    """

    name = "layer-cuts"
    summary = "the best cuts between whole layers, by all costs; ignores cuts inside layers"

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        # Edges never lead to an earlier layer, so the path is the chain.
        blocks = find_blocks(problem)
        return best_cuts(problem, blocks.layer_of[blocks.instance.group])


class PipeDreamCuts(Solver):
    """Contract every branching to one node, then cut the resulting path optimally.

    A branching is a biconnected component of the undirected graph: all its operators but the one where its branches
    meet again become one node. Sources that take no time (model inputs) are left out of this, as the planner does with
    input layers; otherwise one attention mask read by every layer would make the whole model one node. The dynamic
    program minimises the largest work plus communication and respects memory, like the published comparison; there is
    no plan if no cut fits. It may use CPUs where a problem has them.
    """

    name = "pipedream"
    summary = "PipeDream's planner: best cuts of a path; contracts branches, ignores replication"

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        instance = build_instance(problem)
        return best_cuts(problem, contract_branches(instance)[instance.group])


def contract_branches(instance: Instance) -> Longs:
    """Node of the path for every item; what lies on a cycle between nodes is merged when they are contracted."""
    work = np.where(np.isfinite(instance.work), instance.work, 1.0).max(axis=1)
    graph: rustworkx.PyGraph[None, None] = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from([None] * instance.items)
    for u in range(instance.items):
        if len(instance.graph.before(u)) or work[u] != 0:
            graph.add_edges_from_no_data([(u, int(v)) for v in instance.graph.after(u)])
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


def best_cuts(problem: ThroughputProblem, node: npt.ArrayLike) -> Outcome:
    """The best cuts of the path that operators make where all of a node stay together; no plan if no cut fits.

    ``node`` (operators,) is the node of each.
    """
    view = plain_view(colocated(problem, node))
    low = lower_bounds(view)
    if np.isinf(low.both):
        return Outcome(plan=None)
    # The items are numbered topologically, so this order is the path.
    found = OrderSlicer(view, low, np.zeros(1, dtype=np.int64)).exact(np.arange(view.items, dtype=np.int32))
    return Outcome(plan=None if found is None else view.plan(found[1]))
