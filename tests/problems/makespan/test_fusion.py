"""Problems of fused operators: against trying everything, back to the original operators, and from files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from partita.engines.mip.schedule import schedule_refusal
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.fusion import FusedProblem, fuse_problem, lift
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanChanges, change
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.schedules import list_schedule
from problems.makespan.brute_force import best_makespan
from problems.makespan.independent_evaluator import judge
from problems.makespan.samples import row
from problems.makespan.strategies import TYPES

CLOSE = 1 + 1e-9


def branches(seed: int, most: int = 12, *, limits: bool) -> MakespanProblem:
    """Operators that mostly have one reader, of types that are often a rule; memory and classes if limited."""
    rng = random.Random(seed)
    count, width = rng.randint(3, most), rng.randint(1, 3)

    def time() -> float:
        return rng.randint(0, 8) / 2

    edges = [(v, rng.randint(v + 1, min(v + 3, count - 1))) for v in range(count - 1)]
    edges += [(v, count - 1) for v in range(count - 2) if rng.random() < 0.1]
    kinds = [TYPES[0] if rng.random() < 0.3 else rng.choice(TYPES) for _ in range(count)]
    edges = list(dict.fromkeys(edges))
    cut = [rng.random() < 0.1 for _ in edges]
    return MakespanProblem(
        name=f"branches {seed}",
        devices=tuple(Device(name=f"d{d}", memory=count * 0.8 if limits else None) for d in range(width)),
        operators=tuple(
            MakespanOperator(
                id=3 * v,
                times=tuple(None if limits and d and rng.random() < 0.1 else time() for d in range(width)),
                type=kinds[v],
                memory=1.0 if limits else 0.0,
                colocation=rng.choice((1, 2)) if limits and rng.random() < 0.2 else None,
            )
            for v in range(count)
        ),
        flows=tuple(
            MakespanFlow(
                id=f,
                source=3 * u,
                target=3 * v,
                times=tuple(tuple(0.0 if a == b else time() for b in range(width)) for a in range(width)),
            )
            for f, (u, v) in enumerate(edges)
            if not cut[f]
        ),
        precedence=tuple((3 * u, 3 * v) for f, (u, v) in enumerate(edges) if cut[f]),
        sender_congestion=rng.random() < 0.7,
        receiver_congestion=rng.random() < 0.7,
        serial_operators=rng.random() < 0.9,
    )


def some_schedule(problem: MakespanProblem, seed: int) -> MakespanPlan:
    """Random devices that operators can run on, classes together, in the problem's order."""
    rng, instance = random.Random(seed), build_instance(problem)
    device = [0] * instance.count
    for members, choices in zip(problem.classes(), instance.choices, strict=True):
        home = rng.choice(choices or [0])
        for v in members:
            device[v] = home
    return list_schedule(instance, device, instance.order)


def check_fused(problem: MakespanProblem, fused: FusedProblem) -> None:
    """Every operator is in one group; times, memory and what may run where are those of the members."""
    known = {op.id: op for op in problem.operators}
    assert sorted(v for group in fused.groups.values() for v in group) == sorted(known)
    for op in fused.problem.operators:
        assert op.members == (fused.groups[op.id] if len(fused.groups[op.id]) > 1 else ())
        members = [known[v] for v in fused.groups[op.id]]
        assert op.memory == sum(m.memory for m in members)
        for d, time in enumerate(op.times):
            own = [m.times[d] for m in members]
            assert time == (None if None in own else sum(t for t in own if t is not None))


def test_every_schedule_of_fused_operators_is_one_of_the_original() -> None:
    """With congestion and without, with memory, classes and operators that do not run everywhere."""
    lifted = valid = 0
    for seed in range(400):
        problem = branches(seed, limits=seed % 2 == 1)
        fused = fuse_problem(problem)
        check_fused(problem, fused)
        if len(fused.problem.operators) == len(problem.operators):
            continue
        lifted += 1
        plan = some_schedule(fused.problem, seed)
        made = lift(problem, fused.groups, plan)
        worth, before = evaluate(problem, made), evaluate(fused.problem, plan)
        value, broken = judge(problem, made)
        assert worth.feasible != broken
        assert worth.feasible == before.feasible, worth.violations
        if before.feasible:
            valid += 1
            assert worth.objective <= before.objective * CLOSE
            assert value == pytest.approx(worth.objective)
    assert lifted >= 300
    assert valid >= 200


def test_fused_plans_are_no_better_than_the_best() -> None:
    """The best schedule of fused operators may be worse than that of the operators, and is never better."""
    compared = worse = 0
    for seed in range(140):
        problem = branches(seed, most=6, limits=seed % 2 == 1)
        fused = fuse_problem(problem)
        if len(fused.problem.operators) == len(problem.operators):
            continue
        coarse, best = best_makespan(fused.problem), best_makespan(problem)
        if coarse is None:
            continue
        assert best is not None
        compared += 1
        assert best <= coarse * CLOSE
        worse += coarse > best * CLOSE
    assert compared >= 70
    assert worse >= 5


@pytest.mark.skipif(schedule_refusal() is not None, reason="ortools is not installed")
def test_solvers_prove_fused_problems() -> None:
    """The default solver finds and proves what trying everything finds, on the problem with fused operators."""
    proven = 0
    for seed in range(60):
        problem = change(branches(seed, most=6, limits=seed % 2 == 1), MakespanChanges(fuse=True))
        best = best_makespan(problem)
        result = pt.solve(problem, time_limit_s=20, threads=1)
        if best is None:
            assert result.status is pt.Status.INFEASIBLE
            continue
        assert result.status is pt.Status.OPTIMAL
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-12)
        proven += 1
    assert proven >= 45


def test_what_is_proven_of_fused_operators_is_not_claimed() -> None:
    """Each of two operators is fast where the other is slow: fused they take ten, apart two."""
    link = ((0.0, 0.0), (0.0, 0.0))
    problem = MakespanProblem(
        name="pair",
        devices=(Device(name="a"), Device(name="b")),
        operators=(
            MakespanOperator(id=0, times=(1.0, 9.0), type="conv"),
            MakespanOperator(id=1, times=(9.0, 1.0), type="bn"),
        ),
        flows=(MakespanFlow(id=0, source=0, target=1, times=link),),
    )
    assert pt.solve(change(problem, MakespanChanges(fuse=True)), time_limit_s=10).objective == 10.0
    result = pt.solve(problem, solver="fused first", time_limit_s=10)
    assert result.objective == 2.0
    assert result.bound is not None
    assert result.bound.value <= 2.0


def test_members_that_share_no_device_are_left_alone() -> None:
    problem = row(devices=2)
    times: tuple[tuple[float | None, ...], ...] = ((1.0, None), (None, 1.0), (1.0, 1.0))
    operators = tuple(
        msgspec.structs.replace(op, times=t, type=kind)
        for op, t, kind in zip(problem.operators, times, ("conv", "bn", "pool"), strict=True)
    )
    fused = fuse_problem(problem.replace(operators=operators))
    assert len(fused.problem.operators) == 3


def test_groups_join_the_classes_of_their_members() -> None:
    problem = row(times=(1.0,) * 5, devices=2)
    kinds, classes = ("conv", "bn", "pool", "conv", "bn"), (None, 7, 7, None, None)
    operators = tuple(
        msgspec.structs.replace(op, type=kind, colocation=shared)
        for op, kind, shared in zip(problem.operators, kinds, classes, strict=True)
    )
    fused = fuse_problem(problem.replace(operators=operators), "moirai")
    assert fused.groups == {0: (0, 1), 2: (2,), 3: (3, 4)}
    first, pool, last = fused.problem.operators
    assert first.colocation is not None
    assert first.colocation == pool.colocation
    assert (first.type, last.colocation) == ("conv+bn", None)
    assert "2 × conv∘bn" in fused.problem.notes[-1]


def test_a_precedence_is_a_reader() -> None:
    """Something else waits for the batch norm: it would wait for the relu, too, if both were one."""
    problem = row(devices=2)
    assert fuse_problem(problem).groups == {0: (0, 1, 2)}
    other = MakespanOperator(id=9, times=(1.0, 1.0), type="pool")
    waiting = problem.replace(operators=(*problem.operators, other), precedence=((1, 9),))
    assert fuse_problem(waiting).groups == {0: (0, 1), 2: (2,), 9: (9,)}


def typed_file(path: Path) -> Path:
    link = [[0.0, 1.0], [1.0, 0.0]]
    document = {
        "devices": [{}, {}],
        "operators": [
            {"id": v, "time_ms": [1.0, 2.0], "type": kind} for v, kind in enumerate(("conv", "bn", "pool", "mine"))
        ],
        "flows": [{"id": v, "source": v, "target": v + 1, "time_ms": link} for v in range(3)],
    }
    path.write_text(json.dumps(document))
    return path


def test_files_and_flags(partita: Any, tmp_path: Path) -> None:
    """Types of a file, and rules of another; plans are of the fused operators."""
    file = typed_file(tmp_path / "net.json")
    run = partita("solve", file, "--format", "moirai", "--json", "--time-limit", "10")
    assert (run.code, len(run.document["plan"]["operators"])) == (0, 4)
    run = partita("solve", file, "--format", "moirai", "--json", "--time-limit", "10", "--fuse")
    assert (run.code, set(run.document["plan"]["operators"])) == (0, {"0", "2", "3"})
    assert any("1 × conv∘bn" in note for note in run.document["notes"])
    assert run.document["fused"] == {"0": [0, 1]}
    rules = tmp_path / "rules.toml"
    rules.write_text('rules = [["pool", "mine"]]\n')
    run = partita("solve", file, "--format", "moirai", "--json", "--time-limit", "10", "--fusion-rules", rules)
    assert (run.code, set(run.document["plan"]["operators"])) == (0, {"0", "1", "2"})
    rules.write_text('rules = [["pool"]]\n')
    run = partita("solve", file, "--format", "moirai", "--fusion-rules", rules)
    assert run.code == 2
    assert "rule 1 (pool) fuses nothing" in run.err
    run = partita("solve", file, "--format", "moirai", "--fusion-rules", "nowhere")
    assert run.code == 2
    assert "no fusion rules 'nowhere'" in run.err
