"""The evaluator: every rule by hand, and against an independent one on random plans."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

import partita as pt
from partita.ground.errors import InputError
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan, complete, on_accelerators
from partita.problems.latency.problem import LatencyOperator, LatencyProblem
from problems.latency.brute_force import judge
from problems.latency.random_problems import random_problem


def op(identity: int, **changes: object) -> LatencyOperator:
    """CPU time 10, accelerator time 1, transfer time 2, memory 4."""
    fields = {"cpu_time": 10.0, "accelerator_time": 1.0, "transfer_time": 2.0, "memory_bytes": 4.0}
    return LatencyOperator(id=identity, **(fields | changes))


def diamond(**changes: object) -> LatencyProblem:
    """1 → 2, 3 → 4."""
    fields: dict[str, object] = {
        "name": "diamond",
        "accelerators": 2,
        "memory_bytes": 12.0,
        "operators": (op(1), op(2, transfer_time=3.0), op(3), op(4)),
        "edges": ((1, 2), (1, 3), (2, 4), (3, 4)),
    }
    return LatencyProblem(**(fields | changes))


def plan(*rows: tuple[tuple[int, ...], ...]) -> LatencyPlan:
    return LatencyPlan(accelerators=rows)


def test_one_piece_pays_each_tensor_once() -> None:
    """1 on the CPU; 2, 3 and 4 read it, and it is moved in once; nothing is moved out."""
    found = evaluate(diamond(), plan(((2, 3, 4),)))
    (piece,) = found.accelerators[0].pieces
    assert (piece.start, piece.transfer_in, piece.compute, piece.transfer_out) == (10.0, 2.0, 3.0, 0.0)
    assert found.objective == piece.end == 15.0
    assert found.feasible
    assert [step.operator for step in found.critical_path] == [1, None]


def test_both_ends_of_a_transfer_pay() -> None:
    """1 moves out once for two readers; 4 reads 2 and 3."""
    found = evaluate(diamond(), plan(((1, 2),), ((3, 4),)))
    first, second = found.accelerators[0].pieces[0], found.accelerators[1].pieces[0]
    assert (first.transfer_in, first.compute, first.transfer_out, first.end) == (0.0, 2.0, 5.0, 7.0)
    assert (second.start, second.transfer_in, second.compute, second.end) == (7.0, 5.0, 2.0, 14.0)
    assert found.objective == 14.0


def test_the_cpu_runs_in_parallel_and_pays_nothing() -> None:
    assert evaluate(diamond(), plan()).objective == 30.0


def test_memory_and_critical_path_of_every_accelerator() -> None:
    found = evaluate(diamond(), plan(((1, 2),), ((3, 4),)))
    assert [one.memory_bytes for one in found.accelerators] == [8.0, 8.0]
    assert [(step.device, step.piece, step.start, step.end) for step in found.critical_path] == [
        (0, 0, 0.0, 7.0),
        (1, 0, 7.0, 14.0),
    ]


def test_the_critical_path_ends_with_what_ends_last_and_takes_the_first_of_equal_ways() -> None:
    assert [step.operator for step in evaluate(diamond(), plan()).critical_path] == [1, 2, 4]
    assert [step.operator for step in evaluate(diamond(edges=()), plan()).critical_path] == [1]
    long = diamond(operators=(op(1, cpu_time=50.0), op(2), op(3), op(4)), edges=((2, 3),))
    assert [step.operator for step in evaluate(long, plan()).critical_path] == [1]


def test_pieces_of_an_accelerator_take_turns() -> None:
    """2 and 3 do not depend on each other; on one accelerator one waits for the other."""
    apart = evaluate(diamond(), plan(((2,),), ((3,),)))
    turns = evaluate(diamond(pieces=2), plan(((3,), (2,))))
    assert apart.objective == 10.0 + (2 + 1 + 3) + 10.0
    assert turns.objective == 10.0 + (2 + 1 + 2) + (2 + 1 + 3) + 10.0
    assert evaluate(diamond(pieces=2), plan(((2, 3),))).objective == 10.0 + (2 + 2 + 5) + 10.0


@pytest.mark.parametrize(
    ("changes", "rows", "message"),
    [
        ({"memory_bytes": 7.0}, (((1, 2),),), "accelerator 0 needs 8 B, 1 B more than its 7 B"),
        ({}, (((1,), (2,)),), r"accelerator 0 has 2 pieces, at most 1 are allowed \(--pieces\)"),
        ({"accelerators": 1}, (((1,),), ((2,),)), "names 2 accelerators, the problem has 1"),
        ({}, (((1, 4),),), "wait for each other in a circle: among piece 0 of accelerator 0"),
        ({}, (((1, 4),), ((2, 3),)), "circle: among piece 0 of accelerator 0, piece 0 of accelerator 1"),
        ({"pieces": 2}, (((2,), (1,)),), "circle"),
        (
            {"operators": (op(1, accelerator_time=None, name="sort"), op(2), op(3), op(4))},
            (((1,),),),
            r"operator 1 \(sort\) cannot run on an accelerator, and is on accelerator 0",
        ),
        (
            {"operators": (op(1, colocation=7), op(2), op(3), op(4, colocation=7))},
            (((1,),),),
            "operator 4 is on the CPU, others of its colocation class 7 on accelerator 0",
        ),
        (
            {"operators": (op(1), op(2), op(3), op(4, backward=True))},
            (((3, 4),),),
            "piece 0 of accelerator 0 has forward and backward operators",
        ),
    ],
)
def test_violations_name_what_is_wrong(changes: dict[str, object], rows: object, message: str) -> None:
    found = evaluate(diamond(**changes), LatencyPlan(accelerators=rows))
    assert not found.feasible
    with pytest.raises(AssertionError, match=message):
        assert not found.violations, "\n".join(found.violations)
    assert ("circle" in message) == math.isinf(found.objective)


def test_colocation_is_per_accelerator_not_per_piece() -> None:
    classed = diamond(operators=(op(1, colocation=7), op(2), op(3), op(4, colocation=7)), pieces=2)
    assert evaluate(classed, plan(((1,), (4,)))).feasible


def test_training_has_pieces_of_both_passes() -> None:
    """Backward operators are a piece of their own, which may run first."""
    ops = (op(1, colocation=1), op(2, colocation=1, backward=True))
    step = diamond(operators=ops, edges=((1, 2),))
    assert evaluate(step, plan(((1,), (2,)))).objective == (1 + 2) + (2 + 1)
    assert evaluate(step, plan(((1,), (2,)))).feasible
    apart = diamond(operators=ops, edges=())
    assert evaluate(apart, plan(((2,), (1,)))).objective == 2.0
    third = diamond(operators=(*ops, op(3)), edges=((1, 2),))
    assert "has 2 forward pieces" in evaluate(third, plan(((1,), (3,), (2,)))).violations[0]


def test_free_splits_are_cut_by_the_formula() -> None:
    """What comes back after leaving is a later piece; what stays beside it is not."""
    found = complete(diamond(), on_accelerators([[1, 3, 4], [2]]))
    assert found == plan(((1, 3), (4,)), ((2,),))
    worth = evaluate(diamond(pieces=2, memory_bytes=None), on_accelerators([[1, 3, 4], [2]]))
    assert worth == evaluate(diamond(pieces=2, memory_bytes=None), found)
    assert worth.objective == (1 + 1 + 4) + (2 + 1 + 3) + (3 + 2 + 1)
    assert complete(diamond(), found) is found


def test_what_is_on_the_cpu_ends_a_piece_only_between_operators() -> None:
    """What waits for the CPU alone is no later than what waits for nothing; what waits for both comes later."""
    shared = diamond(edges=((1, 2),))
    assert complete(shared, on_accelerators([[2, 3], [4]])) == plan(((2, 3),), ((4,),))
    assert complete(diamond(edges=((1, 3), (2, 3), (3, 4))), on_accelerators([[1, 4]])) == plan(((1,), (4,)))
    assert complete(diamond(), on_accelerators([[1], [4]])) == plan(((1,),), ((4,),))


def test_passes_are_cut_apart() -> None:
    step = diamond(operators=(op(1), op(2), op(3, backward=True), op(4, backward=True)))
    assert complete(step, on_accelerators([[1, 2, 3, 4]])) == plan(((1, 2), (3, 4)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((((1,), ()),), "piece 1 of accelerator 0 has no operators"),
        ((((1, 9),),), "there is no operator with id 9"),
        (
            (((1, 2),), ((2,),)),
            "operator 2 is placed twice, in piece 0 of accelerator 0 and in piece 0 of accelerator 1",
        ),
    ],
)
def test_what_is_no_plan_is_refused(rows: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(diamond(), LatencyPlan(accelerators=rows))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operators": ()}, "has no operators"),
        ({"accelerators": -1}, "accelerators is -1"),
        ({"pieces": 0}, "pieces is 0"),
        ({"memory_bytes": -1.0}, "memory_bytes is -1.0"),
        ({"operators": (op(1), op(1)), "edges": ()}, "id 1 appears twice"),
        ({"operators": (op(1, cpu_time=math.nan),), "edges": ()}, "operator 1: cpu_time is nan"),
        ({"operators": (op(1, transfer_time=-1.0),), "edges": ()}, "transfer_time is -1.0"),
        ({"edges": ((1, 9),)}, "there is no operator with id 9"),
        ({"edges": ((1, 1),)}, "cycle of one operator"),
        ({"edges": ((1, 2), (1, 2))}, "appears twice"),
        ({"edges": ((1, 2), (2, 1))}, "1 → 2 → 1|2 → 1 → 2"),
    ],
)
def test_problems_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        diamond(**changes)


def test_changes() -> None:
    problem = diamond()
    assert problem.replace(memory_bytes=math.inf).memory_bytes is None
    assert problem.scale_communication(2.0).operators[0].transfer_time == 4.0
    assert problem.scale_communication(1.0) is problem
    with pytest.raises(InputError, match="communication scale is -1"):
        problem.scale_communication(-1.0)


def test_agrees_with_an_independent_evaluator() -> None:
    """On random plans, most of which break something."""
    counts = {True: 0, False: 0}
    for seed in range(600):
        problem = random_problem(seed, most=6, training=seed % 3 == 0)
        rng = random.Random(seed)
        rows: list[list[list[int]]] = [[[] for _ in range(rng.randint(1, 2))] for _ in range(rng.randint(0, 3))]
        for one in problem.operators:
            if rows and rng.random() < 0.6:
                rng.choice(rng.choice(rows)).append(one.id)
        made = LatencyPlan(accelerators=tuple(tuple(tuple(piece) for piece in row if piece) for row in rows))
        found = pt.evaluate(problem, made)
        value, fine = judge(problem, made)
        assert found.feasible == fine, (seed, found.violations)
        if not any(v for v in found.violations if "cannot run" in v):
            assert found.objective == pytest.approx(value), seed
        counts[fine] += 1
        assert msgspec.json.decode(msgspec.json.encode(made), type=LatencyPlan) == made
    assert min(counts.values()) >= 60
