"""What a layer placement is worth: by hand, and against all cuts of the network."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples
from partita.ground.errors import InputError
from partita.problems.layer_placement.evaluate import complete, evaluate
from partita.problems.layer_placement.problem import (
    HeldLayers,
    LayerMachine,
    LayerPlacement,
    LayerPlacementProblem,
    LinkFlow,
    TokenLink,
)
from problems.layer_placement.random_problems import random_problem
from second_opinions.layer_flows import flow_by_cuts, judge


def link(source: str, target: str, rate: float = 10.0) -> TokenLink:
    return TokenLink(source=source, target=target, tokens_per_s=rate)


#: a holds the first half, b and c the second one; the link to b carries less than b passes.
FORK = LayerPlacementProblem(
    name="fork",
    layers=4,
    machines=(
        LayerMachine(name="a", tokens_per_s={1: 16.0, 2: 8.0}),
        LayerMachine(name="b", tokens_per_s={2: 4.0, 3: 3.0}),
        LayerMachine(name="c", tokens_per_s={2: 4.5, 3: 1.0}),
    ),
    links=(
        link("source", "a"),
        link("a", "b", 3.0),
        link("a", "c"),
        link("b", "sink"),
        link("c", "sink"),
        link("b", "c"),
    ),
)


def placed(**layers: tuple[int, int]) -> LayerPlacement:
    return LayerPlacement(machines=tuple(HeldLayers(name=name, layers=pair) for name, pair in layers.items()))


HALVES = placed(a=(0, 2), b=(2, 4), c=(2, 4))


def test_a_flow_forks_and_is_limited_by_a_link_and_a_machine() -> None:
    """3 over the link to b, 4.5 through c; a would pass 8."""
    found = evaluate(FORK, complete(FORK, HALVES))
    assert found.feasible
    assert found.tokens_per_s == 7.5
    assert found.objective == 1 / 7.5
    assert found.limiting_links == (("a", "b"),)
    assert [machine.name for machine in found.machines if machine.limits] == ["c"]
    assert [machine.tokens_per_s for machine in found.machines] == [7.5, 3.0, 4.5]


def test_the_rule_of_overlap_lets_tokens_in_where_they_are() -> None:
    """c holds the last three layers: from a, which ends at 2, tokens enter it in the middle only with the rule."""
    plan = placed(a=(0, 2), c=(1, 4))
    assert not evaluate(FORK, plan).feasible
    assert evaluate(FORK.replace(overlap=True), plan).tokens_per_s == 1.0
    # It never lets them in at the end of a machine, nor before its first layer.
    assert not evaluate(FORK.replace(overlap=True), placed(a=(0, 1), b=(2, 4))).feasible
    assert not evaluate(FORK.replace(overlap=True), placed(a=(0, 2), b=(0, 2), c=(2, 3))).feasible


def test_machines_that_hold_nothing_are_left_out() -> None:
    plan = complete(FORK, placed(a=(0, 2), b=(1, 1), c=(2, 4)))
    assert [one.name for one in plan.machines] == ["a", "c"]
    assert evaluate(FORK, plan).tokens_per_s == 4.5


def with_flows(**changed: float) -> LayerPlacement:
    """The halves with their largest flow, but for some links."""
    plan = complete(FORK, HALVES)
    flows = [
        msgspec.structs.replace(flow, tokens_per_s=changed.get(f"{flow.source}_{flow.target}", flow.tokens_per_s))
        for flow in plan.flows
    ]
    return msgspec.structs.replace(plan, flows=tuple(flows))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (placed(a=(0, 3), b=(2, 4)), "holds 3 layers"),
        (placed(a=(0, 2)), "no tokens flow"),
        (with_flows(a_b=3.5), "carries 3"),
        (with_flows(a_b=-1.0), "is -1 tokens/s"),
        (with_flows(a_c=4.0), "takes in 4 tokens/s and hands on 4.5"),
        (with_flows(source_a=6.0, a_c=3.0, c_sink=3.0), "carry 6 tokens/s of the 7.5"),
        (with_flows(source_a=9.5, a_c=6.5, c_sink=6.5), "passes 9.5 tokens/s, and at most 8"),
        (
            LayerPlacement(machines=HALVES.machines, flows=(LinkFlow(source="b", target="c", tokens_per_s=1.0),)),
            "do not follow each other",
        ),
    ],
)
def test_what_is_broken_is_said(plan: LayerPlacement, said: str) -> None:
    found = evaluate(FORK, plan)
    assert not found.feasible
    assert any(said in sentence for sentence in found.violations), found.violations


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (placed(d=(0, 2)), "'d' is none"),
        (placed(a=(0, 5)), "layers 0 to 5"),
        (LayerPlacement(machines=(*HALVES.machines, HeldLayers(name="a", layers=(0, 1)))), "twice"),
        (
            LayerPlacement(machines=HALVES.machines, flows=(LinkFlow(source="c", target="a", tokens_per_s=1.0),)),
            "no link",
        ),
    ],
)
def test_what_is_no_plan_of_the_problem_is_refused(plan: LayerPlacement, said: str) -> None:
    with pytest.raises(InputError, match=said):
        evaluate(FORK, plan)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"machines": ()}, "no machines"),
        ({"machines": (*FORK.machines, FORK.machines[0])}, "there twice"),
        ({"machines": (LayerMachine(name="sink", tokens_per_s={}),)}, "end of all flow"),
        ({"machines": (LayerMachine(name="a", tokens_per_s={0: 1.0}),)}, "number of layers"),
        ({"machines": (LayerMachine(name="a", tokens_per_s={1: -1.0}),)}, "with 1 layers is -1"),
        ({"links": (link("a", "nobody"),)}, "no machine 'nobody'"),
        ({"links": (link("a", "a"),)}, "leads back"),
        ({"links": (link("a", "b"), link("a", "b"))}, "there twice"),
        ({"links": (link("a", "b", float("inf")),)}, "tokens_per_s is inf"),
    ],
)
def test_malformed_problems_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        FORK.replace(**fields)


@examples(150)
@given(st.integers(0, 10**6))
def test_any_intervals_are_worth_what_the_least_cut_is(seed: int) -> None:
    """Whoever holds what; the largest flow that completes them keeps every rule."""
    problem, rng = random_problem(seed), random.Random(seed)
    pairs = []
    for machine in problem.machines:
        size = rng.choice([0, *(k for k in machine.tokens_per_s if k <= problem.layers)])
        first = rng.choice([0, problem.layers - size, rng.randint(0, problem.layers - size)])
        pairs.append((first, first + size))
    plan = complete(problem, placed(**{f"m{i}": pair for i, pair in enumerate(pairs)}))
    found = evaluate(problem, plan)
    assert found.tokens_per_s == flow_by_cuts(problem, pairs)
    if found.tokens_per_s:
        assert found.violations == ()
        assert judge(problem, plan) == (found.objective, True)
        # What limits is a cut: it carries all that flows.
        rates = {link_.source + " " + link_.target: link_.tokens_per_s for link_ in problem.links}
        cut = sum(rates[f"{a} {b}"] for a, b in found.limiting_links)
        cut += sum(machine.most_tokens_per_s for machine in found.machines if machine.limits)
        assert cut == found.tokens_per_s
