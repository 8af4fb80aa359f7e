"""Mappings that are made of shares of columns: they have these shares, and search goes on from there."""

from __future__ import annotations

import pytest

from partita.engines.mip.backend import BackendSettings, Talk
from partita.engines.mip.cpsat import solve
from partita.engines.mip.model import QUIET
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds.composing import composed
from partita.problems.mapping.bounds.part_program import PartProgram
from partita.problems.mapping.bounds.parts import Column, partitions
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.local_search import MappingSearch
from partita.problems.mapping.problem import Placement
from problems.mapping.large_problems import pipeline_on

pytest.importorskip("ortools")


@pytest.mark.parametrize(
    ("where", "stages", "replicas"), [("random-blk-1:24:seed=2", 4, 6), ("random-blk-2:33", 4, 8), ("dgx1:3", 5, 4)]
)
def test_islands_have_as_many_replicas_of_every_stage_as_in_the_solution(
    where: str, stages: int, replicas: int
) -> None:
    problem = pipeline_on(where, stages, replicas, 1)
    instance = MappingInstance(problem)
    best: Incumbent[Placement] = Incumbent()
    search = MappingSearch(instance, best, seed=0, threads=1)
    search.begin()
    known = best.value
    islands = next(partitions(instance))
    column = Column(instance)
    program = PartProgram(column, islands, up_to(known), lambda: False)
    answer = solve(program.model, BackendSettings(), Talk(program.model, QUIET, None))
    assert answer.values is not None
    device = composed(program, answer.values)
    assert len(set(device.tolist())) == instance.count
    home = {int(d): i for i, island in enumerate(islands) for d in island.members}
    having = [[[home[d] for d in row].count(i) for i in range(len(islands))] for row in device.reshape(stages, -1)]
    wanted = [[round(sum(c * answer.values[z] for z, c in terms)) for terms in row] for row in program.held]
    assert having == wanted
    made = evaluate(problem, instance.plan(device)).objective
    assert search.settle_shares(device, made) == made
    value = search.settle_shares(device, 0.0)
    assert best.answer is not None
    assert best.value == evaluate(problem, best.answer).objective
    # Kernels add loads up in another order.
    assert value >= best.value * (1 - 1e-12)
    assert value <= 1.1 * known
