"""Blocks of equal parts: what is said of them holds for every placement at every price."""

from __future__ import annotations

import itertools
import math
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np
import pytest

from partita.engines.kernels.makespan import patterns as kernels
from partita.engines.kernels.makespan.lists import schedule
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds import alike, priced, tables
from partita.problems.makespan.bounds.alike import PartsTable
from partita.problems.makespan.bounds.patterns import Patterns, parts_of
from partita.problems.makespan.bounds.priced import PricedChain
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.local_search import search
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.solvers import priced as solvers
from partita.problems.makespan.solvers.entries import joined
from partita.problems.makespan.solvers.exact import MakespanExact
from partita.problems.makespan.solvers.guests import Guests
from partita.problems.makespan.solvers.pieces import PieceSearch
from partita.problems.makespan.solvers.priced import close_priced
from partita.problems.makespan.thinning import not_thinned, thin
from partita.problems.makespan.transformers import transformer_problem
from partita.problems.makespan.windows import Windows


def heads(seed: int, *, deep: bool = True, blocks: int = 1, memory: bool = False) -> MakespanProblem:
    """Blocks of three equal parts of one or two operators that a hub joins, between operators that all pass."""
    rng = random.Random(seed)
    devices = 2 if blocks > 1 else rng.choice((2, 2, 3))
    names, edges = ["start"], []
    for _ in range(blocks):
        first = len(names) - 1
        lasts = []
        for _ in range(3):
            names.append("first")
            edges.append((first, len(names) - 1, "read"))
            if deep:
                names.append("second")
                edges.append((len(names) - 2, len(names) - 1, "inner"))
                if seed % 2:
                    edges.append((first, len(names) - 1, "read"))
            lasts.append(len(names) - 1)
        names.append("hub")
        edges += [(v, len(names) - 1, "part") for v in lasts]
        names.append("end")
        edges.append((len(names) - 2, len(names) - 1, "read"))
        if seed % 3 == 0:
            edges.append((first, len(names) - 1, "past"))

    def matrix() -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(0.0 if a == b else float(rng.randint(0, 5)) for b in range(devices)) for a in range(devices))

    kinds = {
        name: (tuple(float(rng.randint(0, 6)) for _ in range(devices)), float(rng.randint(0, 3))) for name in names
    }
    if seed % 5 == 0:
        kinds["first"] = (None, *kinds["first"][0][1:]), kinds["first"][1]
    tables = {kind: matrix() for kind in ("read", "inner", "part", "past")}
    total = sum(kinds[name][1] for name in names)
    limit = float(round(total * rng.uniform(0.5, 0.9)) + 1) if memory else None
    return MakespanProblem(
        name=f"heads {seed}",
        devices=tuple(Device(name=f"d{d}", memory=limit) for d in range(devices)),
        operators=tuple(
            MakespanOperator(id=v, name=name, times=kinds[name][0], memory=kinds[name][1])
            for v, name in enumerate(names)
        ),
        flows=tuple(MakespanFlow(id=f, source=u, target=v, times=tables[k]) for f, (u, v, k) in enumerate(edges)),
        sender_congestion=seed % 7 != 0,
        serial_operators=seed % 11 != 0,
    )


def table_of(problem: MakespanProblem, monkeypatch: pytest.MonkeyPatch) -> tuple[PricedChain, PartsTable | None]:
    """Of the block between the first and the last operator, small as it is."""
    monkeypatch.setattr(priced, "_FINE", 0)
    instance = build_instance(problem)
    chain = PricedChain(not_thinned(instance).chain, instance, ())
    assert chain.fill(Monitor(60.0), np.zeros(1, dtype=np.int64))
    return chain, next((table for table in chain.tables.values() if isinstance(table, PartsTable)), None)


def number_of(table: PartsTable, support: list[bool]) -> int:
    """Of a support; large ones may be one."""
    told = table.patterns.supports.tolist()
    few = table.patterns.few
    return len(told) - 1 if few and sum(support) >= few else told.index(support)


@pytest.mark.parametrize("supports", [4_096, 12, 0])
def test_every_placement(supports: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No schedule takes less time and memory, paid for, than its entry says; many take hardly more."""
    monkeypatch.setattr(alike, "_SUPPORTS", supports)
    stop, compared, near, raised = np.zeros(1, dtype=np.int64), 0, 0, 0
    for seed in range(24):
        problem = heads(seed, deep=seed % 4 < 2)
        _, table = table_of(problem, monkeypatch)
        assert table is not None, seed
        assert table.count == 3
        draws = np.random.default_rng(seed)
        devices = len(problem.devices)
        price = draws.exponential(1.0, devices)
        plain = table.priced(price).copy()
        for _ in range(2):
            table.begin()
            looked = price if draws.random() < 0.6 else draws.exponential(1.0, devices)
            for way, a, b in np.ndindex(*table.least.shape):
                table.refine(way, a, b, looked, stop)
        found = table.priced(price)
        raised += bool((found > plain + 1e-6).any())
        least = np.full(found.shape, np.inf)
        inner = table.block.problem()
        count = len(inner.operators)
        times, members = [op.times for op in inner.operators], range(1, count - 1)
        many = min(1.0, 70.0 / devices**count)
        for placed in itertools.product(range(devices), repeat=count):
            if draws.random() > many:
                continue
            rows = [tuple(times[v][d] if d == placed[v] else None for d in range(devices)) for v in range(count)]
            if any(row[d] is None for row, d in zip(rows, placed, strict=True)):
                continue
            fixed = inner.replace(
                operators=tuple(
                    msgspec.structs.replace(op, times=row) for op, row in zip(inner.operators, rows, strict=True)
                )
            )
            best = Incumbent[MakespanPlan]()
            assert try_everything(build_instance(fixed), best)
            support = [any(placed[v] == d for row in table.parts.rows for v in row) for d in range(devices)]
            told = table.support == number_of(table, support)
            of_hubs = (table.ways == [placed[v] for v in table.parts.hubs]).all(axis=1)
            way = int(np.flatnonzero(of_hubs & told)[0])
            held = np.bincount([placed[v] for v in members], [inner.operators[v].memory for v in members], devices)
            paid = best.value + float(held @ price)
            assert found[way, placed[0], placed[-1]] <= paid * (1 + 1e-9), (seed, placed)
            least[way, placed[0], placed[-1]] = min(least[way, placed[0], placed[-1]], paid)
            compared += 1
        near += bool((found > 0.9 * least)[np.isfinite(least)].mean() > 0.5)
    assert compared > 800
    assert raised >= 8
    assert near >= (4 if supports == 4_096 else 1)


def attention(seed: int) -> MakespanProblem:
    """A block of two or three heads: two of three linear operators meet, and the third comes to what they make."""
    rng = random.Random(seed)
    devices, count = rng.choice((2, 3, 4)), rng.choice((2, 3))
    kinds = ["start", *("q", "k", "v", "scores", "context") * count, "concat", "out", "end"]
    last = len(kinds) - 1
    edges = [(last - 2, last - 1), (last - 1, last), (0, last)]
    for head in range(count):
        q, k, v, scores, context = range(1 + 5 * head, 6 + 5 * head)
        edges += [(0, q), (0, k), (0, v), (q, scores), (k, scores), (scores, context), (v, context)]
        edges.append((context, last - 2))
    times = {kind: tuple(float(rng.randint(0, 6)) for _ in range(devices)) for kind in kinds}
    sizes = {kind: float(rng.randint(0, 3)) if kind in "qkvout" else 0.0 for kind in kinds}
    tables = {
        kind: tuple(tuple(0.0 if a == b else float(rng.randint(0, 4)) for b in range(devices)) for a in range(devices))
        for kind in kinds
    }
    return MakespanProblem(
        name=f"attention {seed}",
        devices=tuple(Device(name=f"d{d}") for d in range(devices)),
        operators=tuple(MakespanOperator(id=v, times=times[kind], memory=sizes[kind]) for v, kind in enumerate(kinds)),
        flows=tuple(MakespanFlow(id=f, source=u, target=v, times=tables[kinds[u]]) for f, (u, v) in enumerate(edges)),
    )


def test_heads_of_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list schedule of any placement takes less than its entry says, with what follows the heads."""
    stop, near = np.zeros(1, dtype=np.int64), 0
    for seed in range(16):
        _, table = table_of(attention(seed), monkeypatch)
        assert table is not None, seed
        draws, devices = np.random.default_rng(seed), table.instance.devices
        price = draws.exponential(1.0, devices)
        table.begin()
        for entry in np.ndindex(*table.least.shape):
            table.refine(*entry, price, stop)
        found, inner, room = table.priced(price), table.instance, table.instance.room()
        by_hubs = found.reshape(-1, len(table.patterns.supports), *found.shape[1:]).min(axis=1)
        chosen = by_hubs.argmin()
        for turn in range(400):
            device = draws.integers(devices, size=inner.count).astype(np.int32)
            if turn % 2:
                # All but a few operators where little is taken.
                way, device[0], device[-1] = np.unravel_index(chosen, by_hubs.shape)
                placed = table.ways[way * len(table.patterns.supports)]
                device[list(table.parts.hubs)] = placed
                device[1:-1] = np.where(draws.random(inner.count - 2) < 0.3, device[1:-1], placed[0])
            support = np.bincount(device[np.concatenate(table.parts.rows)], minlength=devices) > 0
            told = table.support == number_of(table, support.tolist())
            of_hubs = (table.ways == device[list(table.parts.hubs)]).all(axis=1)
            way = int(np.flatnonzero(of_hubs & told)[0])
            length = float(schedule(inner.arrays, device, inner.by_rank, True, np.inf, room))
            held = np.bincount(device[1:-1], inner.arrays.memory[1:-1], devices)
            paid = length + float(held @ price)
            assert found[way, device[0], device[-1]] <= paid * (1 + 1e-9), (seed, device)
            near = near + (found[way, device[0], device[-1]] > 0.8 * paid)
    assert near > 400


def test_elimination_against_all_placements() -> None:
    """The least of sums over operators and edges, by how memory is divided, and a placement of that."""
    for seed in range(12):
        problem = attention(seed)
        instance = build_instance(problem)
        parts = parts_of(not_thinned(instance).chain.blocks[1], not_thinned(instance).chain.blocks[1].at())
        assert parts is not None
        patterns = Patterns(instance, parts, 1)
        part, draws = patterns._part, np.random.default_rng(seed)
        devs = np.sort(draws.permutation(instance.devices)[: draws.integers(1, instance.devices + 1)])
        room = kernels._room(part, len(devs), instance.devices, len(patterns.held))
        room.unary[:], room.pair[:] = draws.random(room.unary.shape), draws.random(room.pair.shape)
        kernels._eliminate(part, devs, instance.devices, room)
        least = np.full(len(patterns.held), np.inf)

        def worth(placed: Any, room: Any = room, part: Any = part) -> float:
            own = sum(room.unary[k, x] for k, x in enumerate(placed))
            return float(own + sum(room.pair[e, placed[u], placed[v]] for e, (u, v, _) in enumerate(part.inner)))

        memory = instance.arrays.memory[patterns.row]
        for placed in itertools.product(range(len(devs)), repeat=len(patterns.row)):
            held = np.bincount(devs[list(placed)], memory, instance.devices)
            m = int(np.flatnonzero((patterns.held == held).all(axis=1))[0])
            least[m] = min(least[m], worth(placed))
        assert np.allclose(room.least, least), seed
        for m in np.flatnonzero(np.isfinite(least)):
            kernels._place(part, len(devs), room.at[m], room)
            assert abs(worth(room.digit.tolist()) - least[m]) < 1e-9


def test_entries_looked_at_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two entries share a row, whenever threads take turns."""

    def slowly(table: PartsTable) -> int:
        found: int = table.__dict__["_looked"]
        time.sleep(0.001)
        return found

    counted = property(slowly, lambda table, value: table.__dict__.update(_looked=value))
    monkeypatch.setattr(PartsTable, "looked", counted, raising=False)
    chain, table = table_of(heads(1), monkeypatch)
    assert table is not None
    price, stop = np.zeros(chain.whole.devices), np.zeros(1, dtype=np.int64)
    monkeypatch.setattr(table, "_plain", table._plain + 1e6)  # What is not looked at is no better.
    keys = [key for key in np.ndindex(*table.least.shape) if math.isfinite(table.least[key])][:40]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: table.refine(*key, price, stop), keys))
    rows = [row for mine in table._rows.values() for row in mine]
    assert sorted(rows) == list(range(len(keys)))
    assert len(keys) > 8


def test_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where parts are is told apart: over all supports no less is proven than without, often more."""
    stop, more = np.zeros(1, dtype=np.int64), 0
    for seed in range(12):
        least = []
        for most in (0, 4_096):
            monkeypatch.setattr(alike, "_SUPPORTS", most)
            _, table = table_of(heads(seed), monkeypatch)
            assert table is not None
            assert (table.patterns.few > 0) == (most == 0)
            price = np.random.default_rng(seed).exponential(1.0, table.instance.devices)
            for entry in np.ndindex(*table.least.shape):
                table.refine(*entry, price, stop)
            least.append(table.priced(price).min(axis=0))
        # Weights are good, not best.
        assert (least[1] >= least[0] * 0.99).all(), seed
        more += bool((least[1] > least[0] * 1.02).any())
    assert more >= 6


@pytest.mark.skipif(MakespanExact().supports(heads(0), MakespanOptions()) is not None, reason="ortools is missing")
def test_prices_and_programs_against_trying_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two such blocks and limits on memory: bounds are below the optimum, and plans are schedules."""
    monkeypatch.setattr(solvers, "_MOVES", 500)
    compared = planned = 0
    for seed in range(20):
        problem = heads(seed, deep=False, blocks=2, memory=True)
        chain, table = table_of(problem, monkeypatch)
        instance, best = chain.whole, Incumbent[MakespanPlan]()
        if table is None or not try_everything(instance, best, steps=200_000) or best.answer is None:
            continue
        compared += 1
        stop = np.zeros(1, dtype=np.int64)
        top = chain.ascend(chain.path(np.zeros(instance.devices)), 2 * best.value + 1, 40, Monitor(10.0), stop)
        assert top.value <= best.value * (1 + 1e-9), seed
        if seed % 4:
            continue
        found = Incumbent[MakespanPlan]()
        close_priced(not_thinned(instance), found, MakespanOptions(threads=1), Monitor(10.0))
        assert found.bound <= best.value * (1 + 1e-9), seed
        if found.answer is not None:
            planned += 1
            assert evaluate(problem, found.answer).feasible
    assert compared >= 12
    assert planned >= 2


def test_pieces_of_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Annealed blocks make plans that fit and last as long as said; with those of a best plan it is found again."""
    compared = learned = 0
    for seed in range(8):
        problem = heads(seed, deep=False, blocks=2, memory=True)
        chain, table = table_of(problem, monkeypatch)
        instance, best = chain.whole, Incumbent[MakespanPlan]()
        if table is None or not try_everything(instance, best, steps=100_000) or best.answer is None:
            continue
        stop = np.zeros(1, dtype=np.int64)
        path = chain.ascend(chain.path(np.zeros(instance.devices)), best.value, 30, Monitor(10.0), stop)
        pieces = PieceSearch(chain, path, Guests(not_thinned(instance), 1e6), seed, threads=1, stop=stop)
        costs = np.zeros((0, instance.devices))
        for known in (False, True):
            if known:
                pieces.learn(best.answer)
            found = pieces.search(costs, 2_000, stop)
            if found is None:
                assert not known, seed
                continue
            assert found.length >= best.value * (1 - 1e-9), seed
            plan = joined(chain, found.chosen)
            assert plan is not None
            worth = evaluate(problem, plan)
            assert worth.feasible, seed
            assert worth.objective <= found.length * (1 + 1e-9), seed
            compared += 1
            learned += known and found.length <= best.value * (1 + 1e-9)
    assert compared >= 8
    assert learned >= 4


def test_pieces_of_blocks_that_are_too_large_to_try_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their tables know no schedules, so that annealed ones are taken."""
    monkeypatch.setattr(tables, "_SMALL", 0)
    planned, stop = 0, np.zeros(1, dtype=np.int64)
    for seed in range(8):
        problem = heads(seed, deep=False, blocks=2, memory=True)
        instance = build_instance(problem)
        chain = PricedChain(not_thinned(instance).chain, instance, ())
        assert chain.fill(Monitor(60.0), stop)
        assert not any(isinstance(table, PartsTable) for table in chain.tables.values())
        path = chain.ascend(chain.path(np.zeros(instance.devices)), 40.0, 30, Monitor(10.0), stop)
        pieces = PieceSearch(chain, path, Guests(not_thinned(instance), 1e6), seed, threads=1, stop=stop)
        found = pieces.search(np.zeros((0, instance.devices)), 2_000, stop)
        plan = None if found is None else joined(chain, found.chosen)
        if plan is not None:
            planned += 1
            assert evaluate(problem, plan).feasible, seed
    assert planned >= 4


def test_windows_of_a_plan_that_is_not_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin with that plan; what is offered is better than the best."""
    monkeypatch.setattr(solvers, "_WINDOWS", 1)
    problem = transformer_problem(1, encoders=1, decoders=1, heads=4, devices=2, room=1.5)
    instance, best = build_instance(problem), Incumbent[MakespanPlan]()
    parts = thin(instance, fewest=2)
    assert parts is not None
    chain = PricedChain(parts.chain, instance, parts.left_out)
    assert chain.fill(Monitor(60.0), np.zeros(1, dtype=np.int64))
    states = [(np.full(instance.count, d, dtype=np.int32), np.array(instance.order, dtype=np.int32)) for d in range(2)]
    begun = []

    class Seen(Windows):
        def __init__(self, instance: MakespanInstance, plan: MakespanPlan, *given: Any, **named: Any) -> None:
            super().__init__(instance, plan, *given, **named)
            begun.append(self.device.tolist())

    monkeypatch.setattr(solvers, "Windows", Seen)
    search(instance, best, seed=0, rounds=0)
    first = best.value
    plans = solvers._Plans(parts, chain, best, MakespanOptions(threads=1), Monitor(60.0))
    for state in states:
        plans._shift(state, 0)
    assert begun == [state[0].tolist() for state in states]
    assert best.value <= first
    assert best.answer is not None
    assert evaluate(problem, best.answer).feasible


@pytest.mark.skipif(MakespanExact().supports(heads(0), MakespanOptions()) is not None, reason="ortools is missing")
def test_heads_of_a_transformer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention of four heads: the tables prove more than chains do, and the program makes a plan that is better."""
    monkeypatch.setattr(solvers, "_PLANS", 1)
    monkeypatch.setattr(solvers, "_WINDOWS", 1)
    monkeypatch.setattr(solvers, "_MOVES", 2_000)
    problem = transformer_problem(1, encoders=2, decoders=1, heads=4, devices=2, room=1.2)
    instance, best = build_instance(problem), Incumbent[MakespanPlan]()
    parts = thin(instance)
    assert parts is not None
    chain, stop = PricedChain(parts.chain, instance, parts.left_out), np.zeros(1, dtype=np.int64)
    assert chain.fill(Monitor(60.0), stop)
    assert any(isinstance(table, PartsTable) for table in chain.tables.values())
    search(instance, best, seed=0, rounds=0)
    first = best.value
    assert close_priced(parts, best, MakespanOptions(threads=1), Monitor(60.0))
    assert best.value < first
    known = chain.ascend(chain.path(np.zeros(2)), 2 * first, 300, Monitor(60.0), np.ones(1, np.int64))
    assert best.bound > 1.01 * known.value
    assert best.bound > 0.85 * best.value
