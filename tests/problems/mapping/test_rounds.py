"""Rounds of columns against all mappings of small problems, all rounds of small graphs, and mappings of larger ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import partial

import msgspec
import numpy as np
import pytest

from partita.engines.kernels.arrays import Bools, Floats
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds import closed_walks, layout_graph
from partita.problems.mapping.bounds.closed_walks import round_within, shortest
from partita.problems.mapping.bounds.composing import placed
from partita.problems.mapping.bounds.layouts import layouts_within
from partita.problems.mapping.bounds.neighbours import assignment_bound
from partita.problems.mapping.bounds.parts import Island, partitions
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.bounds.raising import Meanwhile
from partita.problems.mapping.bounds.rounds import Rounds, rounds_bound
from partita.problems.mapping.bounds.windows import in_windows
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import Form, MappingProblem, MappingStage, MappingTransfer, Placement
from problems.mapping.brute_force import best_objective
from problems.mapping.large_problems import pipeline_on
from problems.mapping.random_problems import random_problem


def status(instance: MappingInstance, islands: list[Island], target: float) -> Status:
    return round_within(instance, islands, target, lambda: False).status


@pytest.mark.parametrize("form", ["both", "point-to-point", "all-reduce"])
def test_the_best_mapping_is_never_refuted(form: Form) -> None:
    """Of all problems of up to seven devices that have islands; a little below, many are."""
    looked, tight = 0, 0
    for seed in range(80):
        problem = random_problem(seed, form)
        if problem.replicas == 1:
            continue
        instance, best = MappingInstance(problem), best_objective(problem)
        assert best is not None
        for islands in partitions(instance):
            looked += 1
            assert status(instance, islands, best) is Status.FEASIBLE, problem.name
            tight += best > 0 and status(instance, islands, best * 0.98) is Status.INFEASIBLE
    assert looked > 20
    assert tight > 8


@pytest.mark.parametrize("count", [1, 2])
def test_what_stages_state_counts(count: int) -> None:
    """As many replicas of every stage, which the problem has another number of."""
    applied = 0
    for seed in range(30):
        problem = random_problem(seed)
        stages = problem.stages[:3]
        names = tuple(msgspec.structs.replace(stage, replicas=count) for stage in stages)
        kept = tuple(one for one in problem.transfers if max(one.source, one.target) < len(stages))
        problem = problem.replace(stages=names, transfers=kept, replicas=4)
        best = best_objective(problem)
        if best is None or Rounds().supports(problem) is not None:
            continue
        applied += 1
        assert Rounds().bound(problem, Monitor()).value <= best * (1 + 1e-9), problem.name
    assert (applied > 10) == (count > 1)


def row_of_machines(seed: int) -> MappingProblem:
    """Two or three stages on machines in a row, with links of one speed inside, and with or without a spare device."""
    draw = random.Random(seed)
    stages, replicas = draw.choice(((2, 3), (2, 4), (3, 3), (2, 5), (3, 2)))
    count = stages * replicas + draw.choice((0, 0, 1))
    machines = draw.randint(2, 4)
    home = sorted([*range(machines), *(draw.randrange(machines) for _ in range(count - machines))])

    def link(a: int, b: int) -> float:
        return 0.0 if a == b else 1.0 / abs(home[a] - home[b]) if home[a] != home[b] else 20.0

    pairs = [(s, t) for s in range(stages) for t in range(s + 1, stages) if t == s + 1 or draw.random() < 0.5]
    return MappingProblem(
        name=f"row {seed}",
        replicas=replicas,
        stages=tuple(
            MappingStage(
                name=f"s{s}", time_s=draw.uniform(0, 1), parameter_bytes=draw.choice((0.0, draw.uniform(0, 3)))
            )
            for s in range(stages)
        ),
        transfers=tuple(MappingTransfer(source=s, target=t, bytes=draw.uniform(0.2, 3)) for s, t in pairs),
        bandwidth_bytes_per_s=tuple(tuple(link(a, b) for b in range(count)) for a in range(count)),
    )


def is_round(instance: MappingInstance, islands: list[Island], columns: np.ndarray, limit: float) -> bool:
    """Whether columns, (R, S) islands in turn, fill all islands and every replica is within a limit."""
    held, room = np.bincount(columns.ravel(), minlength=len(islands)), [len(island.members) for island in islands]
    if (held > room).any() or (instance.devices == instance.count and (held != room).any()):
        return False
    pace = Passages(instance, islands).pace
    found = layouts_within(instance, islands, limit, 10_000)
    assert found is not None
    known = {tuple(row): number for number, row in enumerate(found.islands.tolist())}
    for column, after in zip(columns.tolist(), np.roll(columns, -1, axis=0).tolist(), strict=True):
        if tuple(column) not in known or tuple(after) not in known:
            return False
        for here, there in ((column, after), (after, column)):
            row = known[tuple(here)]
            for s, (i, j) in enumerate(zip(here, there, strict=True)):
                inside, away = found.inside[row, s], found.away[row, s] + instance.ring[s] * pace[i, j]
                if instance.partners[s] and (inside if i == j else away) > limit:
                    return False
    return True


def every_round(count: int, replicas: int) -> Iterator[tuple[int, ...]]:
    """All columns in turn, but for where they begin."""
    for first in range(count):
        for rest in itertools.product(range(first, count), repeat=replicas - 1):
            yield (first, *rest)


@pytest.mark.parametrize("fewest", [2, 12])
def test_a_round_is_found_wherever_there_is_one(fewest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against all rounds of the layouts within some limits; with islands that have to be visited, and without."""
    monkeypatch.setattr(closed_walks, "_LONG", fewest)
    answers = {Status.FEASIBLE: 0, Status.INFEASIBLE: 0}
    for seed in range(40):
        problem = row_of_machines(seed)
        instance = MappingInstance(problem)
        islands = next(partitions(instance), None)
        if islands is None:
            continue
        draw = random.Random(seed)
        target = evaluate(problem, instance.plan(np.arange(instance.count))).objective * draw.uniform(0.4, 1.0)
        layouts = layouts_within(instance, islands, up_to(target), 1_000)
        assert layouts is not None
        if len(layouts.islands) ** (instance.replicas - 1) > 4_000:
            continue
        known = any(
            is_round(instance, islands, layouts.islands[list(turn)], up_to(target))
            for turn in every_round(len(layouts.islands), instance.replicas)
        )
        found = round_within(instance, islands, target, lambda: False)
        assert found.status is (Status.FEASIBLE if known else Status.INFEASIBLE), problem.name
        assert found.islands is None or is_round(instance, islands, found.islands, up_to(target))
        answers[found.status] += 1
    assert min(answers.values()) > 5


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("fewest", [2, 12])
def test_parts_hold_all_rounds(fewest: int, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small graphs, where nothing is annealed and few prices are tried, so that what is left is parted."""
    for name, value in {"_LONG": fewest, "_SOON": 0, "_LATE": 0, "_ROOT": 1, "_FEW": 0}.items():
        monkeypatch.setattr(closed_walks, name, value)
    monkeypatch.setattr(closed_walks.RoundSearch._narrowed, "__defaults__", (3,))
    depths = []
    branched = closed_walks.RoundSearch._branched

    def counted(self: closed_walks.RoundSearch, places: Bools, prices: Floats, depth: int) -> list[int] | None:
        depths.append(depth)
        return branched(self, places, prices, depth)

    monkeypatch.setattr(closed_walks.RoundSearch, "_branched", counted)
    answers, replicas, count = {True: 0, False: 0}, 5, 7
    for seed in range(60):
        draw = np.random.default_rng(seed)
        near = draw.random((count, count)) < (0.35 if exact else 0.25)
        near |= near.T
        uses = draw.multinomial(3, np.ones(4) / 4, count).astype(np.int32)
        room = uses[draw.integers(0, count, replicas)].sum(axis=0).astype(np.int32)
        room[0] += not exact
        if not room.all():
            continue
        ptr = np.concatenate([[0], np.cumsum(near.sum(axis=1))]).astype(np.int64)
        beside = np.nonzero(near)[1].astype(np.int32)
        turns = np.array(list(every_round(count, replicas)))
        held = uses[turns].sum(axis=1)
        fills = (held == room).all(axis=1) if exact else (held <= room).all(axis=1)
        known = bool((near[turns, np.roll(turns, -1, axis=1)].all(axis=1) & fills).any())
        search = closed_walks.RoundSearch(ptr, beside, uses, room, replicas, lambda: False, 10**9, exact=exact)
        found = search.run(proving=True)
        assert (found is not None) == known, seed
        if found is not None:
            taken = uses[found].sum(axis=0)
            assert near[found, np.roll(found, -1)].all()
            assert (taken == room).all() if exact else (taken <= room).all()
        answers[known] += 1
    assert min(answers.values()) > 5
    assert max(depths) > 2


@pytest.mark.parametrize(
    ("stages", "replicas", "where"),
    [
        (4, 4, "dgx1:2"),
        (4, 6, "random-blk-2:24:seed=3"),
        (6, 2, "random-blk-2:12"),
        (3, 16, "random-blk-2:48"),
    ],
)
def test_no_mapping_is_refuted(stages: int, replicas: int, where: str) -> None:
    """Neither any one at its own time, nor those that search finds, nor those that are made of rounds."""
    import partita as pt

    problem = pipeline_on(where, stages, replicas, 1)
    instance, draw = MappingInstance(problem), random.Random(1)
    plan = pt.solve(problem, solver="swap-annealing", time_limit_s=0.2).plan
    assert isinstance(plan, Placement)
    best, looked = evaluate(problem, plan).objective, 0
    worse = evaluate(problem, instance.plan(np.array(draw.sample(range(instance.devices), instance.count)))).objective
    for islands in partitions(instance):
        for target in (best, worse):
            answer = round_within(instance, islands, target, lambda: False)
            assert answer.status is not Status.INFEASIBLE
            if answer.islands is not None:
                looked += 1
                made = evaluate(problem, instance.plan(placed(instance, islands, answer.islands.T))).objective
                assert status(instance, islands, made) is not Status.INFEASIBLE
    assert looked
    assert Rounds().bound(problem, Monitor()).value <= best * (1 + 1e-9)


def test_windows_are_never_above_the_optimum() -> None:
    """Islands on either side of a window being merged; and they say something."""
    looked, raised = 0, 0
    for seed in range(80):
        problem = random_problem(seed)
        if problem.replicas == 1:
            continue
        instance, best = MappingInstance(problem), best_objective(problem)
        assert best is not None
        proven: list[float] = []
        low, high = best / 4, partial(float, 2 * best)
        found = in_windows(instance, low, high, lambda: False, proven.append, 10**9)
        assert low <= found <= best * (1 + 1e-9), problem.name
        assert proven == sorted(proven)
        looked += len(next(partitions(instance), [])) > 2
        raised += found > low
    assert looked > 20
    assert raised > 8


def test_windows_say_more_where_layouts_of_all_islands_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pipeline_on("random-blk-2:24", 4, 6, 1)
    instance = MappingInstance(problem)
    low, high = assignment_bound(instance), evaluate(problem, instance.plan(np.arange(24))).objective
    beside = Meanwhile(lambda: high, lambda: False)
    best = Rounds().raised(instance, low, beside)
    monkeypatch.setattr(layout_graph, "LISTED", 30)
    assert rounds_bound(instance, low, lambda: high, lambda: False) < Rounds().raised(instance, low, beside) <= best


def test_it_ends_with_what_is_known() -> None:
    problem = pipeline_on("random-blk-2:24:seed=3", 4, 6, 1)
    instance = MappingInstance(problem)
    islands = next(partitions(instance))
    high = evaluate(problem, instance.plan(np.arange(24))).objective
    found: list[float] = []
    proven: list[float] = []

    def take(device: np.ndarray, target: float) -> None:
        found.append(evaluate(problem, instance.plan(device)).objective)

    low = rounds_bound(instance, high / 10, lambda: min([high, *found]), lambda: False, proven.append, take)
    assert found
    assert proven == sorted(proven)
    assert high / 10 < low <= min(found)
    assert proven[-1] == pytest.approx(low)
    assert status(instance, islands, low) is Status.INFEASIBLE
    assert rounds_bound(instance, high / 10, lambda: high, lambda: True) == high / 10
    assert round_within(instance, islands, low, lambda: True).status is Status.UNKNOWN
    assert round_within(instance, islands, low, lambda: False, steps=0).status is Status.UNKNOWN
    # Everything is within a day, so that columns are too many.
    many = MappingInstance(pipeline_on("random-blk-2:64", 8, 8, 1))
    assert not round_within(many, next(partitions(many)), 86400.0, lambda: False).looked


def test_the_shortest_vector_is_on_the_near_side_of_all_points() -> None:
    draw = np.random.default_rng(0)
    apart = 0
    for count, size in itertools.product((1, 2, 5, 20), (1, 3, 8)):
        for shift in (0.0, 0.5, 2.0):
            points = draw.normal(size=(count, size)) + shift
            shares = shortest(points)
            assert shares.min() >= 0
            assert shares.sum() == pytest.approx(1)
            found = shares @ points
            squared = float(found @ found)
            assert (points @ found >= squared - 1e-3 * max(1.0, squared)).all()
            apart += bool((points @ found > 0).all())
    assert apart > 10
