"""Makespan problems for the contract suite."""

from __future__ import annotations

import random
from functools import lru_cache

import msgspec
import pytest

from contracts.samples import Family, Samples
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.samples import DIAMOND
from problems.makespan.brute_force import best_makespan
from problems.makespan.independent_evaluator import judge
from problems.makespan.strategies import TYPES, chain_problems, makespan_problems

__all__ = ["SAMPLES", "row"]


def row(times: tuple[float, ...] = (1.0, 2.0, 3.0), devices: int = 1, memory: float | None = None) -> MakespanProblem:
    """Operators one after the other; later devices are slower, links take half."""
    matrix = tuple(tuple(0.0 if a == b else 0.5 for b in range(devices)) for a in range(devices))
    return MakespanProblem(
        name="row",
        devices=tuple(Device(name=f"d{d}", memory=memory) for d in range(devices)),
        operators=tuple(
            MakespanOperator(id=v, times=tuple(time * (1 + d) for d in range(devices)), memory=1.0, type=TYPES[v % 4])
            for v, time in enumerate(times)
        ),
        flows=tuple(MakespanFlow(id=v, source=v, target=v + 1, times=matrix) for v in range(len(times) - 1)),
    )


def problem_of(times: list[tuple[float, ...]], flows: dict[tuple[int, int], float]) -> MakespanProblem:
    """Operators by their times, and flows with the time that they take between any two devices."""
    devices = len(times[0])
    return MakespanProblem(
        name="drawn",
        devices=tuple(Device(name=f"d{d}") for d in range(devices)),
        operators=tuple(MakespanOperator(id=v, times=row) for v, row in enumerate(times)),
        flows=tuple(
            MakespanFlow(
                id=f,
                source=u,
                target=v,
                times=tuple(tuple(cost * (a != b) for b in range(devices)) for a in range(devices)),
            )
            for f, ((u, v), cost) in enumerate(flows.items())
        ),
    )


def fork_joins(seed: int, blocks: int = 6, inside: int = 8, devices: int = 4, separate: bool = True) -> MakespanProblem:
    """Blocks with random operators and links; without separators, blocks are tied past each other."""
    rng = random.Random(seed)

    def matrix() -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(0.0 if a == b else rng.randint(1, 40) / 10 for b in range(devices)) for a in range(devices))

    edges: list[tuple[int, int]] = []
    join = 0
    for _ in range(blocks):
        first, last = join + 1, join + inside + 1
        for v in range(first, last):
            before = [u for u in range(first, v) if rng.random() < 0.3]
            edges += [(u, v) for u in before[:2]] or [(join, v)]
        closed = {u for u, _ in edges}
        edges += [(v, last) for v in range(first, last) if v not in closed]
        join = last
    if not separate:
        edges += [(v, v + inside + 2) for v in range(join - inside - 2) if v % 2]
    return MakespanProblem(
        name=f"fork joins {seed}",
        devices=tuple(Device(name=f"d{d}") for d in range(devices)),
        operators=tuple(
            MakespanOperator(
                id=v, times=tuple(rng.randint(1, 60) / 10 for _ in range(devices)), memory=1.0, type=TYPES[v % 4]
            )
            for v in range(join + 1)
        ),
        flows=tuple(
            MakespanFlow(id=f, source=u, target=v, times=matrix()) for f, (u, v) in enumerate(dict.fromkeys(edges))
        ),
    )


def optimum(problem: MakespanProblem, options: MakespanOptions) -> float | None:
    """By trying everything; remembered, because every component asks."""
    return _remembered(msgspec.json.encode(problem))


@lru_cache(maxsize=5_000)
def _remembered(encoded: bytes) -> float | None:
    return best_makespan(msgspec.json.decode(encoded, type=MakespanProblem))


def check(problem: MakespanProblem, plan: MakespanPlan, options: MakespanOptions) -> None:
    """The evaluator agrees with an independent one."""
    found = evaluate(problem, plan)
    value, broken = judge(problem, plan)
    assert found.feasible != broken, found.violations
    assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-12)


_FREE = {"sender_congestion": False, "receiver_congestion": False, "serial_operators": False}

SAMPLES = Samples(
    families=(
        Family("plain", makespan_problems(), row(devices=2)),
        Family("limits", makespan_problems(limits=True), DIAMOND),
        Family("switches", makespan_problems(congestion=None), row(devices=2).replace(sender_congestion=False)),
        Family("thirds", makespan_problems(thirds=True), row((1 / 3, 2 / 7, 0.1), devices=2)),
        Family("separators", chain_problems(blocks=(2, 3), most=2), row((1.0, 2.0, 3.0, 1.0, 2.0), devices=2)),
    ),
    optimum=optimum,
    check=check,
    # Too little room for all; room for all, but operators of three quarters of a device each.
    infeasible=(
        row(devices=2, memory=1.0),
        row(devices=2).replace(
            devices=(Device(name="a", memory=2.0), Device(name="b", memory=2.0)),
            operators=tuple(MakespanOperator(id=v, times=(1.0, 1.0), memory=1.25) for v in range(3)),
        ),
    ),
    floors=((row(), 6.0), (row((4.0, 4.0, 4.0, 4.0)), 16.0)),
    large=(fork_joins(1), fork_joins(2, separate=False), fork_joins(3, blocks=12).replace(**_FREE)),
)
