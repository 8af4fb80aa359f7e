"""Prices on memory along a chain: bounds hold at any prices, and plans made of the blocks keep the limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.priced import PricedChain, binds
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.local_search import search
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.solvers.entries import Chosen, Entry, held_by_schedule, joined, length
from partita.problems.makespan.solvers.exact import MakespanExact
from partita.problems.makespan.solvers.priced import close_priced
from partita.problems.makespan.thinning import Thinned, not_thinned, thin
from partita.problems.makespan.transformers import transformer_problem
from problems.makespan.test_thinning import beside

needs_program = pytest.mark.skipif(
    MakespanExact().supports(beside(0), MakespanOptions()) is not None, reason="ortools is not installed"
)


def parts_of(instance: MakespanInstance, seed: int) -> Thinned | None:
    """Thinned, or as it is where it has separators."""
    thinned = thin(instance, slacks=(0,), fewest=1, small=1)
    return not_thinned(instance) if thinned is None and seed % 2 else thinned


def tight(seed: int) -> MakespanProblem:
    """Memory for most of what there is on each device, so that some schedules do not fit."""
    problem = beside(seed, memory=True)
    held = sum(op.memory for op in problem.operators)
    room = held * (0.35 + 0.1 * (seed % 4)) + 1
    return problem.replace(devices=tuple(type(d)(name=d.name, memory=float(round(room))) for d in problem.devices))


@needs_program
@pytest.mark.parametrize("count", [60, pytest.param(900, marks=pytest.mark.slow)])
def test_against_trying_everything(count: int) -> None:
    """At random prices, at the best, and of the program, what is proven is below the optimum; plans are schedules."""
    compared = dear = above = planned = 0
    for seed in range(count):
        problem = tight(seed)
        instance, best = build_instance(problem), Incumbent[MakespanPlan]()
        parts = parts_of(instance, seed)
        if parts is None or not binds(instance) or not try_everything(instance, best, steps=100_000):
            continue
        optimum = best.value
        compared += 1
        chain = PricedChain(parts.chain, instance, parts.left_out)
        assert chain.fill(Monitor(60.0), np.zeros(1, dtype=np.int64))
        free = chain.path(np.zeros(instance.devices)).value
        draws, stop = np.random.default_rng(seed), np.zeros(1, dtype=np.int64)
        for _ in range(4):
            path = chain.path(draws.exponential(2.0, instance.devices) * chain.limited)
            assert path.value <= optimum * (1 + 1e-9), seed
            chain.refine(path, stop)
        top = chain.ascend(
            np.zeros(instance.devices), optimum if math.isfinite(optimum) else 2 * free + 1, 60, Monitor(10.0), stop
        )
        assert top.value <= optimum * (1 + 1e-9), seed
        dear += bool(top.price.any())
        above += top.value > 1.001 * chain.path(np.zeros(instance.devices)).value
        if seed % 6 or best.answer is None:
            continue
        found = Incumbent[MakespanPlan]()
        close_priced(parts, found, MakespanOptions(threads=1), Monitor(10.0))
        assert found.bound <= optimum * (1 + 1e-9), seed
        if found.answer is not None:
            planned += 1
            assert evaluate(problem, found.answer).feasible
    assert compared >= count * 0.7
    assert min(dear, above) >= count * 0.2
    assert planned >= count / 12


def test_schedules_of_entries_and_what_they_hold() -> None:
    """Joined entries last as long as they say and hold what they say; what is left out goes where it is asked to."""
    compared = asked = moved = 0
    for seed in range(60):
        instance = build_instance(tight(seed))
        parts = parts_of(instance, seed)
        if parts is None or not binds(instance):
            continue
        chain, stop = PricedChain(parts.chain, instance, parts.left_out), np.zeros(1, dtype=np.int64)
        assert chain.fill(Monitor(60.0), stop)
        price = np.random.default_rng(seed).exponential(2.0, instance.devices) * chain.limited
        while chain.refine(chain.path(price), stop):
            pass
        entries = [
            Entry(k, way, parts.chain.rows[k].index(a), parts.chain.rows[k + 1].index(b), a, b)
            for k, way, a, b in chain.path(price).entries
        ]
        plan = joined(chain, [Chosen(entry, ()) for entry in entries])
        if plan is None:
            continue
        compared += 1
        worth, held = evaluate(parts.instance.problem, plan), [held_by_schedule(chain, entry) for entry in entries]
        assert worth.objective <= sum(length(chain, entry) for entry in entries) * (1 + 1e-9)
        assert np.allclose(np.sum([own for own in held if own is not None], axis=0), worth.memory)
        best = Incumbent[MakespanPlan]()
        free = parts.put_back(plan, best, limits=False)
        assert free is not None
        assert best.answer is None
        later = parts.later(free)
        assert (later.min(axis=1, initial=0.0) == 0).all()
        moved += bool((later[np.isfinite(later)] > 0).any())
        homes = {g: int(np.flatnonzero(np.isfinite(row))[-1]) for g, row in zip(parts.out_groups, later, strict=True)}
        if parts.put_back(plan, best, homes) is not None and best.answer is not None:
            asked += 1
            assert evaluate(instance.problem, best.answer).feasible
    assert compared >= 40
    assert asked >= 10
    assert moved >= 20


@needs_program
def test_memory_of_a_transformer() -> None:
    """What prices prove is near to what the program plans; without them far less is proven."""
    instance, best = build_instance(transformer_problem(0, encoders=2, decoders=2, devices=3, room=1.15)), Incumbent()
    parts = thin(instance)
    assert parts is not None
    search(instance, best, seed=0, rounds=1)
    assert close_priced(parts, best, MakespanOptions(threads=1), Monitor(60.0))
    chain = PricedChain(parts.chain, instance, parts.left_out)
    assert chain.fill(Monitor(60.0), np.zeros(1, dtype=np.int64))
    assert chain.path(np.zeros(3)).value < 0.95 * best.bound
    assert best.bound > 0.9 * best.value
