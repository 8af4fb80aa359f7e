"""A contiguous throughput problem as arrays: what the compiled kernels read.

One *item* stands for operators that every acyclic split keeps together: a colocation class, or several that lie on a
common cycle of the order. The same arrays cover inference and training, because backward operators follow the class of
their forward ones: an item's work is forward plus backward, and a tensor becomes a *net*, the set of items that touch
it. A device that holds the items S pays a net when it has a pin in S and another outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import rustworkx

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.graph_arrays import GraphArrays, Sets, graph_of, sets_of
from partita.ground.dags import directed_graph, ranks, topological_order
from partita.problems.throughput.contiguity import colocation_classes, distinct_pairs, order_edges
from partita.problems.throughput.problem import ThroughputProblem


@dataclass(frozen=True)
class Instance:
    """Arrays over n items, m nets, K device kinds, c covers."""

    group: Ints  #: Item of every operator of the problem; the way back from an answer.
    graph: GraphArrays  #: The order between items, a DAG; distinct edges.
    net: Sets  #: Items of each net (ascending) and nets of each item.
    #: The same for arrays shared by several items: a stage with any of the pins holds ``cover_fixed`` once and
    #: ``cover_active`` per microbatch in flight.
    cover: Sets
    #: (n, K) time of an item on a kind, infinite where it cannot run; all of it, and the backward share of it.
    work: Floats
    work_backward: Floats
    #: (m, K) transfer time of a cut net on a kind; all of it, and the share of tensors made by backward operators.
    net_cost: Floats
    net_backward: Floats
    net_totals: Floats  #: (m, 4) size and number of all its tensors, then of those made by backward operators.
    #: With recomputation the item whose forward tensors enter the net's other pins, otherwise -1. Two nets may differ
    #: in their source alone; the second one then costs nothing.
    net_source: Ints
    #: The item that makes the net's tensors; -1 where several may, in instances that are not ``directed``.
    net_maker: Ints
    #: Size of those tensors: what a stage with a pin of the net but without its source keeps per microbatch.
    net_entering: Floats
    #: (n,) bytes held once, bytes held per microbatch in flight, and bytes of which a stage needs the largest.
    fixed: Floats
    active: Floats
    workspace: Floats
    #: (c,) bytes of covers.
    cover_fixed: Floats
    cover_active: Floats
    #: Bytes that replicas of a stage synchronise: of an item, of a cover.
    sync: Floats
    cover_sync: Floats
    memory: Floats  #: (K,) limit of a device, infinite for none.
    count: Ints  #: (K,) devices of each kind.
    #: (total devices + 1,) microbatches held by a stage when that many stages remain, itself included.
    in_flight: Longs
    #: Whether memory depends on a stage's position: then searches must run from the outputs to the inputs.
    positional: bool
    recompute: bool  #: Whether a stage keeps only what enters it per microbatch (and ``active`` once).

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.work.shape[0])

    @property
    def nets(self) -> int:
        """Number of nets."""
        return int(self.net_cost.shape[0])

    @property
    def kinds(self) -> int:
        """Number of device kinds."""
        return int(self.work.shape[1])

    def reverse(self) -> Instance:
        """The same instance with the order turned round (loads and memories do not depend on it)."""
        return replace(self, graph=self.graph.turned())


def _groups(problem: ThroughputProblem, free: bool) -> tuple[Ints, Longs]:
    """Item of every operator, numbered in an order of the DAG, and the distinct order edges between items."""
    classes = colocation_classes(problem)
    edges = order_edges(problem, classes)
    if free:
        return classes.astype(np.int32), edges
    component = np.empty(int(classes.max()) + 1, dtype=np.int64)
    graph = directed_graph(len(component), map(tuple, edges.tolist()))
    components = rustworkx.strongly_connected_components(graph)
    for number, members in enumerate(components):
        component[list(members)] = number
    # Number the items topologically, earliest operator first among equals, so that answers do not depend on hashing.
    first = np.full(len(components), len(problem.operators), dtype=np.int64)
    np.minimum.at(first, component[classes], np.arange(len(problem.operators)))
    pairs = component[edges]
    pairs = distinct_pairs(pairs[pairs[:, 0] != pairs[:, 1]])
    rank = ranks(topological_order(len(components), map(tuple, pairs.tolist()), first))
    return rank[component[classes]].astype(np.int32), distinct_pairs(rank[pairs])


def ordered_graph(edges: Longs, count: int) -> GraphArrays:
    """The order between so many items with these (edges, 2) pairs, each once; neighbours are ascending."""
    return graph_of(distinct_pairs(edges), count)


def pooled(values: Floats, label: npt.NDArray[np.integer], count: int) -> Floats:
    """Rows added up by the label of each, of which there are so many."""
    result = np.zeros((count, *values.shape[1:]))
    np.add.at(result, label, values)
    return result


def build_instance(problem: ThroughputProblem, *, free: bool = False, directed: bool = False) -> Instance:
    """Contract a problem to its items, without loss for the split that is asked for.

    For a ``free`` one colocation classes are contracted only, and the order may have cycles; otherwise also what any
    acyclic split must keep together. Tensors with equal pins are one net, and those with one pin are dropped; a cover
    with one pin becomes part of its item. ``directed`` keeps tensors of different makers apart, for loads that tell
    what enters from what leaves.
    """
    group, edges = _groups(problem, free)
    n = int(group.max()) + 1
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    backward = np.array([op.backward for op in problem.operators], dtype=bool)
    times = np.array([[np.inf if t is None else t for t in op.times] for op in problem.operators], dtype=np.float64)
    work, work_backward = pooled(times, group, n), pooled(times[backward], group[backward], n)
    recompute = problem.schedule.recompute and bool(backward.any())
    for again in (work, work_backward) if recompute else ():
        np.add.at(again, group[~backward], times[~backward])
    fixed, workspace = pooled(np.array([op.memory_bytes for op in problem.operators]), group, n), np.zeros(n)
    np.maximum.at(workspace, group, np.array([op.workspace_bytes for op in problem.operators]))

    nets = _nets(problem, group, backward, place_of, recompute, directed)
    unit = np.array([kind.transfer_time_per_unit for kind in problem.kinds])
    latency = np.array([kind.transfer_latency for kind in problem.kinds])
    totals = np.array([entry for _, entry in nets], dtype=np.float64).reshape(-1, 7)

    active, sync = np.zeros(n), np.zeros(n)
    if not problem.parameters:
        # Instance files state the size of the weights as what operators occupy.
        sync += fixed
    covers: dict[tuple[int, ...], list[float]] = {}
    for parameter in problem.parameters:
        pins = tuple(sorted({int(group[place_of[user]]) for user in parameter.users}))
        entry = covers.setdefault(pins, [0.0, 0.0, 0.0])
        entry[0] += parameter.weight_bytes + parameter.gradient_bytes + parameter.optimizer_bytes
        entry[2] += parameter.gradient_bytes
    for saved in problem.saved:
        pins = tuple(sorted({int(group[place_of[user]]) for user in saved.users}))
        covers.setdefault(pins, [0.0, 0.0, 0.0])[1] += saved.bytes
    for pins, (once, each, synchronised) in covers.items():
        if len(pins) == 1:
            fixed[pins[0]] += once
            active[pins[0]] += each
            sync[pins[0]] += synchronised
    shared = [pins for pins in covers if len(pins) > 1]
    cover_bytes = np.array([covers[pins] for pins in shared], dtype=np.float64).reshape(-1, 3)

    return Instance(
        group=group,
        graph=ordered_graph(edges, n),
        net=sets_of([pins for pins, _ in nets], n),
        cover=sets_of(shared, n),
        work=work,
        work_backward=work_backward,
        net_cost=totals[:, :1] * unit + totals[:, 1:2] * latency,
        net_backward=totals[:, 2:3] * unit + totals[:, 3:4] * latency,
        net_totals=np.ascontiguousarray(totals[:, :4]),
        net_source=totals[:, 4].astype(np.int32),
        net_maker=totals[:, 6].astype(np.int32),
        net_entering=np.ascontiguousarray(totals[:, 5]),
        fixed=fixed,
        active=active,
        workspace=workspace,
        cover_fixed=np.ascontiguousarray(cover_bytes[:, 0]),
        cover_active=np.ascontiguousarray(cover_bytes[:, 1]),
        sync=sync,
        cover_sync=np.ascontiguousarray(cover_bytes[:, 2]),
        memory=np.array([np.inf if k.memory_bytes is None else float(k.memory_bytes) for k in problem.kinds]),
        count=np.array([kind.count for kind in problem.kinds], dtype=np.int32),
        in_flight=np.array(
            [0, *(problem.schedule.in_flight(j + 1) for j in range(problem.device_count))], dtype=np.int64
        ),
        positional=problem.schedule.positional
        and bool(totals[:, 5].any() if recompute else active.any() or cover_bytes[:, 1].any()),
        recompute=recompute,
    )


def _nets(
    problem: ThroughputProblem, group: Ints, backward: Bools, place_of: dict[int, int], recompute: bool, directed: bool
) -> list[tuple[tuple[int, ...], list[float]]]:
    """Merged nets: pins and [size, tensors, size of backward tensors, backward tensors, source, entering size, maker].

    Tensors with the same pins (and maker, if ``directed``) are one net as far as time goes. With recomputation, what a
    forward tensor lets enter depends on its source and on who reads it in the forward part, which may be fewer than the
    net's pins. These sizes are kept by (forward readers and source, source); each joins a net of the same pins, or is a
    net that costs nothing.
    """
    costs: dict[tuple[tuple[int, ...], int], list[float]] = {}
    entering: dict[tuple[tuple[int, ...], int], float] = {}
    for tensor in problem.tensors:
        place = place_of[tensor.producer]
        readers = [place_of[consumer] for consumer in tensor.consumers]
        source = int(group[place])
        pins = tuple(sorted({source, *(int(group[reader]) for reader in readers)}))
        if len(pins) < 2:
            continue
        entry = costs.setdefault((pins, source if directed else -1), [0.0, 0.0, 0.0, 0.0])
        entry[0] += tensor.size
        entry[1] += 1
        if backward[place]:
            entry[2] += tensor.size
            entry[3] += 1
        elif recompute and tensor.size:
            forward = tuple(sorted({source, *(int(group[reader]) for reader in readers if not backward[reader])}))
            if len(forward) > 1:
                entering[forward, source] = entering.get((forward, source), 0.0) + tensor.size
    rows: list[tuple[tuple[int, ...], list[float]]] = []
    for (pins, source), size in entering.items():
        maker = source if directed else -1
        rows.append((pins, [*costs.pop((pins, maker), [0.0, 0.0, 0.0, 0.0]), source, size, source]))
    for (pins, maker), entry in costs.items():
        rows.append((pins, [*entry, -1.0, 0.0, maker]))
    return sorted(rows)


def operators_at(problem: ThroughputProblem, group: Ints, place: Ints, places: int) -> list[tuple[int, ...]]:
    """Ids of the operators at each of so many places, in the problem's order, from the place of every item.

    ``group`` is the item of every operator, as in an ``Instance``.
    """
    rows: list[list[int]] = [[] for _ in range(places)]
    for op, at in zip(problem.operators, place[group].tolist(), strict=True):
        rows[at].append(op.id)
    return [tuple(row) for row in rows]
