"""Layer placements against trying everything, and the published ones."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from instances.strategies import examples
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import lowered
from partita.problems.kind import SearchOptions
from partita.problems.layer_placement.bounds.rows import SideBySide
from partita.problems.layer_placement.chains import any_row, best_chains, two_chains
from partita.problems.layer_placement.generators import random_layer_placement
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.problem import LayerMachine, LayerPlacementProblem, MachineEnd, TokenLink
from partita.problems.layer_placement.rules import petals, swarm
from partita.problems.layer_placement.solvers import LayerPlacementRun
from problems.layer_placement.random_problems import random_problem
from second_opinions.layer_flows import best_flow, judge

#: By instance, the largest flow and what is published.
PUBLISHED = {
    "single-24": (2045.641047, 1289.556),
    "quality-10": (286.587410, 286.587),
    "llama30b-a100": (1044.533345, 1044.533),
    "llama30b-l4": (252.649846, 214.981),
    "regions-24-pruned": (1754.381890, 1212.177),
}


def solved(problem: LayerPlacementProblem) -> None:
    """The default solver proves the flow that trying everything finds."""
    flow = best_flow(problem)
    result = pt.solve(problem, time_limit_s=60, explain=False)
    if flow == 0:
        assert result.status is pt.Status.INFEASIBLE
        return
    assert result.status is pt.Status.OPTIMAL
    assert result.objective == pytest.approx(1 / flow, rel=1e-12)
    value, feasible = judge(problem, result.plan)
    assert feasible
    assert value == result.objective


def test_random_placements_are_the_best_there_are() -> None:
    for seed in range(60):
        solved(random_problem(seed, 4 if seed % 4 == 0 else 3))


def with_ends(problem: LayerPlacementProblem, seed: int) -> LayerPlacementProblem:
    """The problem with machines that pass less, or hold fewer layers, at the ends of the model."""
    rng = random.Random(seed)

    def end(machine: LayerMachine) -> MachineEnd | None:
        table = {k: rate * rng.choice((0.25, 0.5, 1.0)) for k, rate in machine.tokens_per_s.items()}
        if len(table) > 1 and rng.random() < 0.3:
            del table[max(table)]
        return rng.choice((None, MachineEnd(tokens_per_s=table)))

    machines = (msgspec.structs.replace(one, first=end(one), last=end(one)) for one in problem.machines)
    return problem.replace(machines=tuple(machines))


def test_random_placements_with_unlike_ends_are_the_best_there_are() -> None:
    proven = 0
    for seed in range(40):
        problem = with_ends(random_problem(seed, 3), seed)
        flow = best_flow(problem)
        result = pt.solve(problem, time_limit_s=30, explain=False)
        if result.plan is None:
            # Any row that is found need not flow at the ends: then nothing is said, or that there is none.
            assert flow == 0
            continue
        assert flow > 0
        assert result.objective == pytest.approx(1 / flow, rel=1e-9)
        assert result.bound.value <= result.objective
        proven += result.status is pt.Status.OPTIMAL
        assert pt.check(result).plan.verified
    assert proven > 30


@pytest.mark.slow
def test_many_random_placements_are_the_best_there_are() -> None:
    for seed in range(60, 560):
        solved(random_problem(seed, 4 if seed % 4 == 0 else 3))


@examples(80)
@given(st.integers(0, 10**6))
def test_the_bound_of_machines_side_by_side_is_never_above_an_optimum(seed: int) -> None:
    problem = random_problem(seed, 4 if seed % 3 == 0 else 3)
    flow = best_flow(problem)
    if flow:
        assert lowered(SideBySide().bound(problem, Monitor(20)).value) <= 1 / flow


def alike(count: int, layers: int, table: dict[int, float], between: float = 100.0) -> LayerPlacementProblem:
    """Machines that are alike, with links of one width between all."""
    names = [str(i) for i in range(count)]
    links = [TokenLink(source=a, target=b, tokens_per_s=between) for a in names for b in names if a != b]
    links += [TokenLink(source="source", target=a, tokens_per_s=100.0) for a in names]
    links += [TokenLink(source=a, target="sink", tokens_per_s=100.0) for a in names]
    return LayerPlacementProblem(
        name="alike",
        layers=layers,
        machines=tuple(LayerMachine(name=name, tokens_per_s=table) for name in names),
        links=tuple(links),
    )


def test_a_machine_that_passes_a_little_less_needs_a_whole_partner() -> None:
    """At more than 9 a machine alone holds two layers, two together three: four machines hold 8 layers at most."""
    problem = alike(4, 9, {2: 10.0, 3: 9.0})
    # By area, 4·3·9 layers times tokens are enough for a flow of 12 through 9 layers, and 4·2 for one of 10.
    assert 1 / SideBySide().bound(problem, Monitor(10)).value == pytest.approx(9.0)
    assert 1 / pt.bound(problem, "area").value > 9.5
    assert pt.solve(problem, time_limit_s=20).evaluation.tokens_per_s == 9.0


def test_what_crosses_a_narrow_link_goes_over_machines_side_by_side() -> None:
    """A chain passes 4, what a link carries; two machines with two layers each pass 12, to the others by four links."""
    problem = alike(4, 3, {1: 10.0, 2: 6.0, 3: 2.0}, between=4.0)
    result = pt.solve(problem, time_limit_s=20)
    assert result.status is pt.Status.OPTIMAL
    assert result.evaluation.tokens_per_s == best_flow(problem) == 12.0


def test_any_row_is_found_where_there_is_one() -> None:
    for seed in range(150):
        problem = random_problem(seed)
        held = any_row(LayerInstance(problem))
        assert (held is None) == (best_flow(problem) == 0)
        if held is not None:
            assert LayerInstance(problem).flow(held) > 0


def test_chains_hold_all_layers_at_the_flow_that_they_are_for() -> None:
    instance = LayerInstance(random_layer_placement(4, machines=9))
    found = list(best_chains(instance))
    assert [flow for flow, _ in found] == sorted((flow for flow, _ in found), reverse=True)
    assert all(instance.flow(held) == flow for flow, held in found)


def test_regions_that_hold_all_layers_flow_beside_each_other() -> None:
    """Machines 0 to 2 in one region, 3 to 5 in the other, with links of 1/4 between: 4 + 4, by either region alone."""
    problem = alike(6, 6, {1: 9.0, 2: 4.0})
    links = tuple(
        msgspec.structs.replace(link, tokens_per_s=0.25)
        if {link.source, link.target}.isdisjoint({"source", "sink"}) and (link.source < "3") != (link.target < "3")
        else link
        for link in problem.links
    )
    run = LayerPlacementRun(problem.replace(links=links), SearchOptions(), Monitor(20))
    run.area()
    run.apart()
    assert 1 / run.best.value == 8.0
    assert len(run.best.answer.machines) == 6


def test_two_chains_share_the_machines_out() -> None:
    """Of five machines three hold a layer each at 6, and two hold two and one at 4; wide links let all of it flow."""
    problem = alike(5, 3, {1: 6.0, 2: 4.0, 3: 1.0})
    instance = LayerInstance(problem)
    total, held = next(two_chains(instance, 0.0))
    assert total == instance.flow(held) == 10.0
    assert len(held) == 5
    assert list(two_chains(instance, 10.0)) == []
    for seed in range(6):
        instance = LayerInstance(random_layer_placement(seed, machines=8, layers=9))
        for total, held in two_chains(instance, 0.0):
            assert instance.flow(held) >= total * (1 - 1e-12)


def test_petals_machines_join_where_the_least_tokens_pass() -> None:
    """The first takes layers 0 to 2, the second what is behind and one more, the third what is first of alike ones."""
    instance = LayerInstance(alike(3, 5, {1: 9.0, 3: 2.0}))
    assert petals(instance) == {0: (0, 3), 1: (2, 5), 2: (0, 3)}


def test_swarm_stages_are_as_few_as_the_smallest_machine_allows() -> None:
    assert swarm(LayerInstance(alike(3, 5, {1: 9.0, 2: 5.0, 3: 2.0}))) == {0: (0, 2), 1: (2, 5), 2: (2, 5)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_placements_are_proven(name: str, published_data: Path) -> None:
    problem = pt.read_problem(published_data / "serving" / "helix" / f"{name}.json")
    result = pt.solve(problem, time_limit_s=60)
    flow, published = PUBLISHED[name]
    assert problem.published.objective == pytest.approx(published, rel=1e-5)
    assert result.status is pt.Status.OPTIMAL
    assert result.evaluation.tokens_per_s == pytest.approx(flow, rel=1e-8)
