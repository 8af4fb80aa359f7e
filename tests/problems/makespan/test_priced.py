"""Prices on memory along a chain: bounds hold at any prices, and plans made of the blocks keep the limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan import local_search
from partita.problems.makespan.bounds.priced import PricedChain, binds
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.local_search import search, settle, state_of
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.solvers import priced as solvers
from partita.problems.makespan.solvers.entries import Chosen, Entry, held_by_schedule, joined, length
from partita.problems.makespan.solvers.exact import MakespanExact
from partita.problems.makespan.solvers.guests import Guests
from partita.problems.makespan.solvers.pieces import PieceSearch
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
@pytest.mark.parametrize("count", [44, pytest.param(900, marks=pytest.mark.slow)])
def test_against_trying_everything(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At random prices, at the best, and of the program, what is proven is below the optimum; plans are schedules."""
    monkeypatch.setattr(solvers, "_MOVES", 500)
    compared = dear = above = planned = rarely = visited = 0
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
            price = draws.exponential(2.0, instance.devices) * chain.limited
            path = chain.path(price, draws.exponential(2.0, instance.devices) * np.isfinite(chain.cap))
            assert path.value <= optimum * (1 + 1e-9), seed
            rarely += path.value > chain.path(price).value
            chain.refine(path, stop)
        goal = optimum if math.isfinite(optimum) else 2 * free + 1
        top = chain.ascend(chain.path(np.zeros(instance.devices)), goal, 60, Monitor(10.0), stop)
        assert top.value <= optimum * (1 + 1e-9), seed
        visited += bool(top.visits.any())
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
    assert min(rarely, visited) >= count * 0.2


def test_least_of_tables() -> None:
    """Over all ways, with memory paid for and visits, as the arrays of all entries say it."""
    compared = 0
    for seed in range(20):
        instance = build_instance(tight(seed))
        parts = parts_of(instance, seed)
        if parts is None:
            continue
        chain, draws = PricedChain(parts.chain, instance, parts.left_out), np.random.default_rng(seed)
        assert chain.fill(Monitor(60.0), np.zeros(1, dtype=np.int64))
        given = draws.exponential(2.0, (3, instance.devices))
        for table in chain.tables.values():
            costs = table.priced(given[0]) + table.paid(given[1], given[2])
            best, ways = table.cheapest(*given)
            assert best == pytest.approx(costs.min(axis=0))
            assert np.take_along_axis(costs, ways[None], axis=0)[0] == pytest.approx(best)
            compared += costs[0].size > 1
    assert compared >= 20


def test_pieces_along_a_chain() -> None:
    """What a search takes fits, is as long as it says, makes a plan that is, too, and is no shorter than the bound."""
    compared = near = 0
    for seed in range(40):
        instance, stop = build_instance(tight(seed)), np.zeros(1, dtype=np.int64)
        parts = parts_of(instance, seed)
        if parts is None or not binds(instance):
            continue
        chain = PricedChain(parts.chain, instance, parts.left_out)
        assert chain.fill(Monitor(60.0), stop)
        path = chain.ascend(chain.path(np.zeros(instance.devices)), 1e3, 60, Monitor(10.0), stop)
        costs = np.where(chain.out_able, 0.0, math.inf)
        found = PieceSearch(chain, path, Guests(parts, 1e6), seed, threads=1, stop=stop).search(costs, 2_000, stop)
        if found is None:
            continue
        compared += 1
        assert found.length >= path.value * (1 - 1e-9), seed
        near += found.length <= path.value * 1.1
        plan = joined(chain, found.chosen)
        assert plan is not None
        worth = evaluate(parts.instance.problem, plan)
        assert worth.objective <= found.length * (1 + 1e-9)
        held = np.array(worth.memory) + np.bincount(found.homes, chain.out_sizes, instance.devices)
        assert (held <= instance.most_held).all(), seed
    assert compared >= 15
    assert near >= 8


def test_settling_what_is_left_out() -> None:
    """Only what is picked moves, limits are kept, and a state that fits gets no worse."""
    better = 0
    for seed in range(20):
        instance, best = build_instance(tight(seed)), Incumbent[MakespanPlan]()
        search(instance, best, seed=0, rounds=0)
        if best.answer is None:
            continue
        state, value = state_of(instance, best.answer), best.value
        picks = np.random.default_rng(seed).permutation(instance.count)[: instance.count // 2]
        device, _ = settle(instance, best, state, picks.tolist(), seed=seed, rounds=2)
        stay = np.setdiff1d(np.arange(instance.count), picks)
        assert (device[stay] == state[0][stay]).all()
        assert best.value <= value
        better += best.value < value
        assert (np.bincount(device, instance.arrays.memory, instance.devices) <= instance.most_held).all()
    assert better >= 3


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
def test_memory_of_a_transformer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What prices prove is near to what the program plans; without them far less is proven."""
    monkeypatch.setattr(solvers, "_MOVES", 2_000)
    instance, best = build_instance(transformer_problem(0, encoders=2, decoders=2, devices=3, room=1.15)), Incumbent()
    parts = thin(instance)
    assert parts is not None
    search(instance, best, seed=0, rounds=1)
    assert close_priced(parts, best, MakespanOptions(threads=1), Monitor(60.0))
    chain = PricedChain(parts.chain, instance, parts.left_out)
    assert chain.fill(Monitor(60.0), np.zeros(1, dtype=np.int64))
    assert chain.path(np.zeros(3)).value < 0.95 * best.bound
    assert best.bound > 0.9 * best.value


@needs_program
def test_where_memory_costs_nothing_the_path_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of what paths hold together are not looked at then, which takes long and proves nothing."""
    finished: list[bool] = []
    monkeypatch.setattr(solvers._Plans, "finish", lambda self, path, *more: finished.append(path.price.any()))
    free = dear = 0
    for seed in range(40):
        problem = beside(seed, memory=True)
        room = float(round(sum(op.memory for op in problem.operators) * (0.4 if seed % 2 else 0.9)))
        problem = problem.replace(devices=tuple(type(d)(name=d.name, memory=room) for d in problem.devices))
        instance, best = build_instance(problem), Incumbent[MakespanPlan]()
        parts = parts_of(instance, seed)
        if parts is None or not binds(instance):
            continue
        before = len(finished)
        done = close_priced(parts, best, MakespanOptions(threads=1), Monitor(10.0))
        free += not done and len(finished) == before and not best.done
        dear += len(finished) > before
    assert all(finished)
    assert free >= 5
    assert dear >= 3


def test_large_problems_are_annealed_as_a_whole_only_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_search, "WHOLE", 3)
    instance, best = build_instance(tight(3)), Incumbent[MakespanPlan]()
    monkeypatch.setattr(local_search, "first_states", lambda instance: [])
    search(instance, best, seed=0, rounds=2)
    assert "rounds" not in best.counters
    state = np.zeros(instance.count, dtype=np.int32), instance.by_rank.copy()
    search(instance, best, seed=0, rounds=2, states=[state])
    assert best.counters["rounds"] == 2
    assert best.answer is not None
    search(instance, best, seed=0, rounds=2, states=[state])
    assert best.counters["rounds"] == 2
