"""Loops in grids: they close, links of the heaviest ring are all between neighbours, and searches begin there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from partita.engines.search.incumbent import Incumbent
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.local_search import MappingSearch
from partita.problems.mapping.loops import grids, hamiltonian_cycle, loop_through, looped
from partita.problems.mapping.problem import Placement
from problems.mapping.large_problems import heavy_ring, pipeline_on


def closes(places: list[tuple[int, int]]) -> bool:
    """Whether places are different, and each beside the next."""
    beside = (abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in zip(places, places[1:] + places[:1], strict=True))
    return len(set(places)) == len(places) and all(beside)


def test_cycles_lead_through_all_blocks_and_loops_through_their_middle() -> None:
    seen = 0
    for rows, columns in itertools.product(range(1, 8), repeat=2):
        blocks = hamiltonian_cycle(rows, columns)
        assert bool(blocks) == (min(rows, columns) > 1 and rows * columns % 2 == 0)
        if not blocks:
            continue
        assert closes(blocks)
        assert set(blocks) == set(itertools.product(range(rows), range(columns)))
        for side in range(3, 8):
            loop = loop_through(blocks, side)
            assert closes(loop)
            assert [(i // side, j // side) for i, j in loop[::side]] == blocks
            assert all(0 < i % side < side - 1 or 0 < j % side < side - 1 for i, j in loop), "not along an edge"
            seen += 1
    assert seen == 27 * 5


@pytest.mark.parametrize(
    ("where", "shapes"),
    [
        ("mesh:4x6", {(4, 6)}),
        ("torus:6x4", {(6, 4)}),
        ("mesh:2x3x4", {(6, 4), (2, 12)}),
        ("uniform:12", set()),
        ("two-level:3x4", set()),
    ],
)
def test_grids_are_found_in_the_matrix(where: str, shapes: set[tuple[int, int]]) -> None:
    instance = MappingInstance(pipeline_on(where, 3, 2, 0))
    found = list(grids(instance))
    assert {grid.shape for grid in found} >= shapes
    assert bool(found) == bool(shapes)
    fastest = instance.fastest[:, 0].min()
    for grid in found:
        assert sorted(grid.ravel().tolist()) == list(range(instance.devices))
        for one, other in ((grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1])):
            assert (instance.arrays.inverse[one, other] == fastest).all()


@pytest.mark.parametrize(
    ("where", "stages", "replicas"),
    [("torus:8x8", 4, 16), ("mesh:6x12", 3, 24), ("mesh:10x10", 5, 20), ("mesh:3x4x6", 3, 24)],
)
def test_the_heaviest_ring_is_between_neighbours(where: str, stages: int, replicas: int) -> None:
    instance = MappingInstance(heavy_ring(where, stages, replicas))
    found = list(looped(instance))
    assert found
    for device in found:
        assert evaluate(instance.problem, instance.plan(device)).feasible
        ring = device.reshape(stages, replicas)[1]
        assert (instance.arrays.inverse[ring, np.roll(ring, 1)] == instance.fastest[:, 0].min()).all()


@pytest.mark.parametrize(
    ("where", "stages", "replicas", "form"),
    [
        ("torus:8x8", 4, 12, "both"),  # devices to spare
        ("mesh:5x8", 4, 10, "both"),  # blocks do not fill it
        ("mesh:4x8", 4, 8, "both"),  # no cycle of two blocks
        ("uniform:64", 4, 16, "both"),
        ("torus:8x8", 4, 16, "point-to-point"),
    ],
)
def test_there_are_none_elsewhere(where: str, stages: int, replicas: int, form: str) -> None:
    assert not list(looped(MappingInstance(heavy_ring(where, stages, replicas).replace(form=form))))


def test_annealing_keeps_the_loop() -> None:
    """What rounds from elsewhere do not find: every link of the ring between neighbours, with the others near."""
    problem = heavy_ring("torus:8x8", 4, 16)
    best = Incumbent[Placement]()
    search = MappingSearch(MappingInstance(problem), best, seed=0, threads=1)
    search.begin()
    for _ in search.round(len(search.starts)):
        pass
    assert best.answer is not None
    ring = np.array(best.answer.placement[1])
    inverse = search.instance.arrays.inverse
    assert (inverse[ring, np.roll(ring, 1)] == search.instance.fastest[:, 0].min()).all()
