"""Certificates of bounds on makespans: work by weights of the devices, and the earliest ends of the operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partita.checker.certificate import Certificate, Problem, as_in_file, classes, first_proving, stating
from partita.checker.makespan.ends import ends_through
from partita.checker.makespan.separators import SeparatedBlocks, SeparatorPotentials
from partita.checker.makespan.work import WeightedWork, allowed
from partita.checker.numbers import down
from partita.engines.search.result import Bound
from partita.problems.makespan.bounds.simple import weighted_work
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanProblem

#: Edges times pairs of devices up to which earliest ends are listed.
_MOST = 20_000
#: Share up to which a chain is less than what it has to show: labels are lowered by that much.
_CLOSE = 1e-8


def certify(problem: MakespanProblem, bound: Bound) -> Certificate | None:
    """A certificate that shows a bound; None where neither work nor one chain does."""
    makers: list[Callable[[Problem], Certificate | None]] = [_work] if problem.serial_operators else []
    size = (len(problem.links()) + len(problem.operators)) * len(problem.devices) ** 2
    if size <= _MOST:
        instance = build_instance(problem)
        through = (instance.head + instance.arrays.tail).min(axis=1)
        longest = int(through.argmax())
        if float(through[longest]) >= bound.value * (1 - _CLOSE):
            makers.append(lambda stated: ends_through(stated, problem.operators[longest].id))
        if size * len(problem.devices) <= _MOST:
            makers.append(_blocks)
    return first_proving(as_in_file(problem), bound.value, makers)


def _work(stated: Problem) -> Certificate | None:
    """The best weights that an ascent finds."""
    weights = _weights([(members, allowed(stated, members)) for members in classes(stated)], len(stated["devices"]))
    return None if weights is None else stating(WeightedWork(value=0.0, weights=weights), stated)


def _blocks(stated: Problem) -> Certificate | None:
    """Blocks between separators, with the best weights for each."""
    chain = SeparatedBlocks(stated)
    count = len(chain.separators)
    if count < 2:
        return None
    even = (1.0,) * chain.devices
    weights = tuple(_weights(chain.rows(number), chain.devices) or even for number in range(count + 1))
    reached: list[tuple[float | None, ...]] = []
    for number in range(count):
        row = chain.reached(number, reached[-1] if reached else None, weights[number])
        reached.append(tuple(None if value is None else max(0.0, down(value)) for value in row))
    value = chain.rest(reached[-1], weights[-1])
    if value is None:
        return None
    separators = chain.separators
    return SeparatorPotentials(value=down(value), separators=separators, weights=weights, reached=tuple(reached))


def _weights(rows: Sequence[tuple[list[Any], list[int]]], devices: int) -> tuple[float, ...] | None:
    """The best of the devices, for operators that run together where they may be; None if some can be nowhere."""
    work = np.full((len(rows), devices), np.inf)
    for row, (members, places) in zip(work, rows, strict=True):
        for d in places:
            row[d] = sum(op["times"][d] for op in members)
    if not len(rows) or not np.isfinite(work.min(axis=1)).all():
        return None
    best, _ = max(weighted_work(work), key=lambda entry: entry[1])
    return tuple(float(w) for w in best / best.max())
