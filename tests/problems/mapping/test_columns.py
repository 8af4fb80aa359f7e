"""Shares of columns in islands: programs that every mapping within their limit solves."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from partita.engines.mip.backend import BackendSettings, Talk
from partita.engines.mip.cpsat import solve
from partita.engines.mip.model import QUIET
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds import columns
from partita.problems.mapping.bounds.columns import Columns, columns_bound
from partita.problems.mapping.bounds.layout_program import LayoutProgram
from partita.problems.mapping.bounds.layouts import layouts_within
from partita.problems.mapping.bounds.part_program import PartProgram
from partita.problems.mapping.bounds.parts import Column, Island, partitions
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.bounds.shares import Shares
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import Form, Placement
from problems.mapping.brute_force import best_objective
from problems.mapping.large_problems import pipeline_on
from problems.mapping.random_problems import random_problem

pytest.importorskip("ortools")


def infeasible(program: Shares) -> bool:
    """In this process, which is faster than another one for programs as small."""
    return solve(program.model, BackendSettings(), Talk(program.model, QUIET, None)).infeasible


def refuted(column: Column, islands: list[Island], limit: float) -> bool:
    """By parts."""
    program = PartProgram(column, islands, up_to(limit), lambda: False)
    column.forget()
    return infeasible(program)


def of_layouts(instance: MappingInstance, islands: list[Island], limit: float) -> LayoutProgram | None:
    """None where layouts are too many for a quick test."""
    layouts = layouts_within(instance, islands, up_to(limit), 1_000)
    return None if layouts is None else LayoutProgram(instance, islands, up_to(limit), layouts)


def solved_by(program: LayoutProgram, plan: Placement) -> bool:
    """Whether the columns of a mapping, counted by layout, are part of a solution."""
    home = {int(d): i for i, island in enumerate(program.islands) for d in island.members}
    counts = Counter(tuple(home[d] for d in column) for column in zip(*plan.placement, strict=True))
    for number, row in zip(program.number, program.layouts.islands.tolist(), strict=True):
        program.model.fix(number, counts.pop(tuple(row), 0))
    return not counts and not infeasible(program)


@pytest.mark.parametrize("form", ["both", "point-to-point", "all-reduce"])
def test_the_best_mapping_is_never_refuted(form: Form) -> None:
    """Of all problems of up to seven devices that have islands; a little below, many are."""
    looked, tight = 0, 0
    for seed in range(100):
        problem = random_problem(seed, form)
        instance = MappingInstance(problem)
        column = Column(instance)
        best = best_objective(problem)
        assert best is not None
        for islands in partitions(instance):
            looked += 1
            assert not refuted(column, islands, best), problem.name
            if seed % 3 == 0:
                program = of_layouts(instance, islands, best)
                assert program is not None
                assert not infeasible(program), problem.name
            tight += best > 0 and refuted(column, islands, best * 0.98)
    assert looked > 40
    assert tight > 15


@pytest.mark.parametrize(
    ("stages", "replicas", "where"),
    [
        (4, 4, "dgx1:2"),
        (5, 4, "two-level:5x4"),
        (4, 6, "random-blk-2:24:seed=3"),
        (3, 7, "random-blk-2:24"),
        (4, 6, "random-blk-1:24"),
        (6, 2, "random-blk-2:12"),
    ],
)
def test_no_mapping_is_refuted(stages: int, replicas: int, where: str) -> None:
    """Neither any one at its own time, nor those that search finds."""
    import partita as pt

    problem = pipeline_on(where, stages, replicas, 1)
    instance = MappingInstance(problem)
    column, draw = Column(instance), random.Random(1)
    found = [pt.solve(problem, solver="swap-annealing", seed=seed, time_limit_s=0.3).plan for seed in range(2)]
    for _ in range(3):
        devices = draw.sample(range(instance.devices), instance.count)
        found.append(instance.plan(np.array(devices)))
    looked, whole = 0, 0
    for plan in found:
        assert isinstance(plan, Placement)
        value = evaluate(problem, plan).objective
        for islands in partitions(instance):
            looked += 1
            assert not refuted(column, islands, value)
            program = of_layouts(instance, islands, value)
            whole += program is not None
            assert program is None or solved_by(program, plan)
    assert looked >= len(found)
    assert whole >= 2


def test_whole_columns_refute_what_parts_do_not() -> None:
    """Six blocks in a row: how far stages are apart all at once says how far rings reach. The best takes 0.5956 s."""
    problem = pipeline_on("random-blk-2:36:seed=0", 3, 12, 1)
    instance = MappingInstance(problem)
    islands = next(partitions(instance))
    assert not refuted(Column(instance), islands, 0.59)
    program = of_layouts(instance, islands, 0.59)
    assert program is not None
    assert infeasible(program)


def test_whole_columns_do_not_fill_machines_of_another_size() -> None:
    """Three stages on machines of four devices: one of each machine's devices is left for a column that is cut.

    Fast links take 1 s, slow ones 100 s; transfers are 1 byte and there are no parameters. Four columns on three
    machines: somewhere a column has to leave its machine, so somebody takes 100 s, and the one between two of them 101.
    """
    from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer

    def link(a: int, b: int) -> float:
        return 0.0 if a == b else 1.0 if a // 4 == b // 4 else 0.01

    problem = MappingProblem(
        name="threes in fours",
        replicas=4,
        stages=tuple(MappingStage(name=str(s), time_s=0.0) for s in range(3)),
        transfers=tuple(MappingTransfer(source=s, target=s + 1, bytes=1.0) for s in range(2)),
        bandwidth_bytes_per_s=tuple(tuple(link(a, b) for b in range(12)) for a in range(12)),
    )
    assert Columns().bound(problem, Monitor()).value == pytest.approx(101.0, rel=5e-3)


def test_a_ring_does_not_pass_a_device_alone() -> None:
    """One stage of six replicas on machines of 3, 1 and 3 devices in a row, one device to spare.

    Links take 1 s in a machine, 10 s to the next one and 100 s beyond, each for 10/6 bytes. Six devices are in both
    large machines, so that the ring goes from one to the other and back: once through the small one, and once past it.
    """
    from partita.problems.mapping.problem import MappingProblem, MappingStage

    home = (0, 0, 0, 1, 2, 2, 2)

    def link(a: int, b: int) -> float:
        return 0.0 if a == b else (1.0, 0.1, 0.01)[abs(home[a] - home[b])]

    problem = MappingProblem(
        name="three rooms",
        replicas=6,
        stages=(MappingStage(name="one", time_s=0.0, parameter_bytes=1.0),),
        bandwidth_bytes_per_s=tuple(tuple(link(a, b) for b in range(7)) for a in range(7)),
    )
    best = best_objective(problem)
    assert best == pytest.approx(10 / 6 * 100.0)
    assert Columns().bound(problem, Monitor()).value == pytest.approx(best, rel=5e-3)
    # Both backends together say the same, in smaller steps.
    again = columns_bound(
        MappingInstance(problem), best / 2, lambda: 1.2 * best, lambda: False, again=True, racing=lambda: True
    )
    assert again <= best * (1 + 1e-9)
    assert again == pytest.approx(best, rel=5e-3)


def test_what_is_given_up_is_asked_closer_to_the_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second turn only, and what is refuted there counts."""
    instance = MappingInstance(pipeline_on("random-blk-2:24:seed=3", 4, 6, 1))
    asked: list[float] = []

    def ask(self: object, islands: list[Island], target: float, *, sided: bool, whole: bool = True) -> Status:
        asked.append(target)
        return (Status.UNKNOWN, Status.INFEASIBLE, *[Status.OPTIMAL] * 98)[len(asked) - 1]

    monkeypatch.setattr(columns._Questions, "ask", ask)
    proven: list[float] = []
    low = columns_bound(instance, 1.0, lambda: 2.0, lambda: False, proven.append, again=True)
    assert asked[:2] == [1.25, 1.625]
    assert low == 1.625
    assert proven == pytest.approx([1.625])
    assert max(asked) < 2.0
    asked.clear()
    monkeypatch.setattr(Passages, "ceiling", lambda self, low, high: low)
    columns_bound(instance, 1.0, lambda: 2.0, lambda: False)
    assert asked[1] < asked[0] == pytest.approx(1 + 1 / 3)
