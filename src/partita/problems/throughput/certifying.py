"""Certificates of bounds on loads: work that has to be done, and paths out of one operator that somebody pays for.

``partita.checker.throughput.paths`` says what such paths prove. They are a maximum flow of the node bound, over items,
taken apart: here it becomes paths over operators and tensors, with amounts that add up to no more than work and
transfers, exactly.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from partita.checker.certificate import Certificate, Problem, as_in_file, classes, first_proving, stating
from partita.checker.numbers import down, exact, least
from partita.checker.throughput.costs import cheapest_transfer, cheapest_work, present, recomputes, work
from partita.checker.throughput.downsets import MOST_SETS, MOST_STAGES, BlockGraph, Downsets, stages_about
from partita.checker.throughput.paths import Path, TransferPaths
from partita.checker.throughput.work import LargestOperator, SharedWork
from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.compiled import is_compiled
from partita.engines.kernels.graph_arrays import lists
from partita.engines.kernels.throughput import mincut
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.search.result import Bound
from partita.ground.rounding import just_below, lowered
from partita.problems.throughput.bounds.capacity import tuned_weights
from partita.problems.throughput.contraction.blocks import uniform, uniform_refusal
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem

#: Items and nets up to which paths are made, minimum cuts that are tried, and paths of a certificate.
_MOST, _CUTS, _PATHS = 4_000, 200, 5_000
#: How often what is nothing but rounding in a flow is so in what is left of it.
_ROUNDINGS = 16
#: How many times the most stages of a check are too many for sure, where some that are counted may never be met.
_FAR = 8


def certify(problem: ThroughputProblem, bound: Bound) -> Certificate | None:
    """A certificate that shows a bound; None where neither work, one operator's transfers nor a count does."""

    def paths(stated: Problem) -> Certificate | None:
        return charged_paths(problem, bound)

    def downsets(stated: Problem) -> Certificate | None:
        # There are no fewer downsets than blocks, and the checker takes long to put many operators into blocks.
        if bound.scope != "acyclic" or build_instance(problem).items > MOST_SETS:
            return None
        target = just_below(bound.value)
        graph = BlockGraph(stated, exact(target))
        sets = graph.downsets(most=MOST_SETS)
        if len(sets) > MOST_SETS or stages_about(graph, sets) > _FAR * MOST_STAGES:
            return None
        return Downsets(value=target, sets=len(sets))

    return first_proving(as_in_file(problem), bound.value, [_largest, _shared, paths, downsets])


def _largest(stated: Problem) -> Certificate | None:
    """Of the class of operators that takes longest, as replicas share it."""
    kinds, again = present(stated), recomputes(stated)
    replicas = {kind: min(stated["kinds"][kind]["count"], stated.get("max_replicas", 1)) for kind in kinds}
    values: list[Fraction | None] = []
    rows = classes(stated)
    for members in rows:
        own = [(kind, work(members, kind, again)) for kind in kinds]
        values.append(least(None if value is None else value / replicas[kind] for kind, value in own))
    if any(value is None for value in values):
        return None
    longest = max(range(len(rows)), key=lambda place: values[place] or 0)
    return stating(LargestOperator(value=0.0, operator=rows[longest][0]["id"]), stated)


def _shared(stated: Problem) -> Certificate | None:
    """With weights tuned by coordinate search; any are valid."""
    kinds, again = present(stated), recomputes(stated)
    rows = [[work(members, kind, again) for kind in kinds] for members in classes(stated)]
    costs: Floats = np.array([[np.inf if one is None else float(one) for one in row] for row in rows])
    if not np.isfinite(costs.min(axis=1)).all():
        return None
    count = np.array([stated["kinds"][kind]["count"] for kind in kinds], dtype=np.float64)
    tuned = tuned_weights(costs, count)[0]
    weights = [0.0] * len(stated["kinds"])
    for kind, weight in zip(kinds, tuned / tuned.max(), strict=True):
        weights[kind] = float(weight)
    return stating(SharedWork(value=0.0, weights=tuple(weights)), stated)


def charged_paths(problem: ThroughputProblem, bound: Bound) -> TransferPaths | None:
    """The certificate of the operator whose cheapest block costs at least the bound; None if there is none."""
    # A certificate is nothing to wait for a compiler for; where such a flow proved the bound, the kernel is there.
    if uniform_refusal(problem) is not None or not is_compiled(mincut.most_expensive_item):
        return None
    blocks = uniform(problem, free=True)
    # In training only the forward part is in order; and what an order merges has no order inside.
    ordered = bound.scope != "free" and not problem.training and uniform(problem).items == blocks.items
    if ordered:
        blocks = uniform(problem)
    if not blocks.runs or blocks.devices < 2 or blocks.items + blocks.nets > _MOST:
        return None
    network = mincut.block_network(blocks, np.zeros(blocks.nets, dtype=np.int8))
    # An item with no block cheaper than the bound.
    upper, best = blocks.net_loads(), 0.0
    for _ in range(_CUTS):
        item = int(np.argmax(upper))
        if upper[item] < lowered(bound.value):
            return None
        found = mincut.most_expensive_item(network, blocks, ordered, upper, best, 1)
        if found >= lowered(bound.value):
            break
        best = max(best, found)
    else:
        return None
    # A maximum flow out of it.
    flow = mincut.new_flow(network)
    flow.capacity[:] = network.capacity
    flow.sink[:] = network.sink
    if ordered:
        later = mincut.reached(blocks.graph.succ_ptr, blocks.graph.succ, item)
        earlier = mincut.reached(blocks.graph.pred_ptr, blocks.graph.pred, item)
        mincut.respect_order(network, later, earlier, flow.capacity)
    source, supply = np.array([item], dtype=np.int32), np.full(blocks.items, np.inf)
    mincut.cheapest_block(network, source, supply, np.zeros(0, np.int8), np.inf, flow)
    return _Charges(problem, blocks, _ROUNDINGS * network.tiny).certificate(item, _taken_apart(network, flow, item))


def _taken_apart(network: mincut.BlockNetwork, flow: mincut.BlockFlow, item: int) -> Iterator[tuple[list[int], float]]:
    """Paths of nodes with their amounts that add up to the flow: items, and of larger nets the two nodes between."""
    # What an arc back has gained is what flows along an arc, whose own capacity may have no limit.
    before, after = network.capacity[network.pair], flow.capacity[network.pair]
    limited = np.isfinite(before) & np.isfinite(after)
    gained = np.where(limited, after, 0.0) - np.where(limited, before, 0.0)
    left: list[dict[int, float]] = [defaultdict(float) for _ in range(len(network.sink))]
    for u in range(len(network.sink)):
        for a in range(int(network.ptr[u]), int(network.ptr[u + 1])):
            if gained[a] > network.tiny:
                left[u][int(network.head[a])] += float(gained[a])
    ends = network.sink - flow.sink
    while True:
        path = [item]
        while ends[path[-1]] <= network.tiny:
            following = next(iter(left[path[-1]]), None)
            if following is None:
                return
            if following in path:
                # Going round in a circle charges nobody.
                start = path.index(following)
                circle = [*path[start:], following]
                _use(left, circle, min(_along(left, circle)))
                path = path[: start + 1]
                continue
            path.append(following)
        amount = min([float(ends[path[-1]]), *_along(left, path)])
        ends[path[-1]] -= amount
        _use(left, path, amount)
        yield path, amount


def _along(left: list[dict[int, float]], path: list[int]) -> Iterator[float]:
    return (left[u][v] for u, v in itertools.pairwise(path))


def _use(left: list[dict[int, float]], path: list[int], amount: float) -> None:
    for u, v in itertools.pairwise(path):
        left[u][v] -= amount
        if left[u][v] <= amount * 1e-12:
            del left[u][v]


class _Charges:
    """What is left of every operator's work and every tensor's transfer."""

    def __init__(self, problem: ThroughputProblem, blocks: BlockProblem, tiny: float) -> None:
        self.tiny = Fraction(tiny)
        stated: Problem = as_in_file(problem)
        self.members: list[list[int]] = [[] for _ in range(blocks.items)]
        self.item: dict[int, int] = {}
        self.work: dict[int, Fraction] = {}
        again = recomputes(stated)
        for place, op in enumerate(stated["operators"]):
            self.item[op["id"]] = int(blocks.group[place])
            self.members[self.item[op["id"]]].append(op["id"])
            self.work[op["id"]] = cheapest_work(stated, op, again) or Fraction(0)
        self.moving = [cheapest_transfer(stated, tensor) for tensor in stated["tensors"]]
        #: By the items that touch a tensor, as a net has them, the tensors with an operator of each item.
        self.touching: dict[frozenset[int], list[tuple[int, dict[int, int]]]] = {}
        for number, tensor in enumerate(stated["tensors"]):
            pins = {self.item[v]: v for v in (*tensor["consumers"], tensor["producer"])}
            self.touching.setdefault(frozenset(pins), []).append((number, pins))
        large = [pins for pins in lists(blocks.net.ptr, blocks.net.pins) if len(pins) > 2]
        #: By the first node of a larger net, the items that touch it.
        self.pins = {blocks.items + 2 * place: frozenset(pins) for place, pins in enumerate(large)}

    def certificate(self, item: int, flows: Iterator[tuple[list[int], float]]) -> TransferPaths | None:
        """The paths over operators; amounts for which nothing is left are dropped."""
        start = self.members[item][0]
        found: list[Path] = []
        for nodes, amount in flows:
            rest = Fraction(amount)
            while rest > self.tiny and len(found) < _PATHS:
                path, share = self._path(start, nodes, rest)
                part = down(share)
                if not part > 0:
                    break
                rest -= Fraction(part)
                found.append(Path(operators=path[0], tensors=path[1], amount=part))
                self.work[path[0][-1]] -= Fraction(part)
                for tensor in path[1]:
                    if tensor >= 0:
                        self.moving[tensor] -= Fraction(part)
        if len(found) >= _PATHS:
            return None
        value = sum((Fraction(path.amount) for path in found), Fraction(0))
        return TransferPaths(value=down(value), operator=start, paths=tuple(found))

    def _path(
        self, start: int, nodes: list[int], most: Fraction
    ) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], Fraction]:
        """One path along nodes, by the tensors of which most is left, and what can be charged along it."""
        operators, tensors = [start], []
        share = most
        items = [place for place, u in enumerate(nodes) if u < len(self.members)]
        for here, there in itertools.pairwise(items):
            a, b = nodes[here], nodes[there]
            pins = frozenset((a, b)) if there == here + 1 else self.pins[nodes[here + 1]]
            known = self.touching.get(pins, [])
            number, ends = max(known, key=lambda entry: self.moving[entry[0]], default=(-1, {b: self.members[b][0]}))
            if number >= 0 and self.moving[number] > 0:
                share = min(share, self.moving[number])
                if ends[a] != operators[-1]:
                    operators.append(ends[a])
                    tensors.append(-1)
            else:
                # Along the order: what lies between two operators is with them.
                number, ends = -1, {b: self.members[b][0]}
            operators.append(ends[b])
            tensors.append(number)
        end = max(self.members[nodes[items[-1]]], key=lambda v: self.work[v])
        if end != operators[-1]:
            operators.append(end)
            tensors.append(-1)
        return (tuple(operators), tuple(tensors)), min(share, self.work[end])
