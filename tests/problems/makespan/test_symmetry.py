"""Devices that can change places: schedules with them swapped are as long."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np

from partita.engines.search.incumbent import Incumbent
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.symmetry import evened, interchangeable, renumberings
from problems.makespan.samples import fork_joins


def alike(seed: int, among: tuple[int, ...], devices: int = 4) -> MakespanProblem:
    """A few operators; some devices are as the first of them, and as far from each other."""
    problem = fork_joins(seed, blocks=1, inside=3, devices=devices)
    like = [among[0] if d in among else d for d in range(devices)]

    def times(row: tuple[float | None, ...]) -> tuple[float | None, ...]:
        return tuple(row[d] for d in like)

    def moved(matrix: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        inside = matrix[among[0]][among[1]]
        return tuple(
            tuple(
                0.0 if a == b else inside if a in among and b in among else matrix[like[a]][like[b]]
                for b in range(devices)
            )
            for a in range(devices)
        )

    return problem.replace(
        operators=tuple(msgspec.structs.replace(op, times=times(op.times)) for op in problem.operators),
        flows=tuple(msgspec.structs.replace(flow, times=moved(flow.times)) for flow in problem.flows),
    )


def renumbered(plan: MakespanPlan, number: np.ndarray) -> MakespanPlan:
    """A schedule with other numbers of devices."""
    return msgspec.structs.replace(
        plan,
        operators={
            i: msgspec.structs.replace(one, device=int(number[one.device])) for i, one in plan.operators.items()
        },
        flows={
            i: msgspec.structs.replace(one, source=int(number[one.source]), target=int(number[one.target]))
            for i, one in plan.flows.items()
        },
    )


def test_what_is_found() -> None:
    """Those made alike, and no others; renumbered schedules are schedules as long as the best one."""
    for seed in range(6):
        for among in itertools.combinations(range(4), 2 + seed % 2):
            problem = alike(seed, among)
            instance, best = build_instance(problem), Incumbent[MakespanPlan]()
            classes = interchangeable(instance)
            assert classes == [list(among)]
            numbers = renumberings(4, classes)
            assert numbers[0].tolist() == [0, 1, 2, 3, -1]
            assert len({*map(tuple, numbers.tolist())}) == len(numbers) == (2 if len(among) == 2 else 6)
            assert try_everything(instance, best)
            assert best.answer is not None
            for number in numbers:
                found = evaluate(problem, renumbered(best.answer, number))
                assert found.feasible, found.violations
                assert found.objective == best.value
            with_less = [
                msgspec.structs.replace(d, memory=9.0 + (k == among[1])) for k, d in enumerate(problem.devices)
            ]
            apart = interchangeable(build_instance(problem.replace(devices=tuple(with_less))))
            assert all(among[1] not in row for row in apart)


def test_links_are_looked_at_in_both_directions() -> None:
    """Also between the two, and one operator's time is enough to tell devices apart."""
    problem = alike(1, (0, 1))
    for a, b in ((0, 1), (0, 2), (2, 0)):
        first, *rest = problem.flows
        made = [list(row) for row in first.times]
        made[a][b] += 1.0
        other = msgspec.structs.replace(first, times=tuple(map(tuple, made)))
        assert interchangeable(build_instance(problem.replace(flows=(other, *rest)))) == []
    op, *ops = problem.operators
    slower = msgspec.structs.replace(op, times=((op.times[0] or 0.0) + 1.0, *op.times[1:]))
    assert interchangeable(build_instance(problem.replace(operators=(slower, *ops)))) == []


def test_many_devices() -> None:
    """Large classes are divided; means are taken in each."""
    problem = fork_joins(1, blocks=1, inside=2, devices=8)
    like = problem.replace(
        operators=tuple(msgspec.structs.replace(op, times=(1.0,) * 8) for op in problem.operators),
        flows=tuple(
            msgspec.structs.replace(
                flow, times=tuple(tuple(0.0 if a == b else 2.0 for b in range(8)) for a in range(8))
            )
            for flow in problem.flows
        ),
    )
    classes = interchangeable(build_instance(like))
    assert classes == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(renumberings(8, classes)) == 576
    assert evened(np.arange(8.0), classes).tolist() == [1.5] * 4 + [5.5] * 4
