"""The shortest step of a small problem over pipelines, by looking at every plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.evaluate import evaluate


def shortest_row(problem: HybridProblem) -> float:
    """The least time of a step without interleaved schedules, on any kinds of devices; infinite if there is no plan."""
    return min((step for _, step in every_row(problem)), default=math.inf)


def every_row(problem: HybridProblem) -> Iterator[tuple[Plan, float]]:
    """All plans without interleaved schedules that are feasible, and the time of a step of each."""
    training = problem.training
    assert training is not None
    for rows, degrees in rows_of(problem):
        if any(sum(d * t for k, d, t in degrees if k == n) > kind.devices for n, kind in enumerate(problem.kinds)):
            continue
        tables = [{layer.id: layer.configurations for layer in kind.layers} for kind in problem.kinds]
        flat = [(k, v, t) for row, (k, _, t) in zip(rows, degrees, strict=True) for v in row]
        for chosen in itertools.product(*(tables[k][v].get(t, ()) for k, v, t in flat)):
            names = {v: choice.id for (_, v, _), choice in zip(flat, chosen, strict=True)}
            stages = tuple(
                Stage(
                    operators=tuple(row),
                    data_parallel=d,
                    tensor_parallel=t,
                    configurations={v: names[v] for v in row},
                    kind=problem.kinds[k].device,
                )
                for row, (k, d, t) in zip(rows, degrees, strict=True)
            )
            for schedule, zero in itertools.product(training.schedules, training.zero):
                if schedule == "interleaved":
                    continue
                plan = Plan(stages=stages, schedule=schedule, zero=zero)
                found = evaluate(problem, plan)
                if found.feasible:
                    yield plan, found.objective


def rows_of(problem: HybridProblem) -> Iterator[tuple[list[list[int]], list[tuple[int, int, int]]]]:
    """Layers of every stage, and the kind of its devices and its degrees (k, d, t)."""
    ids = [layer.id for layer in problem.layers]
    choices = [
        (k, d, t)
        for k, kind in enumerate(problem.kinds)
        for t in kind.degrees()
        for d in range(1, kind.devices // t + 1)
        if problem.microbatches % d == 0
    ]
    for count in range(1, len(ids) + 1):
        for stages in itertools.product(range(count), repeat=len(ids)):
            of = dict(zip(ids, stages, strict=True))
            if len(set(stages)) < count or any(of[e.source] > of[e.target] for e in problem.edges):
                continue
            rows = [[v for v in ids if of[v] == stage] for stage in range(count)]
            for degrees in itertools.product(choices, repeat=count):
                if sum(d * t for _, d, t in degrees) <= problem.all_devices:
                    yield rows, list(degrees)
