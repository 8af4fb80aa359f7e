"""Random problems with a chain of units, and all their splits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import strategies as st

from instances.strategies import throughput_problems
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem, UnitChain

__all__ = ["assigned", "best_of_all", "is_row", "rows"]

MOST_STAGES = 4


@st.composite
def rows(draw: st.DrawFn, **wanted: object) -> ThroughputProblem:
    """A problem with a row: its operators in some order, cut into units."""
    problem = draw(throughput_problems(max_devices=4, max_count=3, kinds=(1, 2), **wanted))
    ids = [op.id for op in problem.operators]
    order = ids if draw(st.booleans()) else draw(st.permutations(ids))
    cuts = [draw(st.integers(0, 2)) > 0 for _ in order[1:]]
    units = [[order[0]]]
    for identity, cut in zip(order[1:], cuts, strict=True):
        units.append([identity]) if cut else units[-1].append(identity)
    count = len(units)
    pairs = [(a, b) for a in range(count) for b in range(a + 2, count)]
    handed = draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)) if pairs else []
    return problem.replace(
        row=UnitChain(units=tuple(map(tuple, units)), handed=tuple(handed), hosts_first=draw(st.booleans()))
    )


def assigned(problem: ThroughputProblem) -> Iterator[Plan]:
    """Stages in order, each with devices of one kind and some of the units; which ones is left to chance."""
    assert problem.row is not None
    count = len(problem.row.units)
    for stages in range(1, min(count, problem.device_count, MOST_STAGES) + 1):
        for homes in itertools.product(range(stages), repeat=count):
            if len(set(homes)) < stages:
                continue
            for kinds in itertools.product(range(len(problem.kinds)), repeat=stages):
                for replicas in itertools.product(range(1, problem.max_replicas + 1), repeat=stages):
                    plan = on_devices(problem, homes, kinds, replicas)
                    if plan is not None:
                        yield plan


def on_devices(
    problem: ThroughputProblem, homes: tuple[int, ...], kinds: tuple[int, ...], replicas: tuple[int, ...]
) -> Plan | None:
    taken = [0] * len(problem.kinds)
    stages = []
    for number, (kind, copies) in enumerate(zip(kinds, replicas, strict=True)):
        names = [f"{problem.kinds[kind].name}:{taken[kind] + i}" for i in range(copies)]
        taken[kind] += copies
        if taken[kind] > problem.kinds[kind].count:
            return None
        ids = tuple(v for unit, home in zip(problem.row.units, homes, strict=True) for v in unit if home == number)
        stages.append(
            Stage(devices=tuple(names), kind=problem.kinds[kind].name, operators=ids, data_parallel=len(names))
        )
    return Plan(stages=tuple(stages))


def is_row(problem: ThroughputProblem, plan: Plan) -> bool:
    """Whether stages are runs in order, nothing passes over one, and replicas are equal: written down once more."""
    home = {v: number for number, stage in enumerate(plan.stages) for v in stage.operators}
    homes = [home[unit[0]] for unit in problem.row.units]
    in_order = homes == sorted(homes) and all(len({home[v] for v in unit}) == 1 for unit in problem.row.units)
    near = all(homes[last] - homes[first] < 2 for first, last in problem.row.handed)
    hosts = {kind.name for kind in problem.kinds if not kind.accelerator}
    if problem.row.hosts_first and any(stage.kind in hosts for stage in plan.stages[1:]):
        return False
    return in_order and near and len({len(stage.devices) for stage in plan.stages}) == 1


def best_of_all(problem: ThroughputProblem) -> float | None:
    found = [evaluate(problem, plan) for plan in assigned(problem) if is_row(problem, plan)]
    return min((one.objective for one in found if one.feasible), default=None)
