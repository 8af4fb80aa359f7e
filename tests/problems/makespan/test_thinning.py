"""Without operators beside all others there are separators; bounds hold for the whole, and schedules get them back."""

from __future__ import annotations

import random

import pytest

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.simple import impossible
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.separators import chain_of
from partita.problems.makespan.solvers.exact import MakespanExact
from partita.problems.makespan.solvers.path import ShortestPath
from partita.problems.makespan.thinning import Thinned, thin
from partita.problems.makespan.transformers import transformer_problem


def beside(seed: int, *, memory: bool = False) -> MakespanProblem:
    """A row of blocks, and operators beside it: read by several, or between an early and a late one; flows past some.

    A third has operators that share a device, or cannot run everywhere; devices differ, and so do links.
    """
    rng = random.Random(seed)
    devices = rng.choice((2, 3))
    edges: list[tuple[int, int]] = []
    join = count = 0
    joins = [0]
    while count < 6:
        inside = rng.choice((0, 1, 2))
        after = count + inside + 1
        edges += [pair for v in range(count + 1, after) for pair in ((join, v), (v, after))] or [(join, after)]
        join = count = after
        joins.append(join)
    for _ in range(rng.choice((1, 2))):
        count += 1
        ends = sorted(rng.sample(joins, 2))
        edges += [(count, ends[1])] + ([(ends[0], count)] if rng.random() < 0.6 else [])
        if rng.random() < 0.5 and ends[1] != joins[-1]:
            edges.append((count, joins[-1]))
    if rng.random() < 0.5:
        edges.append((joins[0], joins[-1]))
    held = [float(rng.randint(1, 4)) for _ in range(count + 1)]
    tied = rng.sample(range(count + 1), 2) if rng.random() < 0.3 else []

    def matrix() -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(0.0 if a == b else float(rng.randint(0, 6)) for b in range(devices)) for a in range(devices))

    def times(v: int) -> tuple[float | None, ...]:
        row: list[float | None] = [float(rng.randint(0, 8)) for _ in range(devices)]
        if v not in tied and rng.random() < 0.1:
            row[rng.randrange(devices)] = None
        return tuple(row)

    limit = float(round(sum(held) * rng.uniform(0.9, 1.4) / devices) + 2) if memory else None
    edges = [*dict.fromkeys(edges)]
    flows = [rng.random() < 0.85 for _ in edges]
    return MakespanProblem(
        name=f"beside {seed}",
        devices=tuple(Device(name=f"d{d}", memory=limit) for d in range(devices)),
        operators=tuple(
            MakespanOperator(id=v, times=times(v), memory=held[v], colocation=7 if v in tied else None)
            for v in range(count + 1)
        ),
        flows=tuple(
            MakespanFlow(id=f, source=u, target=v, times=matrix())
            for f, ((u, v), flow) in enumerate(zip(edges, flows, strict=True))
            if flow
        ),
        precedence=tuple(edge for edge, flow in zip(edges, flows, strict=True) if not flow),
    )


def without_slack(problem: MakespanProblem) -> Thinned | None:
    """Thinned as far as that goes."""
    return thin(build_instance(problem), slacks=(0,), fewest=1, small=1)


@pytest.mark.parametrize("count", [150, pytest.param(900, marks=pytest.mark.slow)])
def test_bounds_and_schedules_against_trying_everything(count: int) -> None:
    """The thinned optimum, and the bound of its path, are below that of the whole; what is put back is a schedule."""
    compared = out = bypassed = met = returned = 0
    for seed in range(count):
        problem = beside(seed, memory=seed % 3 == 0)
        thinned = without_slack(problem)
        instance, best = build_instance(problem), Incumbent[MakespanPlan]()
        if thinned is None or impossible(instance) or not try_everything(instance, best, steps=100_000):
            continue
        if best.answer is None:
            continue
        compared += 1
        out += bool(thinned.left_out)
        inside = {problem.operators[v].id for v in thinned.kept}
        mine = [flow for flow in problem.flows if flow.source in inside and flow.target in inside]
        bypassed += len(mine) > len(thinned.instance.problem.flows)
        shorter = evaluate(thinned.instance.problem, thinned.without(best.answer))
        assert shorter.feasible, (seed, shorter.violations)
        assert shorter.objective <= best.value * (1 + 1e-9)
        small = Incumbent[MakespanPlan]()
        assert try_everything(thinned.instance, small, steps=100_000)
        assert small.value <= shorter.objective * (1 + 1e-9), seed
        assert small.answer is not None
        met += small.value > 0.999 * best.value
        if seed % 5 == 0:
            path = Incumbent[MakespanPlan]()
            ShortestPath(thinned.chain, path, MakespanOptions(threads=1), Monitor(10.0)).close()
            assert path.bound <= small.value * (1 + 1e-9), seed
        whole = Incumbent[MakespanPlan]()
        thinned.put_back(small.answer, whole)
        if whole.answer is not None:
            returned += 1
            assert evaluate(problem, whole.answer).feasible
            assert whole.value >= best.value * (1 - 1e-9)
    assert compared >= count * 0.7
    assert min(out, returned) >= count * 0.6
    assert bypassed >= count * 0.2
    assert met >= count * 0.2


def test_what_is_left_out_of_a_transformer() -> None:
    """Layers are blocks without what is beside them, and equal layers equal."""
    instance = build_instance(transformer_problem(1, encoders=4, decoders=4))
    assert max(len(block.members) for block in chain_of(instance).blocks) > 100
    thinned = thin(instance)
    assert thinned is not None
    names = [instance.problem.operators[v].name for v in thinned.left_out]
    assert {"decoder.2.cross.k", "decoder.3.cross.v", "decoder.0.self.q", "target mask"} <= set(names)
    assert not any(name.startswith("encoder") or ".feed" in name for name in names)
    assert max(len(block.members) for block in thinned.chain.blocks) <= 16
    assert len({*thinned.chain.alike}) < len(thinned.chain.blocks) / 3


def test_what_has_separators_keeps_nearly_all() -> None:
    """What small blocks allow is put back."""
    instance = build_instance(transformer_problem(1, encoders=6, decoders=0))
    thinned = thin(instance)
    assert thinned is not None
    assert not thinned.left_out
    assert len(thinned.instance.problem.flows) > 0.9 * len(instance.problem.flows)


@pytest.mark.skipif(MakespanExact().supports(beside(0), MakespanOptions()) is not None, reason="ortools is missing")
def test_exact_uses_it() -> None:
    """A small transformer is closed by its thinned path."""
    instance, best = (
        build_instance(transformer_problem(0, encoders=2, decoders=2, devices=2, communication=4.0)),
        Incumbent[MakespanPlan](),
    )
    MakespanExact().search(instance, best, MakespanOptions(threads=1), Monitor(60.0))
    assert best.counters["left_out"] > 0
    assert best.answer is not None
    assert 0.9 * best.value < best.bound <= best.value
