"""Large problems, made smaller by a good split: what any better one has on the same devices is one item.

In an acyclic split with loads below T over k blocks an operator with work A up to it, itself included, is in block A/T
or a later one, and with work B from it on in one of the first k + 1 − B/T: the windows of ``bounds.windows``, by work
alone. Near to a k-th of all work T leaves most operators a single block. Those of one block are tied, and contracted
like what is tied from the start; a split of the smaller problem is one of the larger, of the same loads, and every
split below T is among them. So the smaller problem is searched instead, and what is proven of it holds up to T.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.closures import before_and_after
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Event
from partita.ground.rounding import TOLERANCE
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions
from partita.problems.throughput.solvers.contiguous_run import ContiguousRun
from partita.problems.throughput.solvers.slicing_search import LARGE, SlicingSearch

#: A problem is narrowed again while that leaves at most this share of its items.
SHRINK = 0.3

Solve = Callable[[ThroughputProblem, ThroughputOptions, Monitor], Outcome]


class _Opening(ContiguousRun):
    """One order, sliced."""

    def prove(self, search: SlicingSearch) -> None:
        """Nothing more than the simple bound."""
        search.begin()


def single_blocks(uniform: BlockProblem, target: float) -> Ints:
    """(n,) the block that an item is in wherever all loads are below ``target``, −1 where several are left."""
    up = before_and_after(uniform.graph, uniform.work[None], True)[0]
    down = before_and_after(uniform.graph, uniform.work[None], False)[0]
    # Sums that are whole numbers of targets up to rounding leave one block more.
    first = np.ceil(up / target - TOLERANCE).astype(np.int64)
    last = uniform.devices + 1 - np.ceil(down / target - TOLERANCE).astype(np.int64)
    blocks: Ints = np.where(np.maximum(first, 1) == np.minimum(last, uniform.devices), first - 1, -1).astype(np.int32)
    return blocks


def narrowed(problem: ThroughputProblem, target: float) -> tuple[ThroughputProblem, int] | None:
    """The problem with what is in one block in all splits below ``target`` tied together; None if that is little.

    With it the most items that it has.
    """
    instance = build_instance(problem)
    one = uniform(problem, instance=instance)
    if one.items <= LARGE or one.devices < 2 or not 0 < target < math.inf or not one.runs:
        return None
    block = single_blocks(one, target)
    left = int((block < 0).sum()) + len(np.unique(block[block >= 0]))
    if left > SHRINK * one.items:
        return None
    free = 1 + max((op.colocation for op in problem.operators if op.colocation is not None), default=0)
    tied = block[instance.group]
    operators = tuple(
        op if tie < 0 else msgspec.structs.replace(op, colocation=free + tie)
        for op, tie in zip(problem.operators, tied.tolist(), strict=True)
    )
    return problem.replace(operators=operators), left


def solve_narrowed(problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor, solve: Solve) -> Outcome:
    """What ``solve`` makes of the problem, or of one that is smaller and has all splits better than a first one."""
    best, target, now, items = None, math.inf, problem, len(problem.operators)
    while len(problem.operators) > LARGE and not monitor.stopping:
        opened = _Opening(now, options).search(_inside(monitor, target))
        if opened.plan is None:
            break
        value = evaluate(problem, opened.plan).objective
        if value < target:
            best, target = opened, value
        smaller = narrowed(now, target) if items > LARGE else None
        if smaller is None:
            break
        now, items = smaller
    if best is None or best.plan is None:
        return solve(problem, options, monitor)
    inside = _inside(monitor, target)
    found = solve(now, options, inside)
    monitor.statistics.counters |= inside.statistics.counters
    better = found.plan is not None and evaluate(problem, found.plan).objective < target
    plan = found.plan if better else best.plan
    bound = target if found.infeasible else max(min(found.bound or 0.0, target), best.bound or 0.0)
    monitor.report(bound=bound)
    return Outcome(plan, bound, proven_by=found.proven_by)


def _inside(monitor: Monitor, target: float) -> Monitor:
    """A part of a run on a problem that has all splits below ``target``: bounds hold up to that."""

    def tell(event: Event) -> None:
        bound = None if event.bound is None else min(event.bound, target)
        monitor.report(objective=event.objective, bound=bound, note=event.note)

    return monitor.part(progress=tell)
